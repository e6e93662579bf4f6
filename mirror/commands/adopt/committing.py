"""Commits adopted positions, each as the owner of its partition does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import replace

from confluent_kafka import Consumer

from mirror.commands.adopt.selection import OURS, AdoptOutcome, AdoptResult
from mirror.control.decisions import chosen
from mirror.errors import MirrorError
from mirror.kafka.clients import group_reader
from mirror.model import Partition, Position, Topic
from mirror.service.topic_monitor import TopicMonitor
from mirror.settings import Flow
from mirror.target.fencing import commit_as_owner
from mirror.target.position_reader import PositionReader

MOVED = "records came to the copy meanwhile: MirrorMaker, or somebody else, still writes to it"


def position(offset: int, reported: Position | None, topic: Topic, ours: Position | None = None) -> Position:
    """The position to commit, as if a person had decided it: neither `ours` nor what was `reported` counts any more.

    Where the offset map ends is not known: what MirrorMaker has copied has no entry, and may come after some.
    """
    decided = chosen("at", offset, ours, reported, topic)
    assert decided is not None
    return replace(decided, map_end=None)


def commit(
    flow: Flow,
    found: Collection[AdoptResult],
    topics: Mapping[str, Topic],
    reported: Mapping[Partition, Position],
    ends: Mapping[Partition, int],
    done: Callable[[], object],
) -> list[AdoptResult]:
    """Commit positions that were found, and say which are adopted. `ends` of the copies must not have changed.

    Raises MirrorError if mirror's own topics can't be created.
    """
    if not found:
        return []
    TopicMonitor(flow).ensure_internal_topics()  # loading a position needs the control topic
    results = []
    with (
        closing(PositionReader(flow.target, flow.group, flow.control_topic)) as positions,
        closing(group_reader(flow.target, flow.group, "read_committed")) as member,
    ):
        for each in found:
            topic = topics[each.partition.topic]
            one = _One(flow, each.partition, topic, positions, member)
            end = ends[Partition(topic.remote, each.partition.partition)]
            try:
                reason = one.commit(each.position or 0, reported.get(each.partition), end)
            except MirrorError as error:
                reason = str(error)
            results.append(replace(each, outcome=_outcome(reason), reason=reason))
            done()
    return results


def _outcome(reason: str) -> AdoptOutcome:
    if reason == OURS:
        return "left alone"
    return "refused" if reason else "adopted"


class _One:
    """One partition."""

    def __init__(
        self, flow: Flow, partition: Partition, topic: Topic, positions: PositionReader, member: Consumer
    ) -> None:
        self._flow, self._partition, self._topic = flow, partition, topic
        self._positions, self._member = positions, member
        self._remote = topic.remote, partition.partition

    def commit(self, offset: int, reported: Position | None, end: int) -> str:
        """Commit a position, unless there is one as far by now or the copy has grown. Returns the reason if not."""
        reason = ""

        def choose(ours: Position | None) -> Position | None:
            nonlocal reason
            wanted, reason = self._wanted(ours, offset, reported, end)
            return None if reason else wanted

        commit_as_owner(self._flow, self._partition, self._topic, self._positions, self._member, choose)
        return reason

    def _wanted(self, ours: Position | None, offset: int, reported: Position | None, end: int) -> tuple[Position, str]:
        """The position to commit in place of `ours`, and what stands against that."""
        wanted = position(offset, reported, self._topic, ours)
        if ours is not None and not ours.is_handed_back and not (ours.topic_id and ours.offset < offset):
            return wanted, OURS
        return wanted, "" if self._positions.end(*self._remote) == end else MOVED
