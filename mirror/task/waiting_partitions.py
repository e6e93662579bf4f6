"""The partitions of a task that have no copier yet, because it can't be told where they start.

They are reported like all others. Otherwise nobody learns of them, and a task whose partitions all wait looks as if it
hangs.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from mirror.backoff import Backoff
from mirror.control.partition_state import State
from mirror.control.reports import NOWHERE, Counters
from mirror.model import Partition, Position, Topic
from mirror.task.known_positions import StartPoint
from mirror.task.partition_snapshot import PartitionSnapshot

NOT_KNOWN = StartPoint(-1)


@dataclass(frozen=True, slots=True)
class WaitingPartition:
    """What is reported of one of them. It has copied nothing."""

    partition: Partition
    topic: Topic
    incarnation: str
    snapshot: PartitionSnapshot
    start: StartPoint = NOT_KNOWN
    hang_reason: str = ""
    drained_to: int | None = None
    head_timestamp: int | None = None


class WaitingPartitions:
    """The waiting partitions of one task, and when it tries again to start them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.all: Mapping[Partition, WaitingPartition] = {}  # that may be reported
        self._newest: Mapping[Partition, WaitingPartition] = {}
        # The positions that were reported last, as read for the partitions that join; None if that has failed.
        self.reported: Mapping[Partition, Position] | None = None
        self.failed: Set[Partition] = frozenset()  # those whose last try has failed; they share the back-off
        self._clock = clock
        self._backoff = Backoff(0.2, 5.0)
        self._retry_at = 0.0

    def due(self, joining: Mapping[Partition, Topic]) -> Mapping[Partition, Topic]:
        """Those of `joining` to start now. Until the back-off is over, they are those that it does not hold up."""
        self.failed &= joining.keys()
        if self._clock() >= self._retry_at:
            return joining
        return {partition: topic for partition, topic in joining.items() if partition not in self.failed}

    def begin(self) -> None:
        """Report none while it is found out where they start: that takes long, and another task may claim them."""
        self.all, self.reported = {}, None

    def keep(self, joining: Mapping[Partition, Topic]) -> None:
        """Forget those that are not among `joining` any more, or that belong to another topic now.

        The others may be reported from now on: the caller knows that no other task has claimed the slice.
        """
        kept = {partition: each for partition, each in self._newest.items() if joining.get(partition) == each.topic}
        self.all = self._newest = kept

    def tried(self, joining: Mapping[Partition, Topic], reasons: Mapping[Partition, str], state: State) -> None:
        """Learn that it was tried to start `joining`. Those that have a reason to wait go on waiting.

        What is reported of them stays the same while the last reports can't be read. A report replaces the partition's
        last one. So it has to carry the position on that stands there, which is needed if the committed one has
        vanished.
        """
        others = self.failed - joining.keys()
        self.failed = others | reasons.keys()
        if not self.failed:
            self._backoff.reset()
        elif reasons and not others:  # with others that wait already, these are tried again when those are
            self._retry_at = self._clock() + self._backoff.next()
        if self.reported is None:
            return
        before, rest = self._newest, {here: each for here, each in self._newest.items() if here not in joining}
        self._newest = rest | {
            partition: WaitingPartition(
                partition,
                joining[partition],
                before[partition].incarnation if partition in before else uuid.uuid4().hex[:16],
                _snapshot(state, reason, self.reported.get(partition)),
            )
            for partition, reason in reasons.items()
        }


def _snapshot(state: State, reason: str, position: Position | None) -> PartitionSnapshot:
    return PartitionSnapshot(
        state=state,
        reason=reason,
        incident=None,
        position=position or Position(-1, ""),
        last_commit=0.0,
        renew_at=None,
        counters=Counters(),
        foreign=NOWHERE,
        has_producer=False,
        last_used=0.0,
        throttled_until=float("-inf"),
        throttle="",
    )
