"""The reader of the status topic: whoever may write there may write large records."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from confluent_kafka import TopicPartition

from mirror.commands.status import reported_flow
from mirror.control import control_topics
from mirror.control.control_topics import ALL_REPORTS, StatusReader
from mirror.control.reports import Report
from mirror.kafka.clients import QUEUE_RECORDS
from mirror.settings import Flow
from tests.harness.waiting import PATIENCE
from tests.unit.commands.test_status import NOW, PLAN, report
from tests.unit.control.test_control_reader import Message, flow  # noqa: F401  # fixture
from tests.unit.control.test_reported_positions import StatusTopic


class Dated(Message):
    """A record that was written when its offset says: two each second."""

    def timestamp(self) -> tuple[int, int]:
        return 1, int(NOW * 1000) + 500 * self.at


class DatedTopic(StatusTopic):
    """A status topic with such records."""

    def consume(self, most: int, timeout: float) -> list[Dated]:  # type: ignore[override]
        return [Dated(each.entry, each.at) for each in super().consume(most, timeout)]


@dataclass
class Endless:
    """A consumer that has as many records as one asks for, up to the topic's end."""

    end: int
    at: int = 0
    most: int = 0  # that were asked for at once

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        self.at = partitions[0].offset

    def get_watermark_offsets(self, _partition: object, _timeout: float) -> tuple[int, int]:
        return 0, self.end

    def consume(self, number: int, _timeout: float) -> list[Message]:
        self.most = max(self.most, number)
        first, self.at = self.at, min(self.at + number, self.end)
        return [Message((b"key", None), offset) for offset in range(first, self.at)]

    def close(self) -> None:
        pass


def test_few_records_are_held_at_once(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    consumer = Endless(5_050)
    monkeypatch.setattr(control_topics, "internal_consumer", lambda *_: consumer)
    assert list(StatusReader(flow, ALL_REPORTS).history()) == []
    assert consumer.at == consumer.end and consumer.most == QUEUE_RECORDS


@pytest.mark.parametrize("whole", [False, True])
def test_few_reports_of_each_partition_are_decoded(
    flow: Flow,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    whole: bool,
) -> None:
    """Status needs the last one, and an older one for the rate. The topic has 25 and more."""
    topic, decoded = DatedTopic(), list[bytes]()

    def noted(value: bytes, decode: Callable[[bytes], Report] = Report.decode) -> Report:
        decoded.append(value)
        return decode(value)

    monkeypatch.setattr(control_topics, "internal_consumer", lambda *_: topic)
    monkeypatch.setattr(Report, "decode", noted)
    some = [report(number % 2, records=100 * number) for number in range(200)]
    topic.entries = [(each.key(), each.encode()) for each in some]
    topic.entries.append((some[0].key(), None))
    reports = StatusReader.newest(flow, None if whole else 2)
    assert len(decoded) == len(reports) == 6
    parts = reported_flow("a->b", PLAN, (), reports, NOW + 101).partitions
    assert [(p.records_per_second, p.report_age) for p in parts] == [(200.0, 2.0), (200.0, 1.5)]
    topic.entries.append((some[0].key(), b"no report"))
    parts = reported_flow("a->b", PLAN, (), StatusReader.newest(flow, None if whole else 2), NOW + 101).partitions
    assert [p.report_age for p in parts] == [2.0, 1.5], "the last one that is a report"


def test_a_consumer_that_does_not_close_holds_nobody_up(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """librdkafka may wait for itself for ever."""
    consumer, closed_by = Endless(1), queue.SimpleQueue[threading.Thread]()
    monkeypatch.setattr(consumer, "close", lambda: closed_by.put(threading.current_thread()))
    monkeypatch.setattr(control_topics, "internal_consumer", lambda *_: consumer)
    StatusReader(flow).close()
    assert closed_by.get(timeout=PATIENCE) is not threading.current_thread()
