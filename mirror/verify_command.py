"""What `mirror verify` does around the comparison: the bounds, the Spark job, the progress, the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TextIO

import click

from mirror import bounds
from mirror.compare import Counts
from mirror.java import java
from mirror.plan import Partition
from mirror.scan import Scanner
from mirror.settings import Flow, Settings
from mirror.spark_job import SparkJobs
from mirror.tables import Cell, table
from mirror.verify import Result, verify

KINDS = ("lost", "duplicated", "reordered", "altered", "extra")


@dataclass(frozen=True, slots=True)
class Found:
    """What was found in one flow."""

    flow: str
    results: Sequence[Result]
    skipped: Sequence[str]  # compacted topics
    uncopied: Sequence[Partition]

    @property
    def equal(self) -> bool:
        """Is something compared, nothing different, and nothing not copied at all?"""
        return bool(self.results) and not self.uncopied and all(result.counts.equal for result in self.results)

    def as_dict(self, shown: int) -> dict[str, Any]:
        """For JSON, with at most so many differences of each partition."""
        partitions = [result.as_dict(shown) for result in self.results]
        left_out = {"skipped": list(self.skipped), "uncopied": [p._asdict() for p in self.uncopied]}
        return {"flow": self.flow, **_total(self.results), "equal": self.equal, **left_out, "partitions": partitions}


def run(settings: Settings, flows: Sequence[Flow], topics: Sequence[str], progress: TextIO) -> list[Found]:
    """Compare flows, or these topics of them, with progress on a terminal.

    Raises SetupError, ConfigError, ClusterAway, MirrorError.
    """
    java()
    scopes = [bounds.find(flow, topics) for flow in flows]
    with SparkJobs(settings) as jobs:
        return [
            Found(flow.name, _compare(flow, scope.compared, jobs, progress), scope.compacted, scope.uncopied)
            for flow, scope in zip(flows, scopes, strict=True)
        ]


def _compare(flow: Flow, wanted: Sequence[bounds.Bounds], jobs: SparkJobs, progress: TextIO) -> list[Result]:
    scanner = Scanner({cluster.alias: cluster for cluster in (flow.source, flow.target)})
    with click.progressbar(length=1000, label=f"{flow.name} ", file=progress, show_pos=False) as bar:

        def tell(what: str, done: int, total: int) -> None:
            # Reading is nearly all the work.
            share = 0.9 * done / total if what == "reading" else 0.95
            bar.update(max(0, int(1000 * share) - bar.pos))

        return verify(wanted, scanner, jobs, tell)


def _total(results: Sequence[Result]) -> dict[str, Any]:
    total = sum((result.counts for result in results), Counts())
    return {
        "compared": sum(result.compared for result in results),
        **{kind: getattr(total, kind) for kind in KINDS},
    }


def shown(found: Found, differences: int) -> str:
    """For people: a table of the flow's topics, the differences, and a verdict."""
    results = found.results
    rows: list[list[Cell]] = []
    for topic, group in groupby(results, lambda result: result.bounds.source.topic):
        some = list(group)
        counts = sum((result.counts for result in some), Counts())
        numbers: list[Cell] = [sum(getattr(r, name) for r in some) for name in ("compared", "in_flight")]
        gone: list[Cell] = [sum(getattr(r, name) for r in some) for name in ("gone_source", "gone_target")]
        rows.append([topic, len(some), *numbers, *gone, *(getattr(counts, kind) for kind in KINDS)])
    headers = ("topic", "partitions", "equal", "in flight", "gone from source", "gone from target", *KINDS)
    lines = [found.flow, "", table(headers, rows), ""]
    for result in results:
        lines += _differences(result, differences)
    lines += [f"  {topic} is compacted, and was not compared" for topic in found.skipped]
    lines += [f"  {partition} has records, and nothing of it was ever copied" for partition in found.uncopied]
    if not results:
        lines.append("  nothing was compared: no topic that mirror may see matches, or all are compacted or not copied")
    total = _total(results)
    verdict = ", ".join(f"{kind} {total[kind]:,}" for kind in KINDS)
    return "\n".join([*lines, f"{total['compared']:,} records are the same: {verdict}"])


def _differences(result: Result, most: int) -> list[str]:
    source, target = result.bounds.source, result.bounds.target
    lines = [
        f"  {difference.kind:<10} {_place(source, difference.upstream)} -> {_place(target, difference.downstream)}"
        for difference in result.differences[:most]
    ]
    more = len(result.differences) - most
    if more > 0:
        lines.append(f"  {source.topic}-{source.partition}: {more:,} more")
    if result.unseen:
        lines.append(f"  {source.topic}-{source.partition}: too much differs, {result.unseen:,} records only counted")
    return [*lines, ""] if lines else []


def _place(side: bounds.Side, offset: int | None) -> str:
    return "nothing" if offset is None else f"{side.cluster} {side.topic}-{side.partition} offset {offset}"
