"""The events that a partition's step gets. The fetcher's are in source/fetch_events.py, all others are here."""

from __future__ import annotations

from dataclasses import dataclass

from mirror.control.partition_state import State
from mirror.source.fetch_events import EndReached, FetchEvent

SETTLE_DELAY = 1.0  # seconds: so long a partition is idle before it commits what it owes
# Seconds without a transaction. Less than SETTLE_DELAY, because that delay may begin before the transaction ends.
IDLE_AFTER = SETTLE_DELAY / 2


@dataclass(frozen=True, slots=True)
class LetGo:
    """Let the partition go after the running transaction.

    `next_state` is RELEASED, or PAUSED: a paused partition stays with this task.
    """

    next_state: State


@dataclass(frozen=True, slots=True)
class DecisionMade:
    """Somebody has decided about an incident of the partition, perhaps a former one."""


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
    """The throttle has changed. Turns are void: the partition asks for new ones, and may have to wait less now."""


Event = FetchEvent | LetGo | EndAt | DecisionMade | RenewalDue | ThrottleChanged


def delay_of(event: Event, paced: float, owes: bool) -> float:
    """Seconds after which a step has to read the event.

    `paced` are the seconds until pacing and back-off allow a step. `owes` is True if an idle partition may have
    something to commit.
    """
    match event:
        case LetGo() | DecisionMade() | ThrottleChanged():
            return 0.0
        case EndReached():
            return SETTLE_DELAY if owes else max(paced, SETTLE_DELAY)
        case _:
            return paced
