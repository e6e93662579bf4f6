"""The positions that tasks have reported last: what is known of a position that has vanished, or was changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from mirror.control.reports import Report
from mirror.control.topics import StatusReader
from mirror.model import Partition, Position
from mirror.settings import Flow


def reported_positions(flow: Flow, wanted: Collection[Partition], partitions: int) -> dict[Partition, Position]:
    """The newest reported position of each wanted partition, of a flow with so many `partitions`.

    Only the end of the status topic is read, where every running task has reported each of its partitions. Raises
    ClusterAway.
    """
    reports = (heard.report for heard in StatusReader.recent(flow, partitions))
    return newest_positions(report for report in reports if report.partition in wanted)


def newest_positions(reports: Iterable[Report]) -> dict[Partition, Position]:
    """By partition. An older task may still report: of the same topic the position that is further counts."""
    newest: dict[Partition, Position] = {}
    for report in reports:
        if report.topic_id and report.position >= 0:
            position = Position(report.position, report.topic_id, remote_id=report.remote_id, resets=report.resets)
            newest = newer(newest, {report.partition: position})
    return newest


def newer(positions: dict[Partition, Position], others: Mapping[Partition, Position]) -> dict[Partition, Position]:
    """`positions` with those of `others` that are further, or of another topic of the name: these came later."""
    for partition, position in others.items():
        before = positions.get(partition)
        if before is None or before.topic_id != position.topic_id or before.progress <= position.progress:
            positions[partition] = position
    return positions
