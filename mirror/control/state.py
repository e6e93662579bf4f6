"""The states of a partition in its task."""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """A partition's state. STARTING has no producer yet; FAILED waits and tries again; RELEASED is final.

    PAUSED is too: copying goes on with another replicator. Until then this one only keeps the position alive.
    """

    STARTING = "starting"
    RUNNING = "running"
    FAILED = "failed"
    PAUSED = "paused"
    RELEASED = "released"


TRANSITIONS = {
    State.STARTING: {State.RUNNING, State.FAILED, State.PAUSED, State.RELEASED},
    State.RUNNING: {State.STARTING, State.FAILED, State.PAUSED, State.RELEASED},
    State.FAILED: {State.RUNNING, State.PAUSED, State.RELEASED},
    State.PAUSED: {State.RELEASED},
    State.RELEASED: set[State](),
}
