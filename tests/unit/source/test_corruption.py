"""The look at a batch that can't be read. integration/test_corruption.py shows with real brokers that it is found."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from mirror.model import Partition
from mirror.source import corruption
from mirror.source.corruption import Damage
from mirror.source.loss_detection import Loss
from tests.unit.test_naming import flow

FIRST, END = 20, 30  # offsets of the batch
BAD: Any = KafkaError(KafkaError._BAD_MSG, "failed CRC32C check")


def message(error: Any, offset: int | None, topic: str | None = "t") -> Any:
    return SimpleNamespace(error=lambda: error, offset=lambda: offset, topic=lambda: topic)


class NeverClosed:
    """A consumer that librdkafka can't close any more."""

    ended = threading.Event()

    def assign(self, partitions: list[Any]) -> None:
        self._at = partitions[0].offset

    def poll(self, _: float) -> Any:
        is_bad = FIRST <= self._at < END
        return message(BAD if is_bad else None, FIRST if is_bad else self._at)

    def close(self) -> None:
        self.ended.wait()


@pytest.fixture
def never_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(corruption, "batch_reader", lambda _: NeverClosed())
    yield
    NeverClosed.ended.set()


def test_a_consumer_that_can_not_be_closed_holds_nothing_up(never_closed: None) -> None:
    found: list[Damage | None] = []
    look = lambda: found.append(corruption._Reader(flow(), Partition("t", 0)).damage(FIRST, 50))  # noqa: E731
    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(10)
    assert found == [Damage(FIRST, FIRST, Loss("corrupt", FIRST, END, BAD.str()))]


class Answers:
    """Consumers for single offsets: of each, the first answer is about the group, and `bad` says what can't be read."""

    def __init__(self, bad: Any) -> None:
        self.tried: list[int] = []
        self._bad = bad
        self._told = False

    def assign(self, partitions: list[Any]) -> None:
        self.tried.append(partitions[0].offset)
        self._told = False

    def poll(self, _: float) -> Any:
        if not self._told:
            self._told = True
            return message(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED), None, None)
        at = self.tried[-1]
        return message(BAD, FIRST) if self._bad(at, len(self.tried)) else message(None, at)

    def close(self) -> None:
        """Nothing to do."""


def looked(
    monkeypatch: pytest.MonkeyPatch, position: int, bad: Any, end: int = 50, known: Damage | None = None
) -> tuple[Loss | None, Answers, int]:
    answers, progressed = Answers(bad), list[None]()
    monkeypatch.setattr(corruption, "batch_reader", lambda _: answers)
    reader = corruption._Reader(flow(), Partition("t", 0), lambda: progressed.append(None))
    found = reader.damage(position, end, known)
    return found.loss if found else None, answers, len(progressed)


def test_what_is_said_about_the_group_tells_nothing_of_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """mirror needs no permission on a group of the source."""
    loss, answers, progressed = looked(monkeypatch, FIRST, lambda at, _: FIRST <= at < END)
    assert loss == Loss("corrupt", FIRST, END, BAD.str())
    assert progressed == len(answers.tried), "each try may take its time"


def test_a_position_within_the_batch_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    loss, answers, _ = looked(monkeypatch, FIRST + 5, lambda at, _: FIRST <= at < END)
    assert loss == Loss("corrupt", FIRST + 5, END, BAD.str()) and min(answers.tried) == FIRST + 5


@pytest.mark.parametrize("tries", [1, 2, 4])
def test_a_batch_that_is_mended_meanwhile_is_no_loss(monkeypatch: pytest.MonkeyPatch, tries: int) -> None:
    """Another replica leads, which has it as it was written."""
    loss, _, _ = looked(monkeypatch, FIRST + 5, lambda at, tried: FIRST <= at < END and tried <= tries)
    assert loss is None


def test_a_broker_that_has_not_what_is_there_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    loss, _, _ = looked(monkeypatch, FIRST + 5, lambda at, _: FIRST <= at < END, end=FIRST + 5)
    assert loss is None


LOSS = Loss("corrupt", FIRST + 5, END, BAD.str())


def test_a_second_look_at_the_same_batch_needs_one_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer may never end after such a batch, and a partition may wait for days."""
    found, answers, _ = looked(monkeypatch, FIRST + 5, lambda at, _: FIRST <= at < END)
    assert found == LOSS and len(answers.tried) > 3
    known = Damage(FIRST + 5, FIRST, LOSS)
    again, answers, _ = looked(monkeypatch, FIRST + 5, lambda at, _: FIRST <= at < END, known=known)
    assert (again, answers.tried) == (LOSS, [FIRST + 5])


def test_a_second_look_finds_a_batch_that_was_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Damage(FIRST + 5, FIRST, LOSS)
    again, answers, _ = looked(monkeypatch, FIRST + 5, lambda *_: False, known=known)
    assert (again, answers.tried) == (None, [FIRST + 5])


@pytest.mark.parametrize(
    "other",
    [
        Damage(FIRST + 4, FIRST, LOSS),
        Damage(FIRST + 5, FIRST + 1, LOSS),
        Damage(FIRST + 5, FIRST, replace(LOSS, why="another checksum")),
    ],
)
def test_another_batch_is_searched_anew(monkeypatch: pytest.MonkeyPatch, other: Damage) -> None:
    other = replace(other, loss=replace(other.loss, resume=49))
    found, answers, _ = looked(monkeypatch, FIRST + 5, lambda at, _: FIRST <= at < END, known=other)
    assert found == LOSS and len(answers.tried) > 3
