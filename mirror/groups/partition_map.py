"""The entries of one remote partition's offset map, in a compact form: there may be millions of them."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise

from mirror.target.offset_map import Entry, decode_value


class PartitionMap:
    """Entries by downstream offset, for one pair of topic ids. Each takes about 80 bytes, and is decoded at each use.

    A pass is a part of the map in which upstream offsets only go forward: a pass ends where the position was reset.
    """

    def __init__(self) -> None:
        self._downstream = array("q")
        self._upstream = array("q")
        self._values: list[bytes] = []
        self._passes: list[tuple[int, int]] | None = None

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: int) -> Entry:
        return decode_value(self._downstream[index], self._values[index])

    def add(self, entry: Entry) -> None:
        """Add an entry. It replaces one at the same downstream offset."""
        self.remove(entry.downstream)
        at = bisect_left(self._downstream, entry.downstream)  # usually the end
        self._downstream.insert(at, entry.downstream)
        self._upstream.insert(at, entry.upstream)
        self._values.insert(at, entry.value())

    def remove(self, downstream: int) -> None:
        """Remove the entry at this downstream offset, if there is one."""
        self._passes = None
        at = bisect_left(self._downstream, downstream)
        if at < len(self) and self._downstream[at] == downstream:
            del self._downstream[at], self._upstream[at], self._values[at]

    def at_downstream(self, offset: int) -> int:
        """The index of the last entry that begins at this downstream offset or before it; -1 if there is none."""
        return bisect_right(self._downstream, offset) - 1

    def at_upstream(self, offset: int, first: int, last: int) -> int:
        """The index of the last entry that begins at this upstream offset or before it, in one pass.

        The pass goes from the index `first` to before `last`. `first` - 1 if it has no such entry.
        """
        return bisect_right(self._upstream, offset, first, last) - 1

    @property
    def passes(self) -> list[tuple[int, int]]:
        """The index at which each pass begins, and the one before which it ends."""
        if self._passes is None:
            ends = [self[index] for index in range(len(self))]
            begins = [0]
            for index, (a, b) in enumerate(pairwise(ends)):
                if a.resets != b.resets or b.upstream < a.upstream_end:
                    begins.append(index + 1)
            self._passes = list(pairwise([*begins, len(self)]))
        return self._passes
