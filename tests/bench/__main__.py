"""Measures mirror beside MirrorMaker 2 and the limit.

    python -m tests.bench [MEASURE...] [--systems mirror,mm2,...] [--rounds 3] [--output FILE]

Writes every single result to FILE as JSON, where it replaces those of the same loads and measures, and the tables and
pictures of docs/performance.md. Eight are run only when they are named: `tuning` looks for MirrorMaker's best tuning,
`groups` measures how exactly the offsets of consumer groups arrive, `map` what the offset map costs, `many` what ten
thousand partitions take, `scale` what more executors bring, `encrypted` what TLS costs, `profile` where a task
spends its time, and `hand-over` a catch-up in whole batches that begins within one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import psutil

from mirror.demo.brokers import start_together
from mirror.demo.kafka_jars import KAFKA_VERSION, MIRROR_MAKER, kafka_jars
from tests.bench import plot, report
from tests.bench.catch_up import Load
from tests.bench.clusters import cluster
from tests.bench.distance import AUTOTUNED, DISTANCES, Distance, autotuned
from tests.bench.runs import Bench, Result
from tests.bench.systems import SYSTEMS
from tests.bench.tables import load_label
from tests.harness.link import Link

MILLION = 1_000_000
# The first stands for the targets; the others vary one thing each.
LOADS = [
    Load(3 * MILLION),
    Load(2 * MILLION, 1024),
    Load(6 * MILLION, 100),
    Load(300_000, 10 * 1024),
    Load(2 * MILLION, headers=True),
    Load(10 * MILLION, compression="lz4"),
    Load(2 * MILLION, partitions=1),
    Load(2 * MILLION, partitions=32),
    Load(3 * MILLION, batch_bytes=16_384),  # as Java's producers make them
    Load(3 * MILLION, batch_bytes=16_384, compression="lz4"),
    Load(300_000, batch_bytes=1),
]
REPLICATED = [LOADS[0], Load(3 * MILLION, batch_bytes=16_384, compression="lz4")]
ENCRYPTED = [LOADS[number] for number in (0, 5, 8, 9)]
HAND_OVER = Load(10 * MILLION, partitions=1, name="hand-over")
BUSY = Load(36 * MILLION)  # more than is copied while something else is measured
REHEARSAL = 8.0  # minutes
ROUND_TRIP = 0.02  # seconds, to a target that is far away, where latency is measured
RATES = (50, 1_000, 20_000)
TASKS = (1, 2, 4)


def _catch_up(bench: Bench, a: argparse.Namespace) -> Iterator[Result]:
    for load in (LOADS[number] for number in a.loads):
        yield from bench.catch_up(load, a.rounds, [s for s in a.systems if s != "mm2" or load is LOADS[0]])


def _replicated(bench: Bench, a: argparse.Namespace) -> Iterator[Result]:
    with bench.replicated() as three:
        for load in REPLICATED:
            yield from three.catch_up(load, a.rounds, [s for s in a.systems if s != "mm2"], "replicated")


def _far(bench: Bench, a: argparse.Namespace) -> Iterator[Result]:
    def over(distance: Distance) -> Iterator[Result]:
        compared = ("mirror", "mirror-auto", "mm2-tuned") if distance.compared else ("mirror", "mirror-auto")
        yield from bench.far(distance, a.rounds, [s for s in a.systems if s in compared])

    for distance in DISTANCES:
        yield from over(distance)
    with autotuned(bench.source, bench.target):
        for distance in AUTOTUNED:
            yield from over(distance)


def _latency(bench: Bench, a: argparse.Namespace) -> Iterator[Result]:
    bench.rehearse(a.rehearsal)
    for rate in RATES:
        yield from bench.latency(rate, a.rounds)
    if len(a.loads) > 1:
        yield from bench.latency(1_000, max(1, a.rounds - 1), busy=BUSY)
        yield from bench.latency(1_000, a.rounds, round_trip=ROUND_TRIP)


def _pauses(bench: Bench, a: argparse.Namespace) -> Iterator[Result]:
    for partitions in (4, 2):
        yield from bench.pauses(max(1, a.rounds - 1), partitions)


MEASURES: dict[str, Callable[[Bench, argparse.Namespace], Iterator[Result]]] = {
    "catch-up": _catch_up,
    "replicated": _replicated,
    "far": _far,
    "latency": _latency,
    "pauses": _pauses,
    "partitions": lambda bench, a: bench.partitions({10: 1.0, 100: 1.0, 1_000: 1.0}),
}
NAMED = MEASURES | {
    "many": lambda bench, a: bench.partitions({10_000: 20.0}, "many"),
    "hand-over": lambda bench, a: bench.hand_over(HAND_OVER, a.rounds),
    "scale": lambda bench, a: bench.scale(TASKS, a.rounds),
    "encrypted": lambda bench, a: bench.encrypted(ENCRYPTED, a.rounds),
    "profile": lambda bench, a: bench.profile(a.rounds),
    "groups": lambda bench, a: bench.groups(),
    "map": lambda bench, a: bench.offset_map(LOADS[1], a.rounds),
    "tuning": lambda bench, a: bench.tuning(LOADS[0], a.rounds),
}


def _measure(a: argparse.Namespace) -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="mirror-bench-") as directory, contextlib.ExitStack() as stack:
        source, target = (cluster(name, Path(directory)) for name in ("source", "target"))
        link = Link(Path(directory) / "link.log")
        if {"far", "latency"} & set(a.measures or MEASURES):
            stack.enter_context(link.hosts(source, target))
        stack.callback(source.kill)
        stack.callback(target.kill)
        start_together(source, target)
        bench = Bench(source, target, link, Path(directory), a.systems)
        for measure in a.measures or MEASURES:
            yield from NAMED[measure](bench, a)


def _numbers(text: str) -> list[int]:
    """Numbers of LOADS. Raises ValueError, which argparse takes."""
    found = [int(number) for number in text.split(",")]
    if not set(found) <= set(range(len(LOADS))):
        raise ValueError(text)
    return found


def main() -> None:
    """Run measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measures", nargs="*", choices=[*NAMED, []], default=[])
    parser.add_argument("--systems", type=lambda text: text.split(","), default=list(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=3)
    numbers = ", ".join(f"{number}: {load_label(asdict(load))}" for number, load in enumerate(LOADS))
    parser.add_argument("--loads", type=_numbers, default=range(len(LOADS)), help=f"of a catch-up ({numbers})")
    parser.add_argument("--rehearsal", type=float, default=REHEARSAL, help="minutes before latency is measured")
    parser.add_argument("--output", type=Path, default=Path("docs/performance.json"))
    parser.add_argument("--page", type=Path, default=Path("docs/performance.md"))
    a = parser.parse_args()
    kafka_jars(MIRROR_MAKER, progress=lambda line: print(line, file=sys.stderr))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # or its clusters would stay, and what it has found be lost
    results: list[Result] = []
    try:
        for result in _measure(a):
            results.append({**result, "at": time.strftime("%Y-%m-%d %H:%M")})
            print(json.dumps(results[-1]), flush=True)
    except KeyboardInterrupt:
        pass  # what has been measured by then counts
    finally:
        together = _with_others(results, a.output)
        a.output.write_text(json.dumps({"machine": machine(), "results": together}, indent=1) + "\n")
        report.write(a.page, together, str(machine()["words"]))
        plot.draw(a.page.with_name("performance.svg"), together)


def machine() -> Result:
    """What it ran on."""
    cores, memory = os.cpu_count() or 0, psutil.virtual_memory().total
    python = ".".join(platform.python_version_tuple()[:2])
    words = f"with {cores} cores and {memory / 2**30:.0f} GiB for everything, Kafka {KAFKA_VERSION}, Python {python}"
    return {"words": words, "cores": cores, "memory_bytes": memory, "kafka": KAFKA_VERSION}


def _with_others(results: list[Result], file: Path) -> list[Result]:
    """These results, and from the file those of what was not measured now."""
    measured = {report.what(result) for result in results}
    before = json.loads(file.read_text())["results"] if file.exists() else []
    return [r for r in before if report.what(r) not in measured] + results


if __name__ == "__main__":
    main()
