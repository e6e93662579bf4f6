"""`python -m tests.chaos.soak`: load for an hour with a random fault each minute; nothing may grow.

Needs matplotlib (`pip install -e '.[dev,bench]'`) for the picture.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
from matplotlib import pyplot as plt

from tests.chaos.__main__ import Total, play, table
from tests.chaos.arena import Arena
from tests.chaos.matrix import Row
from tests.chaos.recorder import Recorder
from tests.chaos.rows import rows_for
from tests.harness.plots import plot_style

EVERY = 60.0  # seconds from one fault to the next
TOGETHER = 5  # faults in one recording
SAMPLE_INTERVAL = 5.0  # seconds
SETTLING = 600.0  # seconds until everything that is allocated once has been
WINDOW = 600.0  # seconds at either end of the rest whose medians are compared
GROWTH = 1.1  # of memory that is still noise
FEW = {"threads": 3, "open files": 6, "sockets": 3}  # come and go: a client's thread for a broker has a pipe
ENDS_A_PROCESS = {
    "service",
    "jvm",
    "checkpoint",
    "second-service",
    "skewed-service",
    "rescale",
    "worker",
    "worker-at-step",
    "worker-hangs",
    "worker-hangs-at-step",
    "local-disk-full",
    "answers-cut-off",  # these three kill a worker where only a new one asks
    "garbage-answers",
    "no-answers",
}  # what one process gains in an hour is to be seen
WORKER = "pyspark.daemon pyspark.worker"  # a parent and the workers that it has forked
KINDS = ("service", "Spark's JVM", "workers")  # which have to last
MEMORY = "memory, MiB"
MEASURES = (MEMORY, "threads", "open files", "sockets")


class Sample(NamedTuple):
    """One process."""

    at: float  # seconds since the start
    values: tuple[float, ...]  # as MEASURES


Series = dict[tuple[str, int], list[Sample]]  # by kind and process id


def kind(process: psutil.Process) -> str:
    """What a process of the service is for."""
    line = " ".join(process.cmdline())
    if "org.apache.spark.deploy" in line:
        return "Spark's JVM"
    if "mirror run" in line:
        return "service"
    if not line.endswith(WORKER):
        return "Python helpers of the source"
    parent = process.parent()
    return "workers" if parent and " ".join(parent.cmdline()).endswith(WORKER) else "the workers' parent"


class Meter(threading.Thread):
    """Samples the processes of the arena's service until `stop`."""

    def __init__(self, arena: Arena) -> None:
        super().__init__(daemon=True, name="meter")
        self.series: Series = defaultdict(list)
        self._arena = arena
        self._begun = time.monotonic()
        self._stopping = threading.Event()

    def run(self) -> None:
        """Take samples."""
        while not self._stopping.wait(SAMPLE_INTERVAL):
            at = time.monotonic() - self._begun
            for process in self._arena.service.processes():
                with contextlib.suppress(psutil.Error):
                    sockets = len(process.net_connections())
                    memory = process.memory_full_info().pss / 2**20
                    values = (memory, process.num_threads(), process.num_fds() - sockets, sockets)
                    self.series[kind(process), process.pid].append(Sample(at, values))

    def stop(self) -> None:
        """Take no more."""
        self._stopping.set()
        self.join()


def grown(series: Mapping[tuple[str, int], Sequence[Sample]], end: float) -> list[str]:
    """What was more in the last minutes before `end` than in the first ones after settling, in words."""
    if end < SETTLING + 2 * WINDOW:
        return [f"{end / 60:.0f} minutes are too short a run to tell"]
    lasting = {name for name, samples in series.items() if samples[0].at < SETTLING and samples[-1].at > end - EVERY}
    problems = [f"no process lasts: {each}" for each in KINDS if each not in {name for name, _ in lasting}]
    for name, pid in sorted(lasting):
        samples = series[name, pid]
        early = [s for s in samples if SETTLING <= s.at < SETTLING + WINDOW]
        late = [s for s in samples if s.at >= end - WINDOW]
        for place, measure in enumerate(MEASURES):
            before, after = (statistics.median(s.values[place] for s in part) for part in (early, late))
            print(f"{name} {pid}: {measure} {before:.0f} -> {after:.0f}")
            if after > (before * GROWTH if measure == MEMORY else before + FEW[measure]):
                problems.append(f"{name} {pid}: {measure} grew from {before:.0f} to {after:.0f}")
    return problems


def plot(series: Mapping[tuple[str, int], Sequence[Sample]], faults: Sequence[float], file: Path) -> None:
    """One panel for each measure, a tick for each fault."""
    plot_style()
    colors = {name: f"C{number}" for number, name in enumerate(sorted({name for name, _ in series}))}
    figure, axes = plt.subplots(2, 2, figsize=(9, 5), layout="constrained", sharex=True)
    for place, (measure, axis) in enumerate(zip(MEASURES, axes.flat, strict=True)):
        labelled: set[str] = set()
        for (name, _), samples in sorted(series.items()):
            label = f"_{name}" if name in labelled else name
            axis.plot(
                [s.at / 60 for s in samples],
                [s.values[place] for s in samples],
                label=label,
                color=colors[name],
                linewidth=1,
            )
            labelled.add(name)
        axis.set_ylim(bottom=0)
        axis.set_title(measure)
        axis.plot([at / 60 for at in faults], [0] * len(faults), "|", color="#dc2626")
    axes.flat[0].legend(frameon=False, fontsize=7)
    for axis in axes[1]:
        axis.set_xlabel("minutes; a red tick is a fault")
    figure.savefig(file, metadata={"Date": None})


def paced(row: Row, moments: list[float], begun: float) -> Row:
    """The row's fault, not before its minute has come."""

    def fault(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
        due = begun + EVERY * (len(moments) + 1)
        time.sleep(max(0.0, due - time.monotonic()))
        moments.append(time.monotonic() - begun)
        row.fault(arena, rng, recorder)

    return row._replace(fault=fault)


def main() -> int:
    """Soak; 1 if anything was violated or has grown."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--batches", action="store_true", help="with data_path: auto, and hand-overs all the time")
    parser.add_argument("--picture", type=Path, default=Path("docs/soak.svg"))
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # mounts and services must not stay
    print(f"seed {asked.seed}: --seed {asked.seed} repeats this run", flush=True)
    rows = [row for key, row in rows_for(asked.batches).items() if row.everywhere and key not in ENDS_A_PROCESS]
    total, moments, seed = Total("soak"), list[float](), asked.seed
    with (
        tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as directory,
        Arena(Path(directory), batches=asked.batches) as arena,
    ):
        meter, begun = Meter(arena), time.monotonic()
        meter.start()
        while time.monotonic() - begun < asked.minutes * 60:
            chosen = random.Random(seed).sample(rows, TOGETHER)
            print(f"{time.strftime('%X')} seed {seed}: {' + '.join(row.name for row in chosen)}", flush=True)
            play(arena, [paced(row, moments, begun) for row in chosen], seed, total)
            seed += 1
        meter.stop()
        ended = time.monotonic() - begun
    print(table([total]))
    for violation in total.violations:
        print(f"VIOLATION {violation}")
    plot(meter.series, moments, asked.picture)
    problems = grown(meter.series, ended)
    for problem in problems:
        print(f"GROWTH {problem}")
    return int(bool(total.violations or problems or not total.rounds))


if __name__ == "__main__":
    sys.exit(main())
