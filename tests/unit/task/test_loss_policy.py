"""A damaged batch stops its partition: how often the partition looks at it, on the world of test_copier.py.

source/test_corruption.py has the look itself.
"""

from __future__ import annotations

from typing import Any

import pytest

from mirror.control.decisions import Decision
from mirror.control.partition_state import State
from mirror.model import Position
from mirror.source import corruption
from mirror.source.fetch_events import ReadingLost
from mirror.task.copier import RecordCopier
from mirror.task.known_positions import StartPoint
from tests.unit.source.test_corruption import FIRST, Answers
from tests.unit.task.test_active_active import BACK
from tests.unit.task.test_copier import World, arrive, enter, state
from tests.unit.test_naming import flow


class Source(Answers):
    """Consumers of a source whose batch from FIRST to `end` can't be read."""

    def __init__(self) -> None:
        self.end = FIRST + 10
        super().__init__(lambda at, _: FIRST <= at < self.end)


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    source = Source()
    monkeypatch.setattr(corruption, "batch_reader", lambda _: source)
    return source


def blocked(world: World, monkeypatch: pytest.MonkeyPatch, left_out: int = 0) -> RecordCopier:
    """A copier that the batch has stopped, after so many records that were left out."""
    enter(world, monkeypatch)
    monkeypatch.setattr(world, "offsets", lambda asked, stable=True: dict.fromkeys(asked, 100 if stable else 0))
    world.position = Position(FIRST - left_out, "id", remote_id="remote-id")
    copier = world.copier(StartPoint(FIRST - left_out, world.position))
    if left_out:
        arrive(copier, FIRST - left_out, FIRST, BACK)
    copier.buffer.seal()
    copier.post(ReadingLost("failed CRC32C check", damaged=True))
    world.run(5)
    assert state(copier) is State.BLOCKED and "offsets 20 to 29 can't be read" in copier.snapshot.reason
    return copier


def test_each_retry_looks_at_the_batch_with_one_consumer(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(flow())
    copier = blocked(world, monkeypatch)
    assert len(source.tried) > 5
    source.tried.clear()
    world.run(300)
    assert 5 < len(source.tried) <= 10 and set(source.tried) == {FIRST}
    source.end = 0  # another replica leads, which has it as it was written
    world.run(60)
    assert state(copier) is State.RUNNING and copier.snapshot.incident is None


def test_the_range_that_a_person_passes_over_is_the_one_that_was_found(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(flow())
    copier = blocked(world, monkeypatch)
    incident = copier.snapshot.incident
    assert incident is not None
    decision: Any = Decision(copier.partition, incident, "skip")
    monkeypatch.setattr(world, "decision", lambda _: decision)
    world.run(60)
    assert world.position is not None and world.position.offset == FIRST + 10
    assert copier.snapshot.counters.lost["corrupt"] == 10 and state(copier) is State.RUNNING


def test_a_batch_after_records_that_are_left_out_is_looked_at_in_its_place(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The position is before these records, which can be read. The partition must not count as running in between."""
    world = World(flow(active_active=True))
    copier = blocked(world, monkeypatch, left_out=3)
    source.tried.clear()
    world.run(300)
    assert state(copier) is State.BLOCKED and set(source.tried) == {FIRST} and len(source.tried) <= 10
