"""Whose transaction holds a partition back: asked for once, and nobody waits for the answer."""

from __future__ import annotations

import threading

import pytest

from mirror.model import Partition
from mirror.source import holding_producers
from mirror.source.holding_producers import HoldingProducers
from tests.harness.waiting import until

HELD, OTHER = Partition("t", 0), Partition("t", 1)


class Source:
    """A source that answers when it may."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.asked: list[Partition] = []
        self.says = " of producer id 5"

    def ask(self, topic: str, partition: int) -> str:
        self.asked.append(Partition(topic, partition))
        self.may_answer.wait(60)
        return self.says


def test_each_is_asked_for_once_and_one_at_a_time() -> None:
    source = Source()
    holding = HoldingProducers(source.ask)
    assert [holding.of(each, 7) for each in (HELD, HELD, OTHER)] == ["", "", ""]
    until("the question", lambda: source.asked == [HELD])
    source.may_answer.set()
    assert until("the answer", lambda: holding.of(HELD, 7)) == source.says
    assert until("the other answer", lambda: holding.of(OTHER, 7)) == source.says
    assert holding.of(HELD, 7) == source.says and source.asked == [HELD, OTHER]
    assert holding.of(HELD, 9) == "", "it is another transaction now"
    until("one more question", lambda: source.asked == [HELD, OTHER, HELD])


def test_a_source_that_does_not_say_it_is_asked_again_only_later(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source()
    source.says = ""
    source.may_answer.set()
    holding = HoldingProducers(source.ask)
    holding.of(HELD, 7)
    until("an answer", lambda: HELD in holding._known)
    assert holding.of(HELD, 7) == "" and source.asked == [HELD]
    monkeypatch.setattr(holding_producers, "AGAIN", 0.0)
    source.says = " of producer id 5"
    assert until("the answer", lambda: holding.of(HELD, 7)) == source.says
