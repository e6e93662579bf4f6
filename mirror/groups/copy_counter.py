"""Finds where copies are on the target, by counting the records of a range that has to have nothing else."""

from __future__ import annotations

from mirror.errors import ClusterAway, MirrorError, PartitionError
from mirror.groups.record_counter import RecordCounter
from mirror.groups.translation import Count
from mirror.model import Partition, Position
from mirror.target.position_reader import PositionReader

Counted = tuple[list[int], int]  # downstream offsets, and the start of the remote log after the counting


class CopyCounter:
    """Counts, and remembers what was counted until it has to `forget`: several groups often need the same count."""

    def __init__(self, counter: RecordCounter, positions: PositionReader) -> None:
        """It closes the `counter`."""
        self._counter = counter
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

        The reason is a transaction that is open, or that more was copied meanwhile. `position` says what is copied.
        Nobody waits a second time for a partition that does not answer. Raises ClusterAway, PartitionError.
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
        if count.end is None:
            now = self._positions.hints([remote]).get(remote)
            if now is None or now.map_end != position.map_end:
                return None
        start, high = self._positions.bounds(*remote)
        is_all_seen = found.reached == high if count.end is None else found.reached >= count.end
        return (found.offsets, start) if is_all_seen or len(found.offsets) > count.expected else None
