"""Which action a partition's step takes next. Pure: a frozen view goes in, one action comes out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from mirror.control.partition_state import State
from mirror.task.events import SETTLE_DELAY


class Action(Enum):
    """What can be done for a partition."""

    WAIT = auto()  # nothing is due
    LET_GO = auto()  # discard the producer, and enter the requested state: released or paused
    RENEW_PAUSED = auto()  # for a pause: take over, commit the start or the position again, discard the producer
    SEEK_AND_WAIT = auto()  # the source gives no records: fetch anew, which shows whether it gives some again
    TAKE_OVER = auto()  # fence, load, seek
    RENEW = auto()  # commit the position again as it is
    HANDLE_LOSS = auto()  # find out what the source has lost
    COPY = auto()  # one transaction with records
    SETTLE = auto()  # commit what an idle partition owes the target

    @property
    def is_last(self) -> bool:
        """False if the same step may take another action at once."""
        return self not in (Action.TAKE_OVER, Action.RENEW)

    @property
    def means_running(self) -> bool:
        """True if the partition is being copied once this action has succeeded. A take-over alone is no recovery."""
        return self in (Action.HANDLE_LOSS, Action.COPY, Action.SETTLE)


@dataclass(frozen=True, slots=True)
class DecisionView:
    """All that decides about a partition's next action."""

    state: State
    requested_state: State | None = None  # the state that the partition was asked to enter
    may_transact: bool = False  # a producer is open that may begin a transaction
    has_producer: bool = False  # there is a producer, disturbed or not
    position_is_old: bool = False  # the position has to be committed again
    must_commit_start: bool = False  # the offset where copying starts has to be committed before any record comes
    hint_doubted: bool = False  # the hint can't be believed: a take-over has to load the position
    reading_lost: bool = False  # the consumer can't go on after the buffered records
    source_refuses: bool = False  # the source gives no records
    records: int = 0  # in the buffer
    sealed: bool = False  # the buffer takes no more records
    owes: bool = False  # an idle partition has something to commit
    throttled: bool = False  # no records may be copied yet


def next_action(view: DecisionView) -> Action:
    """The next action, in the order of what matters most: let go, own the partition, keep the position, then copy."""
    if view.state is State.RELEASED:
        return Action.WAIT
    if view.requested_state is not None:
        return _let_go(view)
    if not _has_reason(view):
        return Action.WAIT
    if view.source_refuses and not (
        view.reading_lost or view.must_commit_start or view.position_is_old or view.records
    ):
        return Action.SEEK_AND_WAIT
    return _owned(view) if view.may_transact else Action.TAKE_OVER


def _let_go(view: DecisionView) -> Action:
    # A start that was not committed before the pause is asked for again after it. `latest` is a later offset then.
    if view.requested_state is State.PAUSED and view.must_commit_start and view.state is not State.BLOCKED:
        return Action.RENEW_PAUSED
    if view.state is not view.requested_state:
        return Action.LET_GO
    return Action.RENEW_PAUSED if view.position_is_old else Action.WAIT


def _owned(view: DecisionView) -> Action:
    if view.position_is_old:  # first: the next checks may stop copying, and the position must not expire meanwhile
        return Action.RENEW
    if view.reading_lost and not (view.sealed and view.records):
        return Action.HANDLE_LOSS
    return Action.COPY if view.records else Action.SETTLE


def _has_reason(view: DecisionView) -> bool:
    """True if there is a reason for an action. Without this check, an idle partition would open a producer."""
    return bool(
        view.state.stopped_by_error
        or (view.has_producer and view.state is State.STARTING)  # taken over, and no other action has succeeded since
        or view.position_is_old
        or view.must_commit_start
        or view.hint_doubted
        or view.reading_lost
        or view.source_refuses
        or (view.records and (view.may_transact or not view.throttled))
        or view.owes
    )


def next_wake(view: DecisionView, paced: float, full_at: int) -> float | None:
    """Seconds until the next step; None: wait for an event.

    `paced` are the seconds until pacing and back-off allow a step. A batch of `full_at` records need not wait,
    unless it is throttled: pacing includes that.
    """
    if view.state is State.RELEASED:
        return None
    if view.requested_state is not None:
        if view.state is view.requested_state:
            return None
        return paced if _let_go(view) is Action.RENEW_PAUSED else 0.0
    if (
        view.state.stopped_by_error
        or view.must_commit_start
        or view.hint_doubted
        or view.reading_lost
        or view.source_refuses
    ):
        return paced
    if view.records:
        return 0.0 if view.records >= full_at and not view.throttled else paced
    return SETTLE_DELAY if view.owes else None
