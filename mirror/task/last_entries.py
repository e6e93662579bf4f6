"""The last entry of the offset map that each partition has: up to there it was copied for certain."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from mirror.groups.offset_map_reader import OffsetMapReader
from mirror.settings import Flow
from mirror.target.offset_map import Copied, Entry

WAIT = 1.0  # seconds between two signs of life of a step that waits for its turn


class LastEntry(NamedTuple):
    """What counts of an entry: an offset of either side after its records, and what tells it from others."""

    upstream_end: int
    downstream: int  # of its first record
    downstream_end: int
    resets: int


class LastEntries:
    """Reads the offset map for the copiers of one task, once for all of them: it may have millions of entries.

    Between two readings it has no consumer. Any thread may ask.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reader: OffsetMapReader[_Newest] | None = None

    def of(self, flow: Flow, copied: Copied, progressed: Callable[[], None]) -> LastEntry | None:
        """The last entry that the map has now; None if it has none.

        The map is read up to its last stable offset. So the caller has to wait first until what it looks for is before
        that. `progressed` is called again and again meanwhile. Raises ClusterAway.
        """
        while not self._lock.acquire(timeout=WAIT):  # who reads makes progress, or fails
            progressed()
        try:
            reader = self._reader = self._reader or OffsetMapReader(flow, _Newest)
            with closing(reader):
                reader.read(progressed=progressed)
            kept = reader.maps.get(copied)
            return None if kept is None else kept.entry
        finally:
            self._lock.release()


class _Newest:
    """The entry that was written last. The log of a remote partition grows, so no other one is after it."""

    def __init__(self) -> None:
        self.entry: LastEntry | None = None

    def add(self, entry: Entry) -> None:
        self.entry = LastEntry(entry.upstream_end, entry.downstream, entry.downstream_end, entry.resets)

    def remove(self, downstream: int) -> None:
        if self.entry is not None and self.entry.downstream == downstream:
            self.entry = None
