"""One partition's step with a transform, on the world of test_copier.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirror.control.decisions import Decision
from mirror.control.partition_state import State
from mirror.errors import OutcomeUnknown, RecordsRefused
from mirror.model import MapEnd
from mirror.settings import TopicSettings
from mirror.target.record_transactions import TransactionSession
from mirror.task.rate_limits import Bucket, Turn
from tests.unit.task.test_copier import COPY, TAKE_OVER, World, arrive, enter, throttle
from tests.unit.test_naming import flow

SHOP = "tests.transforms.shop_transforms"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> World:
    settings: dict[str, Any] = {"transform": f"{SHOP}.tenfold"} | getattr(request, "param", {})
    world = World(flow(**settings))
    enter(world, monkeypatch)
    return world


def copied(world: World) -> int | None:
    return world.position.offset if world.position else None


def policy(value: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("world", [{"on_poison_record": value}], indirect=True)


def test_the_position_moves_past_what_is_dropped(world: World) -> None:
    copier = world.copier()
    arrive(copier, 0, 4)
    world.run(0.1)
    assert (world.copied, copied(world)) == ([0, 20], 4)
    assert world.calls == [*TAKE_OVER, *COPY]
    counted = copier.snapshot.counters
    assert (counted.records, counted.dropped, counted.transactions["committed"]) == (2, 2, 1)
    assert sum(counted.lost.values()) == 0


def test_a_batch_of_which_nothing_is_left_commits_its_position(world: World) -> None:
    copier = world.copier()
    arrive(copier, 1, 2)
    world.run(0.1)
    assert (world.copied, copied(world)) == ([], 2)
    assert world.position is not None and world.position.map_end == MapEnd()
    assert world.calls == [*TAKE_OVER, *COPY]
    assert (copier.snapshot.counters.records, copier.snapshot.counters.dropped) == (0, 1)
    assert copier.snapshot.state is State.RUNNING
    arrive(copier, 2, 4)
    world.run(3)
    assert (world.copied, copied(world), copier.snapshot.counters.dropped) == ([20], 4, 2)


@pytest.mark.parametrize("name", ["position", "commit"])
def test_each_record_is_copied_once_whatever_fails(world: World, name: str) -> None:
    """A commit takes effect before it fails; what comes before a failed one does not, and is transformed again."""
    world.fails[name] = OutcomeUnknown("x")
    copier = world.copier()
    arrive(copier, 0, 4)
    world.run(5)
    assert not world.fails and world.calls.count("fence") == 2
    assert (world.copied, copied(world)) == ([0, 20], 4)


@policy("fail")
def test_a_failure_stops_the_partition_before_the_record(world: World) -> None:
    copier = world.copier()
    arrive(copier, 0, 8)
    world.run(2)
    seen = copier.snapshot
    assert (world.copied, copied(world), seen.state) == ([0, 20], 4, State.BLOCKED)
    assert seen.reason.startswith("the transform fails for the record at offset 4 (1 bytes): the transform ")
    assert seen.reason.endswith(
        "correct the transform and start the service again, or pass it over with mirror resume --skip-lost"
    )
    assert seen.incident is not None and (seen.incident.kind, seen.incident.offset) == ("refused", 4)
    decision = Decision(copier.partition, seen.incident, "skip")
    world.decision = lambda _: decision  # type: ignore[method-assign, assignment]
    world.run(60)
    assert (world.copied, copied(world)) == ([0, 20, 60], 8)
    assert copier.snapshot.counters.lost["refused"] == 1
    assert copier.snapshot.state is State.RUNNING


@policy("skip")
def test_a_failure_passes_the_record_over(world: World) -> None:
    copier = world.copier()
    arrive(copier, 0, 8)
    world.run(2)
    assert (world.copied, copied(world)) == ([0, 20, 60], 8)
    counted = copier.snapshot.counters
    assert (counted.lost["refused"], counted.lost["dead_letter"], counted.dropped) == (1, 0, 4)
    assert counted.transactions["aborted"] == 0 and world.calls.count("fence") == 1, "the target was not asked"


@policy("dead_letter")
def test_a_failure_makes_a_dead_letter_of_the_record_as_it_was(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    letters = []

    def beside(self: TransactionSession, topic: str, **record: Any) -> None:
        if topic == world.flow.dead_letter_topic:
            letters.append((record["value"], dict(record["headers"])["mirror.dead-letter.reason"]))

    monkeypatch.setattr(TransactionSession, "_produce_own", beside)
    copier = world.copier()
    arrive(copier, 0, 8)
    world.run(2)
    ((value, reason),) = letters
    assert value == b"4" and reason.startswith(
        f"the transform {SHOP}.tenfold raised ValueError at shop_transforms.py:".encode()
    )
    assert copier.snapshot.counters.lost["dead_letter"] == 1
    assert (world.copied, copied(world)) == ([0, 20, 60], 8)


@policy("skip")
def test_the_target_may_refuse_what_a_transform_has_made(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = TransactionSession.copy

    def refuses(self: TransactionSession, batch: Any, position: Any) -> Any:
        if b"20" in list(batch.values):
            raise RecordsRefused("too large")
        return copy(self, batch, position)

    monkeypatch.setattr(TransactionSession, "copy", refuses)
    copier = world.copier()
    arrive(copier, 0, 4)
    world.run(5)
    assert (world.copied, copied(world)) == ([0], 4)
    assert copier.snapshot.counters.lost["refused"] == 1
    assert copier.snapshot.counters.dropped == 2


def test_a_transform_that_is_not_there_blocks_its_topic(world: World) -> None:
    world.flow = replace(world.flow, transform="no_such_module.f")
    copier = world.copier()
    arrive(copier, 0, 4)
    world.run(1)
    assert copier.snapshot.state is State.BLOCKED
    assert "no_such_module.f can't be used" in copier.snapshot.reason
    assert (world.copied, copied(world)) == ([], None)


@pytest.mark.parametrize("own", [None, "none", f"{SHOP}.nothing"])
def test_a_topic_can_have_another_or_none(world: World, own: str | None) -> None:
    world.flow = replace(world.flow, topic_settings={"t": TopicSettings(None, None, None, None, None, own)})
    copier = world.copier()
    arrive(copier, 0, 4)
    world.run(0.1)
    assert world.copied == {None: [0, 20], "none": [0, 1, 2, 3], f"{SHOP}.nothing": []}[own]
    assert copied(world) == 4


def test_only_a_slow_transform_leaves_threads_to_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    copier = world.copier()
    arrive(copier, 0, 2)
    world.run(0.1)
    assert world.copied == [0] and not copier.may_take_long and copier.hang_reason == ""

    def takes_long() -> float:
        world.time += 0.2
        return world.time

    monkeypatch.setattr(world, "monotonic", takes_long)
    arrive(copier, 2, 4)
    world.run(1)
    assert world.copied == [0, 20] and copier.may_take_long


@pytest.mark.parametrize("world", [{"transform": f"{SHOP}.nothing"}], indirect=True)
def test_what_is_dropped_takes_nothing_of_a_throttle(world: World) -> None:
    copier = world.copier()
    throttle(world, copier, 2.0)
    arrive(copier, 0, 40)
    world.run(3)
    assert (world.copied, copied(world)) == ([], 40)
    assert copier.snapshot.counters.dropped == 40


def test_what_is_made_of_a_record_counts_for_a_throttle(world: World) -> None:
    copier = world.copier()
    throttle(world, copier, 1.0)
    arrive(copier, 6, 9)
    world.run(0.1)
    assert world.copied == [60]
    world.run(1.5)
    assert world.copied == [60], "it has two bytes"
    world.run(1)
    assert world.copied == [60, 80]


@policy("fail")
def test_a_record_for_which_it_fails_again_and_again_takes_nothing_of_a_throttle(world: World) -> None:
    copier = world.copier()
    throttle(world, copier, 1.0)
    arrive(copier, 4, 40)
    world.run(60)
    assert copier.snapshot.state is State.BLOCKED and copier.snapshot.counters.retries > 1
    (bucket,) = world.limits.of("t")
    assert bucket.turn(1).at <= world.time


def test_a_blocked_partition_takes_from_the_throttle_only_what_it_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much waits behind the record that the target does not take: other partitions may copy that meanwhile."""
    world, charged, tries = World(flow(on_poison_record="fail")), list[int](), list[int]()
    enter(world, monkeypatch)
    turn, counted = Bucket.turn, Bucket.copied

    def reserve(self: Bucket, wanted: int) -> Turn:
        found = turn(self, wanted)
        charged.append(found.reserved)
        return found

    def count(self: Bucket, of: Turn, size: int) -> None:
        charged.append(size - of.reserved)
        counted(self, of, size)

    def refuses(_: TransactionSession, batch: Any, position: Any) -> Any:
        tries.append(batch.weight)
        raise RecordsRefused("no")

    monkeypatch.setattr(Bucket, "turn", reserve)
    monkeypatch.setattr(Bucket, "copied", count)
    monkeypatch.setattr(TransactionSession, "copy", refuses)
    copier = world.copier()
    throttle(world, copier, 1_000.0)
    arrive(copier, 0, 5_000)
    world.run(300)
    assert copier.snapshot.state is State.BLOCKED and len(tries) > 10
    assert sum(charged) <= sum(tries) + 1_000, "a turn may be reserved for the next try"
