"""Somebody else's records on the remote partition, by the offsets of our own."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from mirror.control.reports import NOWHERE, Counters
from mirror.model import Partition, Topic
from mirror.target.written import AppendedOffsets
from mirror.task.foreign_writes import LOOK_INTERVAL, WARN_INTERVAL, ForeignWrites
from mirror.task.look_budget import REST, LookBudget
from tests.unit.test_naming import flow

DEFECT = -2  # found where a defect is


class World:
    """A remote partition in which so many records are found where one looks."""

    def __init__(self) -> None:
        self.now = 0.0
        self.found: int | None = 0
        self.takes = 0.0  # seconds
        self.most = 0  # records that are counted
        self.asked: list[tuple[int, int]] = []
        facts: Any = SimpleNamespace(
            partition=Partition("t", 0),
            topic=Topic("primary.t", "id", 1, 1),
            counters=Counters(),
            foreign=NOWHERE,
            where={},
            step_lock=SimpleNamespace(progressed=lambda: None),
        )
        clock = SimpleNamespace(monotonic=lambda: self.now)
        self.budget = LookBudget()
        services: Any = SimpleNamespace(flow=flow(), clock=clock, looks=self.budget)
        self.facts = facts
        self.writes = ForeignWrites(facts, services, self.count)

    def count(self, _: object, where: tuple[str, int], first: int, end: int, most: int) -> int | None:
        assert where == ("primary.t", 0)
        self.now += self.takes
        self.most = most
        if self.found == DEFECT:
            raise ValueError("a defect")
        self.asked.append((first, end))
        if self.found is not None and self.found < 0:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return self.found

    @property
    def counted(self) -> tuple[int, tuple[int, int]]:
        return self.facts.counters.foreign, self.facts.foreign


@pytest.fixture
def world() -> World:
    return World()


def test_records_without_a_gap_are_not_looked_at(world: World) -> None:
    world.writes.committed(AppendedOffsets(10, 10, 14), 5)
    world.writes.committed(AppendedOffsets(None, 90, 90), 1)
    world.writes.committed(AppendedOffsets(91, 40, 40), 1)  # the target has lost the end of its log
    assert world.asked == []
    assert world.counted == (0, NOWHERE)


def test_a_gap_with_records_is_somebody_elses(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.found = 3
    with caplog.at_level(logging.WARNING):
        world.writes.committed(AppendedOffsets(10, 14, 15), 2)
    assert world.asked == [(10, 14)]
    assert world.counted == (4, (10, 13)), "with the marker of a transaction"
    (said,) = caplog.records
    fields = ("remote_topic", "first_offset", "last_offset", "offsets")
    assert [getattr(said, name) for name in fields] == ["primary.t", 10, 13, 4]


def test_a_gap_of_markers_is_nobodys(world: World) -> None:
    world.writes.committed(AppendedOffsets(10, 11, 15), 5)
    assert world.asked == [(10, 11)]
    assert world.counted == (0, NOWHERE)


def test_what_cannot_be_read_is_not_counted_until_it_can(world: World) -> None:
    for world.found in (None, -1):
        world.now += LOOK_INTERVAL
        world.writes.committed(AppendedOffsets(10, 11, 15), 5)
    assert len(world.asked) == 2
    assert world.counted == (0, NOWHERE)
    world.found = 1
    world.writes.committed(AppendedOffsets(20, 20, 20), 1)
    assert world.counted == (0, NOWHERE), "the target is asked once a minute"
    world.now += LOOK_INTERVAL
    world.writes.committed(AppendedOffsets(21, 21, 21), 1)
    assert world.asked[2:] == [(10, 11)]
    assert world.counted == (1, (10, 10))


@pytest.mark.parametrize(("found", "foreign"), [(3, 0), (4, 2)])
def test_offsets_between_our_own_records_are_counted_with_ours(world: World, found: int, foreign: int) -> None:
    world.found = found
    world.writes.committed(AppendedOffsets(10, 10, 14), 3)
    assert world.asked == [(10, 15)]
    assert world.most == 4, "one more than ours is enough"
    assert world.counted[0] == foreign


def test_the_target_is_asked_once_a_minute_while_somebody_writes(world: World) -> None:
    world.found = 1
    for _ in range(5):
        world.writes.committed(AppendedOffsets(10, 11, 11), 1)
    assert (len(world.asked), world.counted[0]) == (1, 5)
    world.now, world.found = LOOK_INTERVAL, 0
    world.writes.committed(AppendedOffsets(20, 21, 21), 1)
    assert (len(world.asked), world.counted[0]) == (2, 5)


def test_while_another_partition_looks_a_gap_waits_and_later_ones_count_with_it(world: World) -> None:
    world.found = 1
    assert world.budget.begin(0.0)
    world.writes.committed(AppendedOffsets(10, 11, 11), 1)
    world.writes.committed(AppendedOffsets(12, 12, 12), 1)
    assert (world.asked, world.counted[0]) == ([], 0)
    world.now = 2.0
    world.budget.end(0.0, world.now)
    world.now += REST * 2.0 - 1
    world.writes.committed(AppendedOffsets(13, 13, 13), 1)
    assert world.asked == [], "looks are seldom"
    world.now += 1
    world.writes.committed(AppendedOffsets(14, 16, 16), 1)
    assert world.asked == [(10, 11)]
    assert world.counted == (3, (14, 15))


def test_a_look_that_took_long_is_followed_by_a_rest_of_all(world: World) -> None:
    world.takes = 5.0
    world.writes.committed(AppendedOffsets(10, 11, 11), 1)
    assert not world.budget.begin(world.now + REST * world.takes - 1)
    assert world.budget.begin(world.now + REST * world.takes)


def test_a_defect_in_a_look_ends_neither_the_copying_nor_later_looks(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.found = DEFECT
    world.writes.committed(AppendedOffsets(10, 11, 11), 1)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    world.found = 1
    world.writes.committed(AppendedOffsets(12, 13, 13), 1)
    assert world.counted == (1, (12, 12))


def test_while_somebody_writes_the_warnings_are_seldom_and_lack_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.found = 1
    for first in (11, 13, 15):
        world.writes.committed(AppendedOffsets(first - 1, first, first), 1)
    world.now = WARN_INTERVAL
    world.writes.committed(AppendedOffsets(16, 16, 16), 1)
    fields = ("first_offset", "last_offset", "offsets")
    said = [tuple(getattr(record, name) for name in fields) for record in caplog.records]
    assert said == [(10, 10, 1), (12, 14, 2)]
