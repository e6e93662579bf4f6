"""Finds where copies are on the target, by counting the records of a range that has to have nothing else."""

from __future__ import annotations

import time

from confluent_kafka.admin import OffsetSpec

from mirror.errors import ClusterAway, MirrorError, PartitionError
from mirror.groups.record_counter import RecordCounter
from mirror.groups.translation import Count
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition, Position
from mirror.target.position_reader import PositionReader

Counted = tuple[list[int], int]  # downstream offsets, and the start of the remote log after the counting
RETRY = 0.05  # seconds
OPEN = "which records are copies can't be told while a transaction is open in"


class Wait:
    """The wait of one look for the end of a transaction."""

    def __init__(self, patience: float) -> None:
        self._began, self._patience = time.monotonic(), patience
        self._last = False  # True once the time is over: then a position that has moved on is looked at once more

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return time.monotonic() - self._began

    def is_over(self, stands: bool) -> bool:
        """True if nobody waits any longer; else this waits for a moment if the position `stands` where it was."""
        late = self.seconds >= self._patience
        if late and (stands or self._last):
            return True
        self._last = late
        if stands:
            time.sleep(RETRY)
        return False


class CopyCounter:
    """Counts, and remembers what was counted until it has to `forget`: several groups often need the same count."""

    def __init__(self, counter: RecordCounter, target: ClusterAdmin, positions: PositionReader) -> None:
        """It closes the `counter`."""
        self._counter = counter
        self._target = target
        self._positions = positions
        self._known: dict[tuple[Partition, Count], Counted | MirrorError] = {}

    def close(self) -> None:
        """End the client."""
        self._counter.close()

    def forget(self) -> None:
        """Count everything anew from now on."""
        self._known.clear()

    def count(self, remote: Partition, position: Position, count: Count) -> Counted | None:
        """The offsets of the records that have to be counted. None if it can't be told now which records are copies.

        `position` says what is copied. Nobody waits a second time for a partition that does not answer. Raises
        ClusterAway, PartitionError.
        """
        found = self._known.get((remote, count))
        if found is None:
            try:
                found = self._count(remote, position, count)
            except (ClusterAway, PartitionError) as error:
                found = error
            if found is None:
                return None
            self._known[remote, count] = found
        if isinstance(found, MirrorError):
            raise found
        return found

    def _count(self, remote: Partition, position: Position, count: Count) -> Counted | None:
        """Count now.

        An open transaction may hide some of the copies, and as many records of others could stand in their place. After
        the last copy that the position knows there may be newer ones. So it can't be told if some are hidden there, or
        if more is copied meanwhile: the next position says where these copies end.
        """
        found = self._counter.offsets(remote, count.begin, count.end, count.expected + 1)
        may_be_ours = len(found.offsets) <= count.expected
        if count.end is None:
            now = self._positions.hints([remote]).get(remote)
            if now is None or now.map_end != position.map_end:
                return None
            if may_be_ours and self._high_watermark(remote) != found.reached:
                return None
        elif may_be_ours and found.reached < count.end:
            raise PartitionError(f"{OPEN} {remote}")
        start = self._target.offsets({remote: OffsetSpec.earliest()}).get(remote)
        if start is None:
            raise PartitionError("the target does not give the start of the remote log")
        return found.offsets, start

    def _high_watermark(self, remote: Partition) -> int | None:
        return self._target.offsets({remote: OffsetSpec.latest()}, stable=False).get(remote)
