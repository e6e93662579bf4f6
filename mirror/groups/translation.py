"""Translates offsets between a source partition and its remote one, with the entries of the offset map. Pure.

What is not known is said, never guessed: see `Unknown`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from operator import attrgetter

from mirror.target.offset_map import NOT_KNOWN, Entry

_downstream = attrgetter("downstream")
_upstream = attrgetter("upstream")


class Unknown(Enum):
    """Why an offset has no translation."""

    BEFORE_THE_MAP = "before the map: its record was not copied, or is no longer on the target"
    NOT_COPIED = "not copied yet"
    NOT_EXACT = "not exact: the target does not have just the records that were copied"


@dataclass(frozen=True, slots=True)
class End:
    """Up to where a partition is copied, as its committed position says it."""

    upstream: int  # the position
    before: int  # the number of records after the last entry of the map that is not newer than the position
    resets: int  # of the position


@dataclass(frozen=True, slots=True)
class Count:
    """The wanted offset is found by counting the remote partition's committed records, from `begin` to before `end`.

    There have to be `expected` of them. Otherwise compaction has removed some, or somebody else has written there, and
    the count says nothing. `end` None: what follows is not known; the first `expected` records after `begin` count.
    """

    begin: int
    end: int | None
    expected: int
    upstream: int  # of the first of these records; the others follow without a gap
    after: int  # the upstream offset of what follows them


class PartitionMap:
    """The entries of one remote partition, for one pair of topic ids."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []  # by downstream offset, which is the order in which they were written
        self._passes: list[tuple[int, int]] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Entry) -> None:
        """Add an entry. One that does not come after those that are there is left out: mirror writes none such."""
        if not self._entries or self._entries[-1].downstream_end <= entry.downstream:
            self._entries.append(entry)
            self._passes = None

    def remove(self, downstream: int) -> None:
        """Remove the entry at this downstream offset, if there is one."""
        at = bisect_left(self._entries, downstream, key=_downstream)
        if at < len(self._entries) and self._entries[at].downstream == downstream:
            del self._entries[at]
            self._passes = None

    def to_downstream(self, upstream: int, end: End) -> int | Count | Unknown:
        """Where the record `upstream` is; if the source has none there, the next one that was copied.

        If a part of the source was copied twice, this is the newer copy. A Count has to be counted, see
        `counted_downstream`.
        """
        newest = self._entries[-1] if self._entries else None
        if newest is not None and _is_newer(newest, end) and upstream >= newest.upstream_end:
            return Unknown.NOT_COPIED  # copying went on since the position was read
        for first, last in reversed(self._found_passes()):
            at = bisect_right(self._entries, upstream, first, last, key=_upstream) - 1
            found = self._within(at, upstream, end) if at >= first else None
            if found is not None:
                return found
        if newest is not None and upstream == end.upstream and not _is_newer(newest, end):
            return _count(newest, end)  # who has read all that is copied
        return Unknown.NOT_COPIED if upstream >= end.upstream else Unknown.BEFORE_THE_MAP

    def _within(self, at: int, upstream: int, end: End) -> int | Count | Unknown | None:
        """As `to_downstream`, if the offset is in the stretch that begins with this entry; else None."""
        entry = self._entries[at]
        if upstream < entry.upstream_end:
            return entry.to_downstream(upstream)
        after = self._after(at, end)
        if after.before == NOT_KNOWN:
            return Unknown.NOT_EXACT if upstream < after.upstream else None
        if upstream < entry.upstream_end + after.before:
            return _count(entry, after)
        if upstream >= after.upstream:
            return None
        return after.downstream if isinstance(after, Entry) else _count(entry, after)

    def to_upstream(self, downstream: int, end: End) -> int | Count | Unknown:
        """The upstream offset of the record at `downstream`; if that is no copied record, of the next one.

        A Count has to be counted, see `counted_upstream`.
        """
        at = bisect_right(self._entries, downstream, key=_downstream) - 1
        if at < 0:
            return Unknown.BEFORE_THE_MAP
        entry = self._entries[at]
        if downstream < entry.downstream_end:
            return entry.to_upstream(downstream)
        after = self._after(at, end)
        if isinstance(after, End) and _is_newer(entry, after):
            return Unknown.NOT_COPIED
        if after.before == NOT_KNOWN:
            return Unknown.NOT_EXACT
        return _count(entry, after) if after.before else after.upstream

    def _after(self, at: int, end: End) -> Entry | End:
        return self._entries[at + 1] if at + 1 < len(self._entries) else end

    def _found_passes(self) -> list[tuple[int, int]]:
        """A pass over the source ends where the position was reset; the begin and the end of each, as indexes."""
        if self._passes is None:
            begins = [0]
            begins += [at + 1 for at, (a, b) in enumerate(pairwise(self._entries)) if a.resets != b.resets]
            self._passes = list(pairwise([*begins, len(self._entries)]))
        return self._passes


def _is_newer(entry: Entry, end: End) -> bool:
    """True if the entry was written after the position was read."""
    return entry.resets > end.resets or (entry.resets == end.resets and entry.upstream_end > end.upstream)


def _count(entry: Entry, after: Entry | End) -> Count:
    until = after.downstream if isinstance(after, Entry) else None
    return Count(entry.downstream_end, until, max(0, after.before), entry.upstream_end, after.upstream)


def counted_downstream(count: Count, upstream: int, found: Sequence[int]) -> int | Unknown:
    """The translation of `upstream`, given the downstream offsets of the records that were to be counted."""
    if len(found) != count.expected:
        return Unknown.NOT_EXACT
    index = upstream - count.upstream
    if 0 <= index < len(found):
        return found[index]
    return found[-1] + 1 if found else count.begin  # the end of what is copied


def counted_upstream(count: Count, downstream: int, found: Sequence[int]) -> int | Unknown:
    """The translation of `downstream`, given the downstream offsets of the records that were to be counted."""
    if len(found) != count.expected:
        return Unknown.NOT_EXACT
    index = bisect_left(found, downstream)
    return count.upstream + index if index < len(found) else count.after
