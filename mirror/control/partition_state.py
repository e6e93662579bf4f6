"""The states of a partition in its task."""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """A partition's state, which says what an operator may expect.

    - STARTING: it is about to be copied. In whole batches its task takes it over. Record by record it waits for
      records: its task has no producer open for it, because none has come yet, or because its idle producer was closed.
    - RUNNING: it is copied.
    - RETRYING: the last try failed. The partition tries again, and goes on by itself once the cause has passed.
    - BLOCKED: it waits for a person, who has to decide (`mirror resume`) or to repair something. The task still looks
      again now and then, to see that this was done.
    - PAUSED: a person has ordered it. This copier only keeps the position alive; another one goes on copying.
    - RELEASED: the task has let it go. No state follows.
    """

    STARTING = "starting"
    RUNNING = "running"
    RETRYING = "retrying"
    BLOCKED = "blocked"
    PAUSED = "paused"
    RELEASED = "released"

    @property
    def stopped_by_error(self) -> bool:
        """True for RETRYING and BLOCKED: an error ended the last try."""
        return self in (State.RETRYING, State.BLOCKED)


# The values of the states that an error leads to, as reports have them.
STOPPED_BY_ERROR = tuple(state.value for state in State if state.stopped_by_error)

TRANSITIONS = {
    State.STARTING: {State.RUNNING, State.RETRYING, State.BLOCKED, State.PAUSED, State.RELEASED},
    State.RUNNING: {State.STARTING, State.RETRYING, State.BLOCKED, State.PAUSED, State.RELEASED},
    State.RETRYING: {State.RUNNING, State.BLOCKED, State.PAUSED, State.RELEASED},
    State.BLOCKED: {State.RUNNING, State.RETRYING, State.PAUSED, State.RELEASED},
    State.PAUSED: {State.RELEASED},
    State.RELEASED: set[State](),
}
