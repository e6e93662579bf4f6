"""Which records are copies is told only if nothing can be hidden, and nothing is copied meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from mirror.errors import PartitionError
from mirror.groups.copy_counter import CopyCounter
from mirror.groups.record_counter import ReadRange
from mirror.groups.translation import Count
from mirror.model import MapEnd, Partition, Position

REMOTE = Partition("eu.orders", 0)
AT = Position(20, "id", remote_id="remote", map_end=MapEnd(0, 4, 2, 13))
PLACED = Count(10, 13, 2, 10, 12)
LAST = Count(13, None, 2, 12, 14)


@dataclass
class World:
    """A remote partition. The position was `AT` when it was looked up; `now` is what it is after the counting."""

    found: list[int]
    reached: int
    now: Position | None = AT
    high: int = 16
    reads: int = 0

    def counter(self) -> CopyCounter:
        return CopyCounter(cast(Any, Reader(self)), cast(Any, self))

    def hints(self, _: Iterable[Partition]) -> Mapping[Partition, Position | None]:
        return {REMOTE: self.now}

    def bounds(self, *_: object) -> tuple[int, int]:
        return 0, self.high


@dataclass
class Reader:
    world: World

    def offsets(self, *_: object) -> ReadRange:
        self.world.reads += 1
        return ReadRange(self.world.found, self.world.reached)


MOVED = replace(AT, offset=25, map_end=MapEnd(0, 6, 4, 16))


@pytest.mark.parametrize(
    ("count", "world"),
    [
        pytest.param(PLACED, World([10, 11], 13), id="up to a known end"),
        pytest.param(PLACED, World([10, 11, 12], 12), id="more than there have to be, whatever is hidden"),
        pytest.param(LAST, World([14, 15], 16), id="the last ones, and nothing is hidden"),
        pytest.param(LAST, World([14, 15], 16, replace(AT, offset=23)), id="the position passes a marker"),
        pytest.param(LAST, World([14, 15, 16], 17, high=19), id="more than are copied"),
    ],
)
def test_what_is_certain_is_counted_once(count: Count, world: World) -> None:
    counter = world.counter()
    assert counter.count(REMOTE, AT, count) == counter.count(REMOTE, AT, count) == (world.found, 0)
    assert world.reads == 1
    counter.forget()
    assert counter.count(REMOTE, AT, count) is not None and world.reads == 2


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(World([14, 15], 16, high=18), id="a transaction hides what follows"),
        pytest.param(World([14, 15], 16, high=15), id="the broker that was asked for the end is behind"),
        pytest.param(World([14, 15], 16, MOVED), id="more is copied"),
        pytest.param(World([14, 15, 17], 18, MOVED, 18), id="more is copied, and is seen"),
        pytest.param(World([14, 15], 16, None), id="the position is gone"),
    ],
)
def test_of_the_last_records_it_can_be_asked_again(world: World) -> None:
    counter = world.counter()
    assert counter.count(REMOTE, AT, LAST) is None
    world.now, world.reached, world.high = AT, 18, 18
    assert counter.count(REMOTE, AT, LAST) is not None


def test_what_a_transaction_hides_before_a_known_end_can_be_asked_again() -> None:
    world = World([10, 11], 12)
    counter = world.counter()
    assert counter.count(REMOTE, AT, PLACED) is None
    world.reached = 13
    assert counter.count(REMOTE, AT, PLACED) is not None


def test_of_a_partition_that_refuses_it_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([10, 11], 13)
    monkeypatch.setattr(World, "bounds", refused)
    counter = world.counter()
    for _ in range(2):
        with pytest.raises(PartitionError, match="no leader"):
            counter.count(REMOTE, AT, PLACED)
    assert world.reads == 1


def refused(*_: object) -> tuple[int, int]:
    raise PartitionError("no leader")
