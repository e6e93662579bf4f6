"""How a partition stands, as its last step has left it: what other threads read of it."""

from __future__ import annotations

from dataclasses import dataclass

from mirror.control.decisions import Incident
from mirror.control.partition_state import State
from mirror.control.reports import Counters
from mirror.kafka.throttling import REPORTED_FOR
from mirror.model import Position


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """One step publishes it as a whole, so the position and the counters are always of the same moment."""

    state: State
    reason: str
    incident: Incident | None  # what a person has to decide about with `mirror resume`
    position: Position  # see KnownPositions.to_report; offset -1: none is known
    last_commit: float  # seconds since the Unix epoch
    renew_at: float | None  # monotonic: when the position has to be committed again; None: there is none to keep
    counters: Counters  # a copy
    foreign: tuple[int, int]  # the last offsets at which somebody else has written to the remote partition
    has_producer: bool
    last_used: float  # when the producer was last used, monotonic
    throttled_until: float  # monotonic: when the throttle has let records through, or will
    throttle: str  # why it had to wait until then, for people
    unfollowed: str = ""  # the request of a decision about the incident that can't be followed

    def position_is_old(self, now: float) -> bool:
        """True if the position has to be committed again, also for a partition that is paused or can't be copied."""
        return self.renew_at is not None and now >= self.renew_at

    def is_throttled(self, now: float) -> bool:
        """True while the throttle slows the partition down: it waits for its turn, or has just had one."""
        return now < self.throttled_until + REPORTED_FOR

    def has_become(self, state: State) -> bool:
        """True if the partition has entered the state that was asked for, or was released."""
        return self.state in (State.RELEASED, state)
