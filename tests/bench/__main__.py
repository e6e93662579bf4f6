"""Measures mirror beside MirrorMaker 2 and the limit.

    python -m tests.bench [MEASURE...] [--systems mirror,mm2,...] [--rounds 3] [--output FILE]

Writes every single result to FILE as JSON, and with all measures docs/performance.md and its pictures.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from mirror.java import MIRROR_MAKER, kafka_jars
from mirror.local_kafka import LocalCluster, start_together
from tests.bench.catch_up import Load
from tests.bench.runs import Bench, Result, machine
from tests.bench.systems import SYSTEMS


def _catch_up(bench: Bench, a: argparse.Namespace) -> Iterator[Result]:
    yield from bench.catch_up(Load(a.records, a.size, a.partitions, a.headers, a.compression), a.rounds)


def _latency(bench: Bench, a: argparse.Namespace) -> Iterator[Result]:
    for rate in a.rates:
        yield from bench.latency(rate, a.rounds)


MEASURES: dict[str, Callable[[Bench, argparse.Namespace], Iterator[Result]]] = {
    "catch-up": _catch_up,
    "latency": _latency,
    "pauses": lambda bench, a: bench.pauses(a.rounds),
    "partitions": lambda bench, a: bench.partitions([10, 100, 1000]),
}


def main() -> None:
    """Run measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measures", nargs="*", choices=[*MEASURES, []], default=[])
    parser.add_argument("--systems", type=lambda text: text.split(","), default=list(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--headers", action="store_true")
    parser.add_argument("--compression", default="none")
    parser.add_argument("--rates", type=lambda text: [int(r) for r in text.split(",")], default=[50, 1000, 20000])
    parser.add_argument("--output", type=Path)
    a = parser.parse_args()
    kafka_jars(MIRROR_MAKER, progress=lambda line: print(line, file=sys.stderr))
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="mirror-bench-") as directory:
        source, target = LocalCluster("source", Path(directory)), LocalCluster("target", Path(directory))
        start_together(source, target)
        bench = Bench(source, target, Path(directory), a.systems)
        try:
            for measure in a.measures or MEASURES:
                for result in MEASURES[measure](bench, a):
                    results.append(result)
                    print(json.dumps(result), flush=True)
        finally:
            source.kill()
            target.kill()
    if a.output:
        what = {"machine": machine(), "at": time.strftime("%Y-%m-%d"), "results": results}
        a.output.write_text(json.dumps(what, indent=1) + "\n")


if __name__ == "__main__":
    main()
