"""The entries of one remote partition's offset map, in a compact form: there may be millions of them."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise

from mirror.target.offset_map import Entry, decode_value


class PartitionMap:
    """Entries by downstream offset, for one pair of topic ids. Each takes about 80 bytes, and is decoded at each use.

    They are added in the order in which they were written. A pass is a part of the map in which upstream offsets only
    go forward: a pass ends where the position was reset.
    """

    def __init__(self) -> None:
        self._downstream = array("q")
        self._upstream = array("q")
        self._values: list[bytes] = []
        self._begins: set[int] = set()  # the downstream offsets at which a pass begins, but for the first pass
        self._newest: Entry | None = None  # what was added last, so that it need not be decoded

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: int) -> Entry:
        downstream = self._downstream[index]
        if self._newest is not None and self._newest.downstream == downstream:
            return self._newest
        return decode_value(downstream, self._values[index])

    def add(self, entry: Entry) -> None:
        """Add an entry. It replaces one at the same downstream offset, and all of a log that was cut."""
        at = bisect_left(self._downstream, entry.downstream)  # usually the end
        if entry.follows is None:  # what was at this offset and after it is not there any more
            self._remove(at, len(self))
        elif at < len(self) and self._downstream[at] == entry.downstream:
            self._remove(at, at + 1)
        if at and not _is_after(entry, self[at - 1]):  # the log was cut among that one's records
            at -= 1
            self._remove(at, at + 1)
        self._downstream.insert(at, entry.downstream)
        self._upstream.insert(at, entry.upstream)
        self._values.insert(at, entry.value())
        self._newest = entry
        for index in (at, at + 1):
            if 0 < index < len(self) and _is_another_pass(self[index - 1], self[index]):
                self._begins.add(self._downstream[index])

    def remove(self, downstream: int) -> None:
        """Remove the entry at this downstream offset, if there is one."""
        at = bisect_left(self._downstream, downstream)
        if at < len(self) and self._downstream[at] == downstream:
            self._remove(at, at + 1)

    def _remove(self, first: int, last: int) -> None:
        """Remove the entries with the indexes from `first` to before `last`."""
        if first < last:
            del self._downstream[first:last], self._upstream[first:last], self._values[first:last]
            self._newest = None

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
        begins = {bisect_left(self._downstream, begin) for begin in self._begins}
        return list(pairwise([*sorted({0} | begins), len(self)]))


def _is_after(entry: Entry, before: Entry) -> bool:
    """True if the entry's records can be in a log that has all of those before. Transactions end with a marker."""
    marker = 0 if entry.is_next_to(before) else 1  # entries of one transaction have none between them
    return entry.downstream >= before.downstream_end + marker


def _is_another_pass(before: Entry, entry: Entry) -> bool:
    return before.resets != entry.resets or entry.upstream < before.upstream_end
