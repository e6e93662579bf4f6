"""The positions that tasks reported last, to compare with a position that has vanished or was changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from mirror.control.control_topics import StatusReader
from mirror.control.reports import Report
from mirror.model import Partition, Position
from mirror.settings import Flow


def reported_positions(flow: Flow, wanted: Collection[Partition], partitions: int) -> dict[Partition, Position]:
    """The newest reported position of each wanted partition; the flow has `partitions` partitions in all.

    It reads only the end of the status topic, because every running task keeps reporting each of its partitions.
    Raises ClusterAway.
    """
    reports = (dated.report for dated in StatusReader.recent(flow, partitions))
    return newest_positions(report for report in reports if report.partition in wanted)


def newest_positions(reports: Iterable[Report]) -> dict[Partition, Position]:
    """The newest position of each partition. Within one topic the furthest counts: a replaced task may still report."""
    newest: dict[Partition, Position] = {}
    for report in reports:
        if report.topic_id and report.position >= 0:
            position = Position(report.position, report.topic_id, remote_id=report.remote_id, resets=report.resets)
            newest = newer(newest, {report.partition: position})
    return newest


def newer(positions: dict[Partition, Position], others: Mapping[Partition, Position]) -> dict[Partition, Position]:
    """Update `positions` with the `others` that are further, or that belong to a recreated topic: these came later."""
    for partition, position in others.items():
        before = positions.get(partition)
        if before is None or before.topic_id != position.topic_id or before.progress <= position.progress:
            positions[partition] = position
    return positions
