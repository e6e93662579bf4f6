"""`mirror verify`: selects the offset ranges, runs the comparison on Spark, and prints progress and result."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TextIO

import click

from mirror.commands.text_table import Cell, table
from mirror.commands.verify.differences import Counts
from mirror.commands.verify.digests import Digester
from mirror.commands.verify.keeping import keep
from mirror.commands.verify.partition_comparison import ComparisonResult
from mirror.commands.verify.ranges import PartitionRanges, Side
from mirror.commands.verify.record_reader import obstacle
from mirror.commands.verify.selection import Selection, select
from mirror.commands.verify.spark_jobs import SparkJobs
from mirror.commands.verify.verify import verify
from mirror.control.verification import Verification
from mirror.kafka.credentials import properties_of
from mirror.model import Partition
from mirror.records.shared_topics import shared_of
from mirror.service_settings import Settings
from mirror.settings import Flow
from mirror.spark import shipping
from mirror.spark.java import java
from mirror.text import plural
from mirror.topic_transform import transform_of

KINDS = ("lost", "duplicated", "reordered", "altered", "extra")
CUT = "header names are compared as the client library reads them, which cuts them at a NUL byte"


@dataclass(frozen=True, slots=True)
class FlowResult:
    """The result of one flow's comparison."""

    flow: str
    results: Sequence[ComparisonResult]
    skipped: Sequence[str]  # compacted topics
    uncopied: Sequence[Partition]
    caveat: str | None  # what of the records could not be compared, and why
    unmarked: Sequence[str] = ()  # topics whose older copies lack the header of active_active
    surplus: Sequence[Partition] = ()  # remote partitions with records that the source's topics do not have

    @staticmethod
    def of(flow: Flow, results: Sequence[ComparisonResult], selection: Selection, caveat: str | None) -> FlowResult:
        """The result of what was selected of a flow."""
        uncopied = [ranges.place for ranges in selection.uncopied]
        beside = selection.unmarked, selection.surplus
        return FlowResult(flow.name, results, selection.compacted, uncopied, caveat, *beside)

    @property
    def equal(self) -> bool:
        """True if records were compared, none differs, and no partition with records is on one side alone."""
        # Empty topics are equal. But if there are records and none of them can be compared, nothing is known.
        some = any(result.compared for result in self.results) or not self.left_out
        return bool(self.results) and some and not self.alone and all(result.equal for result in self.results)

    @property
    def alone(self) -> Sequence[Partition]:
        """The partitions that have records on one side, and nothing that could be compared on the other."""
        return [*self.uncopied, *self.surplus]

    @property
    def whole(self) -> bool:
        """True if everything could be compared."""
        return not (self.left_out or self.skipped or self.unmarked or self.reasons)

    @property
    def reasons(self) -> Sequence[str]:
        """Why partitions could not be compared, each reason once."""
        return list(dict.fromkeys(result.reason for result in self.results if result.reason))

    @property
    def left_out(self) -> int:
        """Number of records that can't be compared, because only one of the logs has them."""
        return sum(each.records for result in self.results for each in result.outside)

    def verification(self) -> Verification:
        """What the service shows of it."""
        total = _total(self.results)
        differences = sum(total[kind] for kind in KINDS)
        return Verification(time.time(), self.equal, total["compared"], differences, self.left_out)

    def as_dict(self, shown: int) -> dict[str, Any]:
        """The result as it is printed with --json, with at most `shown` differences of each partition."""
        partitions = [result.as_dict(shown) for result in self.results]
        left_out = {"skipped": list(self.skipped), "uncopied": [p._asdict() for p in self.uncopied]}
        left_out |= {"surplus": [p._asdict() for p in self.surplus]}
        left_out |= {"unmarked": list(self.unmarked), "caveat": self.caveat}
        verdict = {"equal": self.equal, "not_comparable": self.left_out}
        return {"flow": self.flow, **_total(self.results), **verdict, **left_out, "partitions": partitions}


def run(settings: Settings, flows: Sequence[Flow], topics: Sequence[str], progress: TextIO) -> list[FlowResult]:
    """Compare flows, or only these topics of them, and show the progress on a terminal.

    The result of a whole flow is kept on its control topic.

    Raises SetupError, ConfigError, TransformUnusable, ClusterAway, MirrorError.
    """
    java()
    shipping.check(flows)
    shared_topics = [shared_of(flow) for flow in flows]
    selections = [
        select(f, topics, shared.unmarked if shared else ()) for f, shared in zip(flows, shared_topics, strict=True)
    ]
    caveats = [_caveat(flow) for flow in flows]
    found = []
    with SparkJobs(settings) as jobs:
        for flow, shared, selection, caveat in zip(flows, shared_topics, selections, caveats, strict=True):
            clusters = {cluster.alias: cluster for cluster in (flow.source, flow.target)}
            transforms = _transforms(flow, selection.compared)
            digester = Digester(clusters, librdkafka=caveat is not None, shared=shared, transforms=transforms)
            results = _compare(flow, selection.compared, digester, jobs, progress)
            result = FlowResult.of(flow, results, selection, caveat)
            found.append(result)
            if not topics and (failed := keep(flow, result.verification())):
                click.echo(failed, file=progress)
    return found


def _caveat(flow: Flow) -> str | None:
    """What can't be compared if a cluster needs librdkafka, since then both sides are read through it; else None."""
    for cluster in (flow.source, flow.target):
        if (reason := obstacle(properties_of(cluster))) is not None:
            return f"{CUT}: {cluster.alias}: {reason}"
    return None


def _transforms(flow: Flow, wanted: Sequence[PartitionRanges]) -> dict[tuple[str, str], str]:
    """The dotted paths of the source topics' transforms, by alias and topic."""
    topics = {ranges.source.topic for ranges in wanted}
    return {(flow.source.alias, topic): path for topic in topics if (path := transform_of(flow, topic)) is not None}


def _compare(
    flow: Flow, wanted: Sequence[PartitionRanges], digester: Digester, jobs: SparkJobs, progress: TextIO
) -> list[ComparisonResult]:
    with click.progressbar(length=1000, label=f"{flow.name} ", file=progress, show_pos=False) as bar:

        def report(done: int, total: int) -> None:
            bar.update(max(0, 990 * done // max(1, total) - bar.pos))

        return verify(wanted, digester, jobs, report)


def _total(results: Sequence[ComparisonResult]) -> dict[str, Any]:
    total = sum((result.counts for result in results), Counts())
    return {
        "compared": sum(result.compared for result in results),
        **{kind: getattr(total, kind) for kind in KINDS},
    }


def shown(found: FlowResult, differences: int) -> str:
    """The result as text: a table of the topics, the differences, and a verdict."""
    results = found.results
    headers = ("topic", "partitions", "equal", "in flight", "gone from source", "gone from target", *KINDS)
    rows: list[list[Cell]] = []
    for topic, group in groupby(results, lambda result: result.ranges.source.topic):
        some = list(group)
        if all(result.reason for result in some):
            rows.append([topic, len(some), "not comparable", *[None] * (len(headers) - 3)])
            continue
        counts = sum((result.counts for result in some), Counts())
        numbers: list[Cell] = [sum(getattr(r, name) for r in some) for name in ("compared", "in_flight")]
        gone: list[Cell] = [sum(getattr(r, name) for r in some) for name in ("gone_source", "gone_target")]
        rows.append([topic, len(some), *numbers, *gone, *(getattr(counts, kind) for kind in KINDS)])
    lines = [found.flow, "", table(headers, rows), ""]
    for result in results:
        lines += _differences(result, differences)
        lines += _outside(result)
    lines += [f"  {reason}" for reason in found.reasons]
    lines += [f"  {topic} is compacted, and was not compared" for topic in found.skipped]
    lines += [f"  {topic} was copied before active_active was set, and was not compared" for topic in found.unmarked]
    lines += [f"  {partition} has records, but none was ever copied" for partition in found.uncopied]
    lines += [
        f"  {partition} has records on the target, but the source has no such partition" for partition in found.surplus
    ]
    if not results:
        lines.append("  nothing was compared: no topic that mirror may see matches, or all are compacted or not copied")
    if found.caveat:
        lines.append(f"  {found.caveat}")
    total = _total(results)
    kinds = ", ".join(f"{kind} {total[kind]:,}" for kind in KINDS)
    return "\n".join([*lines, f"{total['compared']:,} records are the same: {kinds}", _verdict(found)])


def _verdict(found: FlowResult) -> str:
    if found.reasons and not found.alone and all(result.equal or result.reason for result in found.results):
        unknown = sum(bool(result.reason) for result in found.results)
        return f"not known to be equal: {plural(unknown, 'partition')} can't be compared"
    if not found.equal:
        return "not equal"
    if not found.left_out:
        return "equal"
    return f"equal in the range that both logs have; {plural(found.left_out, 'record')} can't be compared"


def _differences(result: ComparisonResult, most: int) -> list[str]:
    source, target = result.ranges.source, result.ranges.target
    lines = [
        f"  {difference.kind:<10} {_place(source, difference.upstream)} -> {_place(target, difference.downstream)}"
        for difference in result.differences[:most]
    ]
    more = len(result.differences) - most
    if more > 0:
        lines.append(f"  {source.topic}-{source.partition}: {more:,} more")
    if result.unseen:
        lines.append(
            f"  {source.topic}-{source.partition}: too many differences, {plural(result.unseen, 'record')} only counted"
        )
    return [*lines, ""] if lines else []


def _outside(result: ComparisonResult) -> list[str]:
    """Lines about records that can't be compared."""
    source, target = result.ranges.source, result.ranges.target
    lines = []
    for each in result.outside:
        other = target if each.side is source else source
        reason = f"{other.cluster} does not have them"
        if not result.aligned:
            reason = "nothing says which records of both sides belong together"
        where = f"{each.side.cluster} {each.side.topic}-{each.side.partition} offsets {each.first} to {each.last}"
        lines.append(f"  not comparable: {where}, {plural(each.records, 'record')}: {reason}")
    return [*lines, ""] if lines else []


def _place(side: Side, offset: int | None) -> str:
    return "nothing" if offset is None else f"{side.cluster} {side.topic}-{side.partition} offset {offset}"
