"""The step of one partition that goes on by a person's decision: after what was copied, or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirror.control.decisions import Choice, Decision, Incident
from mirror.control.partition_state import State
from mirror.model import MapEnd, Partition, Position
from mirror.records.undecided import Undecided
from mirror.task import partition_take_over
from mirror.task.copier import RecordCopier
from mirror.task.events import DecisionMade
from mirror.task.known_positions import StartPoint
from tests.unit.task.test_copier import COPY, TAKE_OVER, World, arrive, enter, sought, state
from tests.unit.test_naming import flow

KNOWN = Position(5, "id", remote_id="remote-id", resets=1, map_end=MapEnd(0, 2))
FURTHER = replace(KNOWN, offset=8, map_end=MapEnd(0, 5))
FOREIGN = Position(3, "")


class Deciding(World):
    """A world in which a person decides, and what the target shows of the copy's end."""

    made: Decision | None = None
    requests = 0
    takes = 0.0  # seconds to look for the end
    found: Position | Undecided = FURTHER

    def decision(self, _: Partition) -> Decision | None:  # type: ignore[override]
        return self.made

    def decide(self, copier: RecordCopier, choice: Choice, offset: int = -1) -> None:
        incident = copier.snapshot.incident
        assert incident is not None
        self.requests += 1
        self.made = Decision(Partition("t", 0), incident, choice, offset, str(self.requests))
        copier.post(DecisionMade())
        self.run(0.1)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Deciding:
    world = Deciding(flow(**getattr(request, "param", {})))
    enter(world, monkeypatch)

    class Finder:
        def __init__(self, *_: object) -> None: ...

        def find(self, known: Position | None, end: int) -> Position | Undecided:
            world.called(f"find {None if known is None else known.offset} {end}")
            world.time += world.takes
            return world.found

    monkeypatch.setattr(partition_take_over, "EndFinder", Finder)
    return world


def blocked(world: Deciding, position: Position | None, known: Position | None = KNOWN) -> RecordCopier:
    """A copier that does not believe the position that it has found."""
    world.position, world.high, world.grows = position, 20, 20
    copier = world.copier(StartPoint(0, reported=known))
    arrive(copier, 0, 3)
    world.run(1)
    assert state(copier) is State.BLOCKED
    world.calls.clear()
    return copier


@pytest.mark.parametrize("position", [None, FOREIGN, replace(KNOWN, offset=2)])
def test_it_goes_on_after_what_was_copied(world: Deciding, position: Position | None) -> None:
    copier = blocked(world, position)
    world.decide(copier, "continue")
    assert world.calls[:4] == [*TAKE_OVER, "find 5 20"], "nobody else can copy any more"
    assert world.position == replace(FURTHER, resets=2) and sought(copier, world) == 8
    assert world.copied == []
    arrive(copier, 8, 10)
    world.run(1)
    assert world.copied == [8, 9] and state(copier) is State.RUNNING


def test_it_stays_blocked_until_another_decision_if_the_end_can_t_be_found(world: Deciding) -> None:
    copier = blocked(world, None)
    world.found = Undecided("its record at offset 7 is nobody's")
    world.decide(copier, "continue")
    seen = copier.snapshot
    assert seen.state is State.BLOCKED and seen.incident is not None and not seen.has_producer
    assert seen.reason == (
        "the position in group group is gone, it was 5; --continue can't find where the copy in primary.t ends: its "
        "record at offset 7 is nobody's; the newest position that is known is 5; decide with mirror resume --at or "
        "--from-start"
    )
    assert seen.unfollowed == "1"
    world.decide(copier, "continue")
    assert copier.snapshot.unfollowed == "2", "the answer is to this request, though it says the same"
    assert world.position is None and "position" not in world.calls, "nothing is committed"
    world.decide(copier, "at", 6)
    assert world.position is not None and world.position.offset == 6 and sought(copier, world) == 6
    assert copier.snapshot.unfollowed == ""


@pytest.mark.parametrize(("takes", "retry"), [(0.5, 30), (60, 540)])
def test_a_long_search_in_vain_is_not_made_again_soon(world: Deciding, takes: float, retry: float) -> None:
    """It may have read all that the source has. A decision is followed at once."""
    copier = blocked(world, None)
    world.found, world.takes = Undecided("its record at offset 7 is nobody's"), takes
    world.decide(copier, "continue")
    world.calls.clear()
    world.run(retry - 2)
    assert "find 5 20" not in world.calls
    world.run(4)
    assert world.calls.count("find 5 20") == 1
    world.decide(copier, "at", 6)
    assert world.position is not None and world.position.offset == 6


def test_what_can_be_found_later_is_gone_on_with_later(world: Deciding) -> None:
    """The decision stays, and the step is made again."""
    copier = blocked(world, FOREIGN)
    world.found = Undecided("the source has none that it could be")
    world.decide(copier, "continue")
    assert state(copier) is State.BLOCKED
    world.found = FURTHER
    world.run(60)
    assert world.position == replace(FURTHER, resets=2) and sought(copier, world) == 8


@pytest.mark.parametrize("choice", ["start", "at"])
def test_other_choices_ask_for_no_end(world: Deciding, choice: Choice) -> None:
    copier = blocked(world, None)
    world.decide(copier, choice, 4)
    assert not [call for call in world.calls if call.startswith("find")]
    assert world.position is not None and world.position.offset == (4 if choice == "at" else world.first)


@pytest.mark.parametrize("world", [{"append_to_existing": True}], indirect=True)
def test_nor_does_a_policy(world: Deciding, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was chosen for records of others, which can't be compared."""
    monkeypatch.setattr(partition_take_over.TakeOver, "_has_records", lambda _: True)
    copier = world.copier()
    arrive(copier, 0, 3)
    world.run(1)
    assert world.copied == [0, 1, 2] and not [call for call in world.calls if call.startswith("find")]


@pytest.mark.parametrize("world", [{"canary": replace(flow().canary, enabled=True)}], indirect=True)
def test_canaries_go_on_at_the_newest_position_that_is_known(world: Deciding, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_take_over, "is_mapped", lambda *_: False)
    copier = blocked(world, None)
    world.decide(copier, "continue")
    assert world.calls == [*TAKE_OVER, *COPY] and sought(copier, world) == 5


def test_what_a_deleted_remote_topic_had_can_t_come_twice(world: Deciding) -> None:
    copier = blocked(world, replace(KNOWN, remote_id="former"), replace(KNOWN, remote_id="former"))
    incident: Any = copier.snapshot.incident
    assert isinstance(incident, Incident) and incident.kind == "remote_topic"
    world.decide(copier, "continue")
    assert not [call for call in world.calls if call.startswith("find")] and sought(copier, world) == 5
