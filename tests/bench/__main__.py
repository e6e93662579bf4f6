"""Measures mirror beside MirrorMaker 2 and the limit.

    python -m tests.bench [MEASURE...] [--systems mirror,mm2,...] [--rounds 3] [--output FILE]

Writes every single result to FILE as JSON, and the tables and pictures of docs/performance.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from mirror.java import MIRROR_MAKER, kafka_jars
from mirror.local_kafka import LocalCluster, start_together
from tests.bench import report
from tests.bench.catch_up import Load
from tests.bench.far import FarAway
from tests.bench.runs import Bench, Result, machine
from tests.bench.systems import SYSTEMS

MILLION = 1_000_000
# The first stands for the targets; the others vary one thing each.
LOADS = [
    Load(3 * MILLION),
    Load(2 * MILLION, 1024),
    Load(6 * MILLION, 100),
    Load(100_000, 10 * 1024),
    Load(2 * MILLION, headers=True),
    Load(2 * MILLION, compression="lz4"),
    Load(2 * MILLION, partitions=1),
    Load(2 * MILLION, partitions=32),
]
DELAY = 0.01  # seconds each way, of a target that is far away
RATES = (50, 1_000, 20_000)


def _catch_up(bench: Bench, a: argparse.Namespace) -> Iterator[Result]:
    for load in LOADS[: a.loads]:
        if load is LOADS[0]:
            yield from bench.catch_up(load, a.rounds)
        else:
            yield from bench.catch_up(load, max(1, a.rounds - 1), [s for s in a.systems if s != "mm2"])


def _latency(bench: Bench, a: argparse.Namespace) -> Iterator[Result]:
    for rate in RATES:
        yield from bench.latency(rate, a.rounds)
    if a.loads > 1:
        yield from bench.latency(1_000, 1, busy=LOADS[0])
        yield from bench.latency(1_000, 1, far=True)


MEASURES: dict[str, Callable[[Bench, argparse.Namespace], Iterator[Result]]] = {
    "catch-up": _catch_up,
    "latency": _latency,
    "pauses": lambda bench, a: bench.pauses(1),
    "partitions": lambda bench, a: bench.partitions([10, 100, 1000]),
}


def _measure(a: argparse.Namespace) -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="mirror-bench-") as directory, contextlib.ExitStack() as stack:
        source, target = (LocalCluster(name, Path(directory), java_options=()) for name in ("source", "target"))
        far = FarAway(target, DELAY)
        stack.callback(source.kill)
        stack.callback(target.kill)
        start_together(source, target)
        bench = Bench(source, target, stack.enter_context(far), Path(directory), a.systems)
        for measure in a.measures or MEASURES:
            yield from MEASURES[measure](bench, a)


def main() -> None:
    """Run measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measures", nargs="*", choices=[*MEASURES, []], default=[])
    parser.add_argument("--systems", type=lambda text: text.split(","), default=list(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loads", type=int, default=len(LOADS), help="how many kinds of load, the main one first")
    parser.add_argument("--output", type=Path, default=Path("docs/performance.json"))
    parser.add_argument("--page", type=Path, default=Path("docs/performance.md"))
    a = parser.parse_args()
    kafka_jars(MIRROR_MAKER, progress=lambda line: print(line, file=sys.stderr))
    results: list[Result] = []
    with contextlib.suppress(KeyboardInterrupt):  # what has been measured by then counts
        for result in _measure(a):
            results.append(result)
            print(json.dumps(result), flush=True)
    a.output.write_text(json.dumps({"machine": machine(), "results": results}, indent=1) + "\n")
    report.write(a.page, results, str(machine()["words"]))


if __name__ == "__main__":
    main()
