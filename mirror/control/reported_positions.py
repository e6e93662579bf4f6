"""The positions that tasks reported last, to compare with a position that has vanished or was changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mirror.control.control_topics import StatusReader
from mirror.control.reports import Report
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition, Position, Topic
from mirror.settings import Flow


def reported_positions(flow: Flow, wanted: Mapping[Partition, Topic], partitions: int) -> dict[Partition, Position]:
    """The newest reported position of each wanted partition; the flow has `partitions` partitions in all.

    Running tasks keep reporting their partitions, so their reports are at the end of the status topic. The rest of the
    topic is read only if a wanted partition is not among them: it is new, or nobody has reported it for long, because
    its topic was left out.
    Raises ClusterAway.
    """
    remotes = {partition: topic.remote for partition, topic in wanted.items()}
    found = set[Partition]()
    recent = _noting(StatusReader.recent(flow, partitions, wanted), found)
    positions = newest_positions(of_this_copy(recent, flow.group, remotes))
    if older := wanted.keys() - found:
        last = newest_positions(of_this_copy(StatusReader.last(flow, older), flow.group, remotes))
        ids = _ids(flow, {wanted[each] for each in last})
        positions |= {each: at for each, at in last.items() if at.remote_id in ("", ids[remotes[each]])}
    return positions


def _noting(reports: Iterable[Report], found: set[Partition]) -> Iterator[Report]:
    """These reports, one at a time; their partitions are added to `found`."""
    for report in reports:
        found.add(report.partition)
        yield report


def _ids(flow: Flow, topics: Iterable[Topic]) -> dict[str, str]:
    """The id of each remote topic, by name; "" if it does not exist: then its copy is gone, and is made anew.

    The target is asked only for what the plan does not say: a broker may have old metadata.
    """
    known = {topic.remote: topic.remote_id for topic in topics}
    unknown = sorted(name for name, remote_id in known.items() if not remote_id)
    return known | (ClusterAdmin(flow.target).topic_ids(unknown) if unknown else {})


def of_this_copy(reports: Iterable[Report], group: str, wanted: Mapping[Partition, str]) -> Iterator[Report]:
    """The reports of the wanted partitions, each of this group and this remote topic.

    Under another group the flow begins anew, and under another name a topic does. What was reported before says nothing
    about the positions of now.
    """
    for report in reports:
        if report.group in ("", group) and wanted.get(report.partition) == report.remote:
            yield report


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
