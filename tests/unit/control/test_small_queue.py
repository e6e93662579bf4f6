"""A user's queue.buffering.max.messages may be smaller than what is written to mirror's own topics at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from mirror.control import flow_leader
from mirror.control.control_topics import ControlWriter
from mirror.control.flow_leader import FlowLeader
from mirror.errors import ClusterAway
from mirror.groups.own_topic_writer import OwnTopicWriter
from mirror.kafka import own_topic_producer
from mirror.settings import Flow
from tests.unit.control.test_control_reader import Log, flow, topic  # noqa: F401  # fixtures

ROOM = 3  # records that the queue takes
RECORDS: dict[bytes, bytes | None] = {b"order/%d" % number: b"{}" for number in range(10)}

Write = Callable[[Flow], None]


class Producer:
    """Takes ROOM records at once, and delivers them when it is flushed, unless its cluster is away."""

    def __init__(self) -> None:
        self.is_away = False
        self.written: list[bytes] = []
        self._queue: list[tuple[bytes, Callable[[None, Any], object]]] = []

    def __len__(self) -> int:
        return len(self._queue)

    def produce(
        self,
        _topic: str,
        _value: bytes | None,
        key: bytes,
        _partition: int,
        delivered: Callable[[KafkaError | None, Any], object] = lambda *_: None,
    ) -> None:
        if len(self) == ROOM:
            raise BufferError
        self._queue.append((key, delivered))

    def flush(self, _: float) -> int:
        while self._queue and not self.is_away:
            key, delivered = self._queue.pop(0)
            self.written.append(key)
            delivered(None, Delivered(key))
        return len(self)

    def purge(self) -> None:
        self._queue.clear()

    def init_transactions(self, _: float) -> None:
        pass

    def begin_transaction(self) -> None:
        pass

    def commit_transaction(self, timeout: float) -> None:
        if self.flush(timeout):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


class Delivered:
    """A record that was delivered."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def key(self) -> bytes:
        return self._key


def orders(flow: Flow) -> None:  # noqa: F811
    ControlWriter(flow).write(RECORDS)


def own_topic(flow: Flow) -> None:  # noqa: F811
    OwnTopicWriter(flow.target, "own").write(RECORDS)


def flow_leaders_own(flow: Flow) -> None:  # noqa: F811
    FlowLeader(flow, "us")._commit(RECORDS)


@pytest.fixture
def producer(topic: Log, monkeypatch: pytest.MonkeyPatch) -> Producer:  # noqa: F811
    made = Producer()
    monkeypatch.setattr(own_topic_producer, "internal_producer", lambda _: made)
    monkeypatch.setattr(flow_leader, "target_producer", lambda *_: made)
    return made


@pytest.mark.parametrize("write", [orders, own_topic, flow_leaders_own])
def test_all_records_are_written_in_their_order(write: Write, flow: Flow, producer: Producer) -> None:  # noqa: F811
    write(flow)
    assert producer.written == list(RECORDS)


@pytest.mark.parametrize("write", [orders, own_topic, flow_leaders_own])
def test_a_full_queue_that_nobody_takes_is_an_outage(write: Write, flow: Flow, producer: Producer) -> None:  # noqa: F811
    producer.is_away = True
    with pytest.raises(ClusterAway, match="no answer in time"):
        write(flow)
    assert producer.written == []
