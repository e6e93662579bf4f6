"""The last reported positions: at the end of the status topic, and of topics that were left out before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from confluent_kafka import TopicPartition

from mirror.control import control_topics
from mirror.control import reported_positions as module
from mirror.control.reported_positions import reported_positions
from mirror.control.reports import Report
from mirror.model import Partition, Topic
from mirror.settings import Flow
from mirror.timing import RECENT_REPORTS
from tests.unit.control.test_control_reader import Message, flow  # noqa: F401  # a fixture
from tests.unit.control.test_reports import report

HERE, AWAY, NEW = Partition("here", 0), Partition("away", 0), Partition("new", 0)


def wanted(*partitions: Partition, remote_id: str | None = None) -> dict[Partition, Topic]:
    """These partitions, with the remote topics that they have now."""
    names = {each: each.topic for each in partitions}
    ids = {each: f"id-{name}" if remote_id is None else remote_id for each, name in names.items()}
    return {each: Topic(f"a.{name}", "source", 1, 1, ids[each]) for each, name in names.items()}


class Record(Message):
    """A record of the status topic as a consumer returns it."""

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_000


@dataclass
class StatusTopic:
    """The status topic, its consumers, and the target's topics."""

    entries: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    ids: Mapping[str, str] = field(default_factory=lambda: {"a.away": "id-away"})
    read: int = 0
    at: int = 0

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        self.at = partitions[0].offset

    def consume(self, most: int, _: float) -> list[Record]:
        found = [Record(each, self.at + n) for n, each in enumerate(self.entries[self.at : self.at + most])]
        self.at += len(found)
        self.read += len(found)
        return found

    def get_watermark_offsets(self, _partition: object, _timeout: float) -> tuple[int, int]:
        return 0, len(self.entries)

    def topic_ids(self, names: Sequence[str]) -> dict[str, str]:
        return {name: self.ids[name] for name in names if name in self.ids}

    def close(self) -> None:
        pass


def of(partition: Partition, position: int, remote_id: str | None = None) -> Report:
    name = partition.topic
    here = replace(report(7), partition=partition, remote=f"a.{name}", position=position, topic_id="source")
    return replace(here, remote_id=f"id-{name}" if remote_id is None else remote_id)


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> StatusTopic:
    """A status topic in which one partition was not reported for long."""
    found = StatusTopic()
    monkeypatch.setattr(control_topics, "internal_consumer", lambda *_: found)
    monkeypatch.setattr(module, "ClusterAdmin", lambda _: found)
    reports = [of(AWAY, 4), of(AWAY, 5), *(of(HERE, n) for n in range(20 * RECENT_REPORTS))]
    found.entries += [(each.key(), each.encode()) for each in reports]
    return found


def positions(flow: Flow, some: Mapping[Partition, Topic]) -> dict[Partition, int]:  # noqa: F811
    return {each: at.offset for each, at in reported_positions(flow, some, 1).items()}


def test_the_last_report_of_a_partition_that_was_left_out_is_found(flow: Flow, topic: StatusTopic) -> None:  # noqa: F811
    assert positions(flow, wanted(HERE, AWAY, NEW)) == {HERE: 20 * RECENT_REPORTS - 1, AWAY: 5}


def test_only_the_end_is_read_if_all_are_reported(flow: Flow, topic: StatusTopic) -> None:  # noqa: F811
    assert positions(flow, wanted(HERE)) == {HERE: 20 * RECENT_REPORTS - 1}
    assert topic.read == 11 * RECENT_REPORTS


def test_reports_of_other_tasks_are_not_decoded(
    flow: Flow,  # noqa: F811
    topic: StatusTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every task reads them when it starts: of 10,000 partitions that would take each of them ten seconds."""
    decoded: list[Partition] = []
    decode = Report.decode

    def noted(value: bytes) -> Report:
        decoded.append((found := decode(value)).partition)
        return found

    monkeypatch.setattr(Report, "decode", noted)
    topic.entries += [(each.key(), each.encode()) for each in (of(AWAY, 6), of(HERE, 1_000), of(AWAY, 3))]
    assert positions(flow, wanted(AWAY)) == {AWAY: 6}, "the furthest: a replaced task has reported later"
    assert decoded == [AWAY, AWAY]


def test_a_position_in_a_remote_topic_that_is_gone_does_not_count(flow: Flow, topic: StatusTopic) -> None:  # noqa: F811
    assert positions(flow, wanted(AWAY, remote_id="another")) == {}
    assert positions(flow, wanted(AWAY, remote_id="")) == {AWAY: 5}, "the plan names no id, the target does"
    topic.ids = {}
    assert positions(flow, wanted(AWAY, remote_id="")) == {}, "there is no such topic any more"


def test_an_old_report_that_is_none_is_ignored(flow: Flow, topic: StatusTopic) -> None:  # noqa: F811
    topic.entries.insert(2, (of(AWAY, 5).key(), b"no report"))
    topic.entries.insert(3, (of(NEW, 5).key(), None))
    assert positions(flow, wanted(AWAY, NEW)) == {}


def test_a_mirror_that_did_not_report_the_remote_topics_id_is_believed(flow: Flow, topic: StatusTopic) -> None:  # noqa: F811
    topic.entries[1] = of(AWAY, 6, remote_id="").key(), of(AWAY, 6, remote_id="").encode()
    assert positions(flow, wanted(AWAY)) == {AWAY: 6}
