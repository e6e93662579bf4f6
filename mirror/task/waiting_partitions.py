"""The partitions of a task that have no copier yet, because it can't be told where they start.

They are reported like all others. Otherwise nobody learns of them, and a task whose partitions all wait looks as if it
hangs.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

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
    """The waiting partitions of one task."""

    def __init__(self) -> None:
        self.all: Mapping[Partition, WaitingPartition] = {}  # that may be reported
        self._newest: Mapping[Partition, WaitingPartition] = {}
        # The positions that were reported last, as read for the partitions that join; None if that has failed.
        self.reported: Mapping[Partition, Position] | None = None

    def begin(self) -> None:
        """Report none while it is found out where they start: that takes long, and another task may claim them."""
        self.all, self.reported = {}, None

    def keep(self, joining: Mapping[Partition, Topic]) -> None:
        """Forget those that are not among `joining` any more, or that belong to another topic now.

        The others may be reported from now on: the caller knows that no other task has claimed the slice.
        """
        kept = {partition: each for partition, each in self._newest.items() if joining.get(partition) == each.topic}
        self.all = self._newest = kept

    def replace(self, joining: Mapping[Partition, Topic], reasons: Mapping[Partition, str], state: State) -> None:
        """Take those of `joining` that have a reason to wait, in place of those that waited before.

        Nothing changes while the last reports can't be read. A report replaces the partition's last one. So it has to
        carry the position on that stands there, which is needed if the committed one has vanished.
        """
        if self.reported is None:
            return
        self._newest = {
            partition: WaitingPartition(
                partition,
                joining[partition],
                self._newest[partition].incarnation if partition in self._newest else uuid.uuid4().hex[:16],
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
