"""`python -m tests.chaos`: rounds of every row of the fault matrix, then a random schedule; see --help."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.chaos.arena import Arena
from tests.chaos.disk import CannotRun
from tests.chaos.hand_overs import HandOvers
from tests.chaos.matrix import Row
from tests.chaos.own_recorders import TRANSFORM, is_dropped
from tests.chaos.recorder import Recorder
from tests.chaos.rows import ROWS, rows_for
from tests.chaos.shared import SharedRecorder, settings
from tests.harness.service import DECIDED, PASSED_OVER, REFUSED

RANDOM = "random"
ANY = "any of them, at random"
# What results are named after, besides their row.
MODES = (" (active/active)", " (with a transform)", " (whole batches)")
ROUNDS_TOGETHER = 5  # at random, in one recording
LONG = 15.0  # seconds without progress that one wants to know the reason of


@dataclass
class Total:
    """What the rounds of one row came to."""

    name: str
    rounds: int = 0
    records: int = 0
    samples: int = 0
    samples_in_faults: int = 0
    violations: list[str] = field(default_factory=list)
    longest_stall: float = 0.0  # seconds
    seeds: list[int] = field(default_factory=list)
    group_samples: int = 0  # offsets of groups that I10 has judged; results from before I10 have none
    hand_overs: int = 0  # from one data path to the other

    def plus(self, other: Total) -> Total:
        """The sum of both totals."""
        return Total(
            name=self.name,
            rounds=self.rounds + other.rounds,
            records=self.records + other.records,
            samples=self.samples + other.samples,
            samples_in_faults=self.samples_in_faults + other.samples_in_faults,
            violations=self.violations + other.violations,
            longest_stall=max(self.longest_stall, other.longest_stall),
            seeds=self.seeds + other.seeds,
            group_samples=self.group_samples + other.group_samples,
            hand_overs=self.hand_overs + other.hand_overs,
        )


def play(arena: Arena, rows: Sequence[Row], seed: int, total: Total, shared: bool = False) -> None:
    """One recording: load, faults at random moments one after another, and the judgement.

    `shared`: on both clusters, whose programs write to the same topic.
    """
    rng = random.Random(seed)
    total.seeds.append(seed)
    defects, said_before = len(arena.defects()), len(arena.lines())
    try:
        with (SharedRecorder if shared else rows[0].recorder).at(arena) as recorder:
            recorder.await_first()
            hand_overs = HandOvers(arena, recorder.topic, random.Random(seed))
            with hand_overs if arena.batches else contextlib.nullcontext():
                for number, row in enumerate(rows):
                    recorder.turn = seed * row.together + number  # the seeds of a row's recordings follow each other
                    time.sleep(rng.uniform(0, 0.5))
                    total.rounds += _round(arena, row, rng, recorder)
            histories = recorder.finish()
        total.hand_overs += hand_overs.seen
        for number, recorded in enumerate(histories):
            decided = arena.find(DECIDED, topic=recorder.topic, partition=number)
            history = recorder.chosen(recorded, number, decided)
            total.records += len(history.target)
            total.samples += len(history.samples)
            total.samples_in_faults += sum(sample.during_fault for sample in history.samples)
            said = [f"seed {seed}, {recorder.topic}-{number}: {v.invariant} {v.what}" for v in recorder.judge(history)]
            total.violations += said[:20]
        total.group_samples += recorder.groups.sampled
        total.violations += _false_alarms(arena, recorder, seed)
        total.violations += [f"seed {seed}: {complaint}" for complaint in recorder.complaints]
        if ended := arena.ended():
            total.violations += [f"seed {seed}: {each}" for each in ended]
            arena.heal()
        total.longest_stall = max([total.longest_stall, *recorder.stalls])
        if total.longest_stall > LONG:
            print("\n".join(["   what the service said:", *arena.lines()[said_before:]]), flush=True)
    except Exception as error:  # the round could not be judged: that counts as well
        traceback.print_exc()
        total.violations.append(f"seed {seed}: {type(error).__name__}: {str(error)[:2000]}")
        total.violations += [f"seed {seed}: {ended}" for ended in arena.ended()]
        arena.heal()
    total.violations += [f"seed {seed}: {what}" for what in arena.defects()[defects:]]


def _round(arena: Arena, row: Row, rng: random.Random, recorder: Recorder) -> bool:
    """One fault, until there is progress again; False if this machine does not allow it."""
    before = recorder.sampled()
    recorder.watch.during_fault = True
    try:
        row.fault(arena, rng, recorder)
        recorder.await_progress()
        recorder.await_samples(before)
        recorder.keep_commits()
        return True
    except CannotRun as error:
        print(f"   cannot run here: {error}", flush=True)
        return False
    finally:
        recorder.watch.during_fault = False


def _false_alarms(arena: Arena, recorder: Recorder, seed: int) -> list[str]:
    """What mirror says it has passed over, where less was lost or refused. It may say the same twice.

    Two topics of the same name may lose the same offsets, so the topic's id counts.
    """
    events = [event for message in (PASSED_OVER, REFUSED) for event in arena.find(message, topic=recorder.topic)]
    different = {(event["partition"], event["reason"], event.get("topic_id")) for event in events}
    said = Counter(number for number, _, _ in different)
    return [
        f"seed {seed}: told {said[number]} times of a loss, {recorder.losses[number]} were there: {events}"
        for number in said.keys() | recorder.losses.keys()
        if said[number] != recorder.losses[number]
    ]


def schedule(
    rows: Mapping[str, Row], names: Sequence[str], rounds: int, randoms: int, seed: int
) -> Iterator[tuple[str, int, list[Row]]]:
    """Name, seed and faults of each recording: some rounds of one row, or of the random schedule, share one."""
    together = [row for row in rows.values() if row.everywhere]
    for name in names:
        for done in range(0, rounds, ROWS[name].together):
            yield name, seed, [ROWS[name]] * min(ROWS[name].together, rounds - done)
            seed += 1
    for done in range(0, randoms, ROUNDS_TOGETHER):
        yield RANDOM, seed, random.Random(seed).sample(together, min(ROUNDS_TOGETHER, randoms - done))
        seed += 1


def table(totals: Iterable[Total]) -> str:
    """The results as a table in Markdown."""
    columns = ("row", "rounds", "records", "samples (until progress)", "group samples", "hand-overs", "violations")
    lines = [f"| {' | '.join(columns)} | longest stall |", "|---" * (len(columns) + 1) + "|"]
    for t in totals:
        samples, stall = f"{t.samples:,} ({t.samples_in_faults:,})", f"{t.longest_stall:.1f} s"
        counts = (
            f"{t.rounds} | {t.records:,} | {samples} | {t.group_samples:,} | {t.hand_overs:,} | {len(t.violations)}"
        )
        lines.append(f"| {t.name} | {counts} | {stall} |")
    return "\n".join(lines)


def merge(known: dict[str, Total], total: Total) -> None:
    """Add to what is known of the same row."""
    known[total.name] = known[total.name].plus(total) if total.name in known else total


def add(total: Total, file: Path) -> list[Total]:
    """Add to the results that a file has; returns all of them, in the matrix's order."""
    known = {each["name"]: Total(**each) for each in json.loads(file.read_text())} if file.exists() else {}
    merge(known, total)
    order = {f"{row.name}{mode}": place for mode in ("", *MODES) for place, row in enumerate(ROWS.values())}
    found = sorted(known.values(), key=lambda total: order.get(total.name, len(order)))
    lines = (f" {json.dumps(asdict(total))}" for total in found)
    file.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    return found


def options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="of each row (default 1)")
    parser.add_argument("--random", type=int, default=5, help="rounds of faults drawn at random (default 5)")
    parser.add_argument("--minutes", type=float, help="stop after so many minutes")
    parser.add_argument("--rows", help=f"only these, separated by commas: {', '.join(ROWS)}")
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--active-active", action="store_true", help="programs write to the topic on both sides")
    either.add_argument("--transform", action="store_true", help="with a transform that drops a third of the records")
    either.add_argument("--batches", action="store_true", help="with data_path: auto, and hand-overs during all faults")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="of the first round")
    parser.add_argument("--json", type=Path, help="add the results to those of this file")
    asked = parser.parse_args()
    if unknown := set((asked.rows or "").split(",")) - {"", *rows_for(asked.batches)}:
        parser.error(f"no row is called {', '.join(sorted(unknown))}, or it needs --batches")
    return asked


class Results:
    """What all recordings have come to."""

    def __init__(self, file: Path | None) -> None:
        """`file` has the results of other runs, too; None: these are not kept."""
        self._file = file
        self._totals: dict[str, Total] = {}
        self._of_file: list[Total] = []
        self._missing: Counter[str] = Counter()  # rounds that this machine does not allow, or that ended by an error

    def take(self, total: Total, rounds: int) -> None:
        """Add a recording, of which so many rounds were wanted."""
        if total.rounds < rounds:
            self._missing[total.name] += rounds - total.rounds
        if not (total.rounds or total.violations):  # else it would look as if the row had been played
            return
        merge(self._totals, total)
        if self._file:  # now, for it may be hours until the last one
            self._of_file = add(total, self._file)

    def told(self) -> str:
        """All of it in words."""
        told = [table(self._totals.values())]
        if self._of_file:
            told.append(f"all in {self._file}:\n{table(self._of_file)}")
        told += [f"NOT PLAYED: {rounds} rounds of {name}" for name, rounds in self._missing.items()]
        return "\n".join(told)

    @property
    def code(self) -> int:
        """The exit code: 1 if anything was violated, or not played."""
        return int(bool(self._missing) or any(total.violations for total in self._totals.values()))


def main() -> int:
    """Play all rounds; 1 if anything was violated, or could not be played."""
    asked = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # mounts and services must not stay
    shared = asked.active_active
    modes = zip(MODES, (shared, asked.transform, asked.batches), strict=True)
    mode = next((name for name, wanted in modes if wanted), "")
    if asked.transform:
        Recorder.drops = staticmethod(is_dropped)
    known = rows_for(asked.batches)
    rows_ = {n: row for n, row in known.items() if not shared or (row.everywhere and row.recorder is Recorder)}
    names = (
        asked.rows.split(",")
        if asked.rows
        else [name for name, row in rows_.items() if not asked.transform or row.recorder is Recorder]
    )
    recordings = list(schedule(rows_, names, asked.rounds, asked.random, asked.seed))
    results = Results(asked.json)
    deadline = time.monotonic() + asked.minutes * 60 if asked.minutes else float("inf")
    print(f"seed {asked.seed}: --seed {asked.seed} repeats this run", flush=True)
    place = os.environ.get("MIRROR_CACHE")
    with (
        tempfile.TemporaryDirectory(prefix="chaos-", dir=place, ignore_cleanup_errors=True) as directory,
        Arena(
            Path(directory),
            make=settings if shared else None,
            transform=TRANSFORM if asked.transform else None,
            batches=asked.batches,
        ) as arena,
    ):
        for number, (name, seed, rows) in enumerate(recordings, 1):
            if time.monotonic() > deadline:
                break
            print(f"{time.strftime('%X')} recording {number} of {len(recordings)}, seed {seed}: ", end="")
            print(" + ".join(row.name for row in rows), flush=True)
            total = Total(f"{ROWS[name].name if name in ROWS else ANY}{mode}")
            play(arena, rows, seed, total, shared)
            for violation in total.violations:
                print(f"   VIOLATION {violation}", flush=True)
            results.take(total, len(rows))
    print(results.told())
    return results.code


if __name__ == "__main__":
    sys.exit(main())
