"""The look at a batch that can't be read. integration/test_corruption.py shows with real brokers that it is found."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from mirror.model import Partition
from mirror.source import corruption
from mirror.source.loss_detection import Loss
from tests.unit.test_naming import flow

FIRST, END = 20, 30  # offsets of the batch
BAD: Any = KafkaError(KafkaError._BAD_MSG, "failed CRC32C check")


class NeverClosed:
    """A consumer that librdkafka can't close any more."""

    ended = threading.Event()

    def assign(self, partitions: list[Any]) -> None:
        self._at = partitions[0].offset

    def poll(self, _: float) -> Any:
        is_bad = FIRST <= self._at < END
        return SimpleNamespace(error=lambda: BAD if is_bad else None, offset=lambda: FIRST if is_bad else self._at)

    def close(self) -> None:
        self.ended.wait()


@pytest.fixture
def never_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(corruption, "batch_reader", lambda _: NeverClosed())
    yield
    NeverClosed.ended.set()


def test_a_consumer_that_can_not_be_closed_holds_nothing_up(never_closed: None) -> None:
    found: list[Loss | None] = []
    look = lambda: found.append(corruption._Reader(flow(), Partition("t", 0)).loss(FIRST, 50))  # noqa: E731
    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(10)
    assert found == [Loss("corrupt", FIRST, END, BAD.str())]
