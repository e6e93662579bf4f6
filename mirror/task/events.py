"""What a partition's step is told: by the fetcher (source/fetch_events.py), and by the plan follower or the task."""

from __future__ import annotations

from dataclasses import dataclass

from mirror.control.partition_state import State
from mirror.source.fetch_events import EndReached, FetchEvent

SETTLE_DELAY = 1.0  # seconds a partition is idle before it commits what it owes
IDLE_AFTER = SETTLE_DELAY / 2  # seconds after its last transaction; less, since the delay may begin before that ends


@dataclass(frozen=True, slots=True)
class LetGo:
    """Let the partition go after the running transaction, if there is one: RELEASED, or PAUSED, which stays ours."""

    into: State


@dataclass(frozen=True, slots=True)
class DecisionMade:
    """Somebody has decided about an incident, perhaps this partition's."""


@dataclass(frozen=True, slots=True)
class RenewalDue:
    """The position has to be committed again."""


@dataclass(frozen=True, slots=True)
class EndAt:
    """Let the partition go once everything before this offset is copied: a record batch begins there.

    Then the batch path goes on. If it comes too late, nothing happens.
    """

    offset: int


@dataclass(frozen=True, slots=True)
class ThrottleChanged:
    """The turns that partitions have are void: who waits may have to wait less now."""


Event = FetchEvent | LetGo | EndAt | DecisionMade | RenewalDue | ThrottleChanged


def delay_of(event: Event, paced: float, owes: bool) -> float:
    """Seconds until a step has to learn of the event.

    `paced`: until pacing and back-off allow a step. `owes`: an idle partition may have something to commit.
    """
    match event:
        case LetGo() | DecisionMade() | ThrottleChanged():
            return 0.0
        case EndReached():
            return SETTLE_DELAY if owes else max(paced, SETTLE_DELAY)
        case _:
            return paced
