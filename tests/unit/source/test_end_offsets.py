"""What is asked about the ends of partitions, and what not because fetches say it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, TopicPartition

from mirror.model import Partition
from mirror.source import end_offsets
from mirror.source.end_offsets import SourceEnds
from mirror.source.fetch_session import Ends

BY_RECORDS, BY_BATCHES = Partition("t", 0), Partition("t", 1)
BOTH = [BY_RECORDS, BY_BATCHES]
Asked = Mapping[TopicPartition, object]


class World:
    """A source that answers, or not, and what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        monkeypatch.setattr(end_offsets, "time", SimpleNamespace(monotonic=lambda: self.now, time=lambda: self.now))
        self.looks = 0  # for the leaders
        monkeypatch.setattr(end_offsets, "refresh_metadata", self.look_for_leaders)
        self.stable: dict[Partition, int] = dict.fromkeys(BOTH, 10)
        self.answers = True
        self.asked: list[tuple[str, list[Partition]]] = []
        any_: Any = SimpleNamespace(client=self, note=lambda *_: None)
        self.ends = SourceEnds(any_, 60.0)

    def look_for_leaders(self, *_: object) -> None:
        self.looks += 1

    def list_offsets(
        self, asked: Asked, isolation_level: IsolationLevel, **_: Any
    ) -> dict[TopicPartition, Future[Any]]:
        of = "stable" if isolation_level == IsolationLevel.READ_COMMITTED else "high"
        partitions = {tp: Partition(tp.topic, tp.partition) for tp in asked}
        self.asked.append((of, [*partitions.values()]))
        futures: dict[TopicPartition, Future[Any]] = {tp: Future() for tp in asked}
        for tp, future in futures.items():
            if self.answers:
                future.set_result(SimpleNamespace(offset=self.stable[partitions[tp]]))
        return futures

    def look(self, fetched: Mapping[Partition, Ends]) -> dict[Partition, int]:
        """A second passes. The last stable offsets that are known."""
        self.now += 1
        self.ends.ask(BOTH, fetched)
        return dict(self.ends.stable)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_what_fetches_say_is_not_asked(world: World) -> None:
    world.look({BY_BATCHES: Ends(20, 20)})
    assert world.look({BY_BATCHES: Ends(21, 21)}) == {BY_RECORDS: 10, BY_BATCHES: 20}, "as of a second ago"
    assert world.look({BY_BATCHES: Ends(21, 21)})[BY_BATCHES] == 21
    for _ in range(30):
        world.look({BY_BATCHES: Ends(21, 21)})
    assert {of for of, _ in world.asked} == {"stable", "high"}
    assert all(partitions == [BY_RECORDS] for _, partitions in world.asked)


def test_other_brokers_are_asked_each_minute_who_leads(world: World) -> None:
    """A leader that was cut off from them goes on saying that nothing is new: the lag would stay 0."""
    for _ in range(185):
        world.look({})
    assert world.looks == 3


def test_a_flow_whose_fetches_say_everything_asks_nothing(world: World) -> None:
    for _ in range(30):
        found = world.look({BY_RECORDS: Ends(5, 5), BY_BATCHES: Ends(20, 25)})
    assert found == {BY_RECORDS: 5, BY_BATCHES: 20} and world.asked == [] and not world.looks


def test_who_is_not_fetched_any_more_is_asked_for_and_known_meanwhile(world: World) -> None:
    """As a partition that is full, or that has gone to the record path."""
    world.look({BY_BATCHES: Ends(20, 20)})
    world.look({BY_BATCHES: Ends(20, 20)})
    world.stable[BY_BATCHES] = 30
    assert world.look({})[BY_BATCHES] == 20
    assert world.asked[-1] == ("stable", BOTH)
    assert world.look({})[BY_BATCHES] == 30


def test_an_answer_from_before_does_not_count(world: World) -> None:
    """It was asked for when no fetch said it."""
    world.look({})
    assert world.look({BY_BATCHES: Ends(20, 20)}) == dict.fromkeys(BOTH, 10)
    assert world.look({BY_BATCHES: Ends(20, 20)})[BY_BATCHES] == 20


def test_who_is_not_fetched_is_not_known_if_the_source_does_not_say_it(world: World) -> None:
    world.look({BY_BATCHES: Ends(20, 20)})
    world.look({})
    world.stable[BY_BATCHES] = -1001  # what librdkafka says if there is no leader
    world.look({})
    assert world.look({}) == {BY_RECORDS: 10}


def test_a_source_that_does_not_answer_holds_up_nobody_whose_fetches_say_it(world: World) -> None:
    world.answers = False
    for end in range(20, 25):
        found = world.look({BY_BATCHES: Ends(end, end)})
    assert found == {BY_BATCHES: 23} and len(world.asked) == 1


def test_a_transaction_that_fetches_show_holds_back_what_follows(world: World) -> None:
    def held(stable: int, high: int) -> tuple[int, float] | None:
        world.look({BY_BATCHES: Ends(stable, high)})
        found = world.ends.hold(BY_BATCHES)
        return (found.offsets, found.since) if found else None

    assert held(20, 22) is None
    assert held(20, 23) is None, "it has just been heard of"
    begun = world.now + 1
    assert held(20, 24) == (3, begun), "it has not moved for a second"
    assert held(25, 26) == (4, begun)
    assert held(25, 26) is None, "it moves"
    assert held(26, 26) == (1, world.now)
    assert held(26, 26) is None and held(26, 26) is None
    assert all(partitions == [BY_RECORDS] for _, partitions in world.asked)


def test_a_hold_lasts_when_fetches_say_nothing_any_more(world: World) -> None:
    for _ in range(3):
        world.look({BY_BATCHES: Ends(10, 12)})
    hold = world.ends.hold(BY_BATCHES)
    for _ in range(2):
        world.look({})
    assert hold is not None and world.ends.hold(BY_BATCHES) == hold


def test_whose_transaction_it_is_is_asked_once_it_has_lasted(world: World) -> None:
    asked: list[tuple[Partition, int]] = []

    def whose(partition: Partition, stable: int) -> str:
        asked.append((partition, stable))
        return " of producer id 5"

    world.ends = SourceEnds(world.ends._source, 20.0, whose)
    for _ in range(10):
        world.look({BY_RECORDS: Ends(5, 5), BY_BATCHES: Ends(20, 25)})
    hold = world.ends.hold(BY_BATCHES)
    assert hold and "an open transaction on the source" in hold.reason and not asked
    for _ in range(20):
        world.look({BY_RECORDS: Ends(5, 5), BY_BATCHES: Ends(20, 25)})
    hold = world.ends.hold(BY_BATCHES)
    assert hold and "an open transaction of producer id 5 on the source" in hold.reason
    assert asked == [(BY_BATCHES, 20)] and world.ends.hold(BY_RECORDS) is None
