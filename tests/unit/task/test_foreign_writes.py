"""Somebody else's records on the remote partition, by the offsets of our own."""

from __future__ import annotations

import logging

import pytest

from mirror.clock import Clock
from mirror.control.reports import NOWHERE, Counters
from mirror.model import Topic
from mirror.target.written import AppendedOffsets
from mirror.task.batch_services import Books
from mirror.task.foreign_writes import LOOK_INTERVAL, WARN_INTERVAL, ForeignWrites
from mirror.task.known_positions import KnownPositions, StartPoint
from mirror.task.look_budget import REST, LookBudget
from mirror.task.rate_limits import Turns

FIELDS = ("first_offset", "last_offset", "offsets")


class World(Clock):
    """A remote partition in which so many records are found where one looks."""

    def __init__(self) -> None:
        self.time = 0.0
        self.found: int | None = 0
        self.takes = 0.0  # seconds
        self.asked: list[tuple[int, int]] = []
        known = KnownPositions(StartPoint(0), Topic("primary.t", "id", 1, 1), True, 3600.0, self)
        self.books = Books(known, Counters(), Turns(self))
        self.budget = LookBudget()
        self.writes = ForeignWrites(self.books, {"remote_topic": "primary.t"}, self, self.budget)

    def monotonic(self) -> float:
        return self.time

    def committed(self, expected: int | None, first: int, last: int, records: int) -> None:
        """A transaction is committed, and what has to be read is read."""
        gap = self.writes.noted(AppendedOffsets(expected, first, last, records))
        if gap is not None:
            self.asked.append((gap.begin, gap.end))
            self.time += self.takes
            self.writes.judge(self.found)

    @property
    def counted(self) -> tuple[int, tuple[int, int]]:
        return self.books.counters.foreign, self.books.foreign


@pytest.fixture
def world() -> World:
    return World()


def test_records_without_a_gap_are_not_looked_at(world: World) -> None:
    world.committed(10, 10, 14, 5)
    world.committed(None, 90, 90, 1)
    world.committed(91, 40, 40, 1)  # the target has lost the end of its log
    assert world.writes.noted(None) is None
    assert world.asked == []
    assert world.counted == (0, NOWHERE)


def test_a_gap_with_records_is_somebody_elses(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.found = 3
    with caplog.at_level(logging.WARNING):
        world.committed(10, 14, 15, 2)
    assert world.asked == [(10, 14)]
    assert world.counted == (4, (10, 13)), "with the marker of a transaction"
    (said,) = caplog.records
    assert [getattr(said, name) for name in ("remote_topic", *FIELDS)] == ["primary.t", 10, 13, 4]


def test_a_gap_of_markers_is_nobodys(world: World) -> None:
    world.committed(10, 11, 15, 5)
    assert world.asked == [(10, 11)]
    assert world.counted == (0, NOWHERE)


def test_what_cannot_be_read_is_not_counted_until_it_can(world: World) -> None:
    world.found = None
    for _ in range(2):
        world.time += LOOK_INTERVAL
        world.committed(10, 11, 15, 5)
    assert len(world.asked) == 2
    assert world.counted == (0, NOWHERE)
    world.found = 1
    world.committed(20, 20, 20, 1)
    assert world.counted == (0, NOWHERE), "the target is asked once a minute"
    world.time += LOOK_INTERVAL
    world.committed(21, 21, 21, 1)
    assert world.asked[2:] == [(10, 11)]
    assert world.counted == (1, (10, 10))


@pytest.mark.parametrize(("found", "foreign"), [(3, 0), (4, 2)])
def test_offsets_between_our_own_records_are_counted_with_ours(world: World, found: int, foreign: int) -> None:
    world.found = found
    world.committed(10, 10, 14, 3)
    assert world.asked == [(10, 15)]
    assert world.counted[0] == foreign


def test_the_target_is_asked_once_a_minute_while_somebody_writes(world: World) -> None:
    world.found = 1
    for _ in range(5):
        world.committed(10, 11, 11, 1)
    assert (len(world.asked), world.counted[0]) == (1, 5)
    world.time, world.found = LOOK_INTERVAL, 0
    world.committed(20, 21, 21, 1)
    assert (len(world.asked), world.counted[0]) == (2, 5)


def test_while_another_partition_looks_a_gap_waits_and_later_ones_count_with_it(world: World) -> None:
    world.found = 1
    assert world.budget.begin(0.0)
    world.committed(10, 11, 11, 1)
    world.committed(12, 12, 12, 1)
    assert (world.asked, world.counted[0]) == ([], 0)
    world.time = 2.0
    world.budget.end(0.0, world.time)
    world.time += REST * 2.0 - 1
    world.committed(13, 13, 13, 1)
    assert world.asked == [], "looks are seldom"
    world.time += 1
    world.committed(14, 16, 16, 1)
    assert world.asked == [(10, 11)]
    assert world.counted == (3, (14, 15))


def test_an_old_answer_says_nothing_of_a_gap_that_cannot_be_read_now(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """What was noticed before is told all the same."""
    world.found = 1
    for first in (11, 13):
        world.committed(first - 1, first, first, 1)
    world.time = LOOK_INTERVAL
    assert world.budget.begin(world.time)
    world.committed(20, 22, 22, 1)
    assert world.counted == (2, (12, 12))
    assert [tuple(getattr(record, name) for name in FIELDS) for record in caplog.records] == [(10, 10, 1), (12, 12, 1)]
    world.budget.end(world.time, world.time)
    world.committed(23, 23, 23, 1)
    assert world.counted == (4, (20, 21))


def test_a_look_that_took_long_is_followed_by_a_rest_of_all(world: World) -> None:
    world.takes = 5.0
    world.committed(10, 11, 11, 1)
    assert not world.budget.begin(world.time + REST * world.takes - 1)
    assert world.budget.begin(world.time + REST * world.takes)


def test_while_somebody_writes_the_warnings_are_seldom_and_lack_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.found = 1
    for first in (11, 13, 15):
        world.committed(first - 1, first, first, 1)
    world.time = WARN_INTERVAL
    world.committed(16, 16, 16, 1)
    said = [tuple(getattr(record, name) for name in FIELDS) for record in caplog.records]
    assert said == [(10, 10, 1), (12, 14, 2)]
