"""The step of one partition with active_active: what it leaves out, and what others write to its remote partition."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Message

from mirror.control.partition_state import State
from mirror.errors import PartitionError
from mirror.kafka.provenance import NAME
from mirror.model import Partition
from mirror.source.fetch_events import EndReached, RecordsArrived
from mirror.source.loss_detection import find_loss
from mirror.task import partition_take_over
from mirror.task.copier import RecordCopier
from tests.unit.task.test_copier import COPY, TAKE_OVER, TOPIC, World, arrive, enter, foreign, state
from tests.unit.test_naming import flow

BACK = [(NAME, b"t,0,id-b")]  # of a record that comes from the target
OURS = (NAME, b"primary.t,0,id-a")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(flow(active_active=True))
    enter(world, monkeypatch)
    return world


def test_what_comes_from_the_target_is_left_out_and_the_rest_gets_the_header(world: World) -> None:
    copier = world.copier()
    arrive(copier, 0, 2)
    arrive(copier, 2, 5, BACK)
    arrive(copier, 5, 6, [("app", b"1")])
    world.run(0.1)
    assert (world.copied, world.headers) == ([0, 1, 5], [[OURS], [OURS], [("app", b"1"), OURS]])
    seen = copier.snapshot
    assert (seen.position.offset, seen.counters.records, seen.counters.left_out) == (6, 3, 3)


def test_the_position_moves_past_what_is_left_out_though_nothing_is_copied(world: World) -> None:
    copier = world.copier()
    arrive(copier, 0, 3, BACK)
    world.run(2)
    assert (copier.snapshot.position.offset, state(copier)) == (3, State.RUNNING)
    arrive(copier, 3, 5, BACK)
    copier.post(EndReached())
    world.run(2)
    assert (copier.snapshot.position.offset, world.copied) == (5, [])
    world.run(60)
    assert world.calls == TAKE_OVER + COPY + COPY, "then it rests"


def test_a_deposed_leader_with_an_older_epoch_than_what_is_left_out_has_cut_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    copier = world.copier()
    of_epoch(copier, 3, 0, 2)
    of_epoch(copier, 5, 2, 4, BACK)
    world.run(2)
    at = copier.snapshot.position
    assert (at.offset, at.epoch, at.newest_epoch, world.copied) == (4, -1, 5, [0, 1])
    any_: Any = world
    for epoch, found in ((4, None), (6, "truncated")):
        monkeypatch.setattr(World, "end", lambda *_, by=epoch: (2, by))
        if found is None:
            with pytest.raises(PartitionError, match="it does not lead any more"):
                find_loss(any_, Partition("t", 0), TOPIC, at, "")
        else:
            loss = find_loss(any_, Partition("t", 0), TOPIC, at, "")
            assert loss is not None and (loss.reason, loss.resume) == (found, 2)


def of_epoch(copier: RecordCopier, epoch: int, first: int, last: int, headers: Any = None) -> None:
    """Put records into the copier's buffer that the leader of this epoch has written, and tell the copier."""
    each = {"timestamp": (1, 1_000), "leader_epoch": epoch}
    copier.buffer.append([Message("t", 0, n, None, b"%d" % n, headers, **each) for n in range(first, last)])
    copier.post(RecordsArrived())


def test_what_was_left_out_before_a_seek_has_no_epoch_any_more(world: World) -> None:
    copier = world.copier()
    of_epoch(copier, 5, 0, 2, BACK)
    assert copier.buffer.left_out_epoch == 5
    copier.buffer.invalidate()
    assert copier.buffer.left_out_epoch == -1, "a newer leader may have cut it off"


def test_records_of_others_neither_block_a_new_partition_nor_are_they_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    has: Any = lambda _, asked: set(asked)  # noqa: E731
    monkeypatch.setattr(partition_take_over, "with_records", has)
    monkeypatch.setattr(World, "end", lambda *where: (100, 0) if len(where) == 2 else 40)
    world.grows = 40
    copier = world.copier()
    assert foreign(copier, world, 0) == 0 and state(copier) is State.RUNNING
    world.grows += 7
    assert foreign(copier, world, 3) == 0
    assert copier.snapshot.position.map_end is not None, "each transaction has an entry"
    assert copier.snapshot.position.map_end.records == 0


def test_without_the_mark_they_block_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    has: Any = lambda _, asked: set(asked)  # noqa: E731
    monkeypatch.setattr(partition_take_over, "with_records", has)
    monkeypatch.setattr(World, "end", lambda *where: (100, 0) if len(where) == 2 else 40)
    world.flow = flow()
    copier = world.copier()
    arrive(copier, 0, 3)
    world.run(0.1)
    assert state(copier) is State.BLOCKED and not world.copied
