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
    position: Position  # as last loaded or committed; offset -1: none is known
    position_topic_id: str  # the source topic that the position belongs to; "" while nothing has been committed
    last_commit: float  # seconds since the Unix epoch
    renew_at: float | None  # monotonic: when the position has to be committed again; None: there is none to keep
    counters: Counters  # a copy
    foreign: tuple[int, int]  # the last offsets at which somebody else has written to the remote partition
    has_producer: bool
    last_used: float  # monotonic: when the producer was
    throttled_until: float  # monotonic: when the throttle has let records through, or will
    throttle: str  # why it has not before, for people

    def position_is_old(self, now: float) -> bool:
        """Has the position to be committed again? It may belong to a paused partition, or one that can't be copied."""
        return self.renew_at is not None and now >= self.renew_at

    def is_throttled(self, now: float) -> bool:
        """True while the throttle slows the partition down: it waits for its turn, or has just had one."""
        return now < self.throttled_until + REPORTED_FOR

    def has_become(self, state: State) -> bool:
        """Has the partition become what it was asked to, or been let go?"""
        return self.state in (State.RELEASED, state)
