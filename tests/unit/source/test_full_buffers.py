"""Backpressure: who is paused, who waits, and when that ends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from mirror.model import Partition
from mirror.source.full_buffers import PAUSE_AFTER, Backpressure, FullBuffers
from tests.unit.test_naming import flow

HERE, THERE = Partition("t", 0), Partition("t", 1)
FLOW = replace(flow(), batch_max_records=1_000, batch_max_bytes=2**20)
FULL = 2_000  # records


@dataclass
class Buffer:
    records: int = 0
    weight: int = 0
    accepts: bool = True

    def __len__(self) -> int:
        return self.records


@dataclass
class Held:
    drains_slowly: bool = False
    buffer: Buffer = field(default_factory=Buffer)


@pytest.fixture
def held() -> dict[Partition, Held]:
    return {HERE: Held(), THERE: Held()}


@pytest.fixture
def buffers(held: dict[Partition, Held]) -> FullBuffers:
    return FullBuffers(FLOW, held)


def test_a_buffer_that_is_full_for_a_moment_holds_up_everything(
    held: dict[Partition, Held], buffers: FullBuffers
) -> None:
    held[HERE].buffer.records = FULL - 1
    buffers.look(HERE, 5.0)
    assert not buffers
    held[HERE].buffer.records = FULL
    buffers.look(HERE, 6.0)
    assert buffers and buffers.decide(6.0 + PAUSE_AFTER) == Backpressure([], [], True)
    held[HERE].buffer.records = FULL - 1
    assert buffers.decide(6.1 + PAUSE_AFTER) == Backpressure([], [], False) and not buffers


def test_bytes_count_too(held: dict[Partition, Held], buffers: FullBuffers) -> None:
    held[HERE].buffer.weight = 2 * 2**20
    buffers.look(HERE, 5.0)
    assert buffers


def test_one_that_does_not_drain_is_paused_alone(held: dict[Partition, Held], buffers: FullBuffers) -> None:
    held[HERE].buffer.records = held[THERE].buffer.records = FULL
    buffers.look(HERE, 5.0)
    buffers.look(THERE, 5.5)
    assert buffers.decide(5.1 + PAUSE_AFTER) == Backpressure([HERE], [], True), "the other one is awaited"
    held[THERE].buffer.records = 0
    assert buffers.decide(5.2 + PAUSE_AFTER) == Backpressure([], [], False)
    assert buffers.paused == {HERE} and buffers
    held[HERE].buffer.records = FULL - 1
    assert buffers.decide(7.0) == Backpressure([], [HERE], False)
    assert not buffers.paused and not buffers


def test_a_slow_one_holds_up_nobody_and_is_resumed_when_there_is_room_for_much(
    held: dict[Partition, Held], buffers: FullBuffers
) -> None:
    """A throttled partition would otherwise be paused and resumed at each turn, and mostly be fetched in vain."""
    held[HERE] = Held(drains_slowly=True, buffer=Buffer(FULL))
    buffers.look(HERE, 5.0)
    assert buffers.decide(5.0) == Backpressure([HERE], [], False)
    held[HERE].buffer.records = FULL * 2 // 3
    assert buffers.decide(6.0) == Backpressure([], [], False)
    held[HERE].buffer.records = FULL // 2
    assert buffers.decide(7.0) == Backpressure([], [HERE], False), "a batch of the usual size leaves half"


def test_a_slow_one_that_drains_fast_again_is_resumed_at_once(
    held: dict[Partition, Held], buffers: FullBuffers
) -> None:
    held[HERE] = Held(drains_slowly=True, buffer=Buffer(FULL))
    buffers.look(HERE, 5.0)
    buffers.decide(5.0)
    held[HERE] = Held(buffer=Buffer(FULL - 1))
    assert buffers.decide(6.0) == Backpressure([], [HERE], False)


def test_who_is_not_consumed_any_more_is_forgotten(held: dict[Partition, Held], buffers: FullBuffers) -> None:
    held[HERE] = Held(drains_slowly=True, buffer=Buffer(FULL))
    assert not buffers.forget(HERE)
    buffers.look(HERE, 5.0)
    buffers.decide(5.0)
    assert buffers.forget(HERE) and not buffers.paused and not buffers


def test_one_that_accepts_nothing_is_paused_at_once_and_until_it_accepts_again(
    held: dict[Partition, Held], buffers: FullBuffers
) -> None:
    """Its partition may wait for a decision, and would read its whole log in vain."""
    held[HERE].buffer.accepts = False
    buffers.look(HERE, 5.0)
    assert buffers.decide(5.0) == Backpressure([HERE], [], False)
    assert buffers.decide(500.0) == Backpressure([], [], False) and buffers.paused == {HERE}
    held[HERE].buffer.accepts = True
    assert buffers.decide(501.0) == Backpressure([], [HERE], False)
    assert not buffers.paused and not buffers
