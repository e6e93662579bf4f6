"""Translates offsets between a source partition and its remote one, with the entries of the offset map. Pure.

It never guesses: if a translation is not known, the answer is an `Unknown`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from mirror.groups.partition_map import PartitionMap
from mirror.model import MapEnd
from mirror.target.offset_map import EVERY, Entry


class Unknown(Enum):
    """Why an offset has no translation."""

    BEFORE_THE_MAP = "before the map: its record was not copied, or is no longer on the target"
    NOT_COPIED = "not copied yet"
    CUT = "not known: the remote log begins among records that have to be counted"
    NOT_EXACT = "not exact: the target does not have just the records that were copied"
    INCOMPLETE = "not exact: the offset map has a gap there"
    HIDDEN = "not known now: the end of the offset map can't be read while a transaction is open"
    MOVED = "not known now: mirror copies on, and what follows may be copied already"


@dataclass(frozen=True, slots=True)
class End:
    """How far a partition is copied, by its committed position."""

    upstream: int  # the position
    map_end: MapEnd | None  # of the position


@dataclass(frozen=True, slots=True)
class Count:
    """The wanted offset is found by counting the remote partition's committed records, from `begin` to before `end`.

    There have to be `expected` of them. Otherwise compaction has removed some, or somebody else has written there, and
    the count says nothing. If `end` is None, these are the last records that the position knows: the count is valid
    only if nothing is copied meanwhile. Once more is copied, a newer position has the end.
    """

    begin: int
    end: int | None
    expected: int
    upstream: int  # of the first of these records; the others follow without a gap
    after: int  # the upstream offset of what follows them


def to_downstream(entries: PartitionMap, upstream: int, end: End, whole: bool = False) -> int | Count | Unknown:
    """Where the record `upstream` is on the target. If it was not copied, where the next copied record is.

    If a part of the source was copied twice, this is the newer copy. If the answer is a Count, the caller counts and
    asks `counted_downstream`. With `whole`, all records before the first copied one were left out by a transform.
    """
    for first, last in reversed(entries.passes):
        at = entries.at_upstream(upstream, first, last)
        found = _at_or_after(entries, at, upstream, end) if at >= first else None
        if found is not None:
            return found
    if upstream == end.upstream and len(entries):  # of a group that has read all that is copied
        return _unread(entries[-1], end) or _downstream_after(entries[-1], upstream, end)
    if upstream >= end.upstream:
        return Unknown.NOT_COPIED
    if whole and len(entries) and upstream < entries[0].upstream and _is_first(entries[0]):
        return entries[0].downstream
    return Unknown.BEFORE_THE_MAP


def _is_first(entry: Entry) -> bool:
    """True if nothing was copied before this entry."""
    return entry.follows == MapEnd() and not entry.resets


def _at_or_after(entries: PartitionMap, at: int, upstream: int, end: End) -> int | Count | Unknown | None:
    """The translation if the record is in this entry, or was copied between it and the next one; else None."""
    entry = entries[at]
    if upstream < entry.upstream_end:
        return entry.to_downstream(upstream)
    if at + 1 == len(entries):
        return _after_last(entry, upstream, end)
    after = entries[at + 1]
    if not after.is_next_to(entry):
        return Unknown.INCOMPLETE if upstream < after.upstream else None
    if upstream < entry.upstream_end + after.counted_before:
        return _closed(entry, after)
    return after.downstream if upstream < after.upstream else None


def _after_last(entry: Entry, upstream: int, end: End) -> int | Count | Unknown | None:
    counted = end.map_end.records if end.map_end is not None else 0
    if upstream >= max(end.upstream, entry.upstream_end + counted):
        return None
    return _unread(entry, end) or _downstream_after(entry, upstream, end)


def to_upstream(entries: PartitionMap, downstream: int, end: End) -> int | Count | Unknown:
    """The upstream offset of the record at `downstream`. If that was not copied, the offset of the next copied record.

    If the answer is a Count, the caller counts and asks `counted_upstream`. If it is the position, nothing follows as
    far as the position knows: it is right only if nothing was copied after that.
    """
    at = entries.at_downstream(downstream)
    if at < 0:
        return Unknown.BEFORE_THE_MAP
    entry = entries[at]
    if downstream < entry.downstream_end:
        return entry.to_upstream(downstream)
    if at + 1 == len(entries):
        return _unread(entry, end) or _upstream_after(entry, downstream, end)
    after = entries[at + 1]
    if not after.is_next_to(entry):
        return Unknown.INCOMPLETE
    return _closed(entry, after) if after.counted_before else after.upstream


def read_before(entries: PartitionMap, downstream: int, end: End) -> int | Unknown:
    """The highest upstream offset of which it is certain that each copied record before it is before `downstream`.

    Nothing is counted. So it is certain even where others write to the remote partition.
    """
    at = entries.at_downstream(downstream)
    if at < 0 and not len(entries):
        return end.upstream if end.map_end == MapEnd() else Unknown.INCOMPLETE
    if at < 0:
        return entries[0].upstream if entries[0].follows == MapEnd() else Unknown.BEFORE_THE_MAP
    entry = entries[at]
    if downstream < entry.downstream_end:
        return entry.to_upstream(downstream)
    if at + 1 == len(entries):
        return end.upstream if end.map_end == MapEnd(entry.downstream) else entry.upstream_end
    after = entries[at + 1]
    return after.upstream if after.follows == MapEnd(entry.downstream) else entry.upstream_end


def is_after_all(entries: PartitionMap, upstream: int, end: End) -> bool:
    """True if each record that was copied, as the map and the position say it, is before `upstream`."""
    if not len(entries):
        return end.map_end == MapEnd()
    return end.map_end == MapEnd(entries[-1].downstream) and upstream >= entries[-1].upstream_end


def _unread(entry: Entry, end: End) -> Unknown | None:
    """Why it is not known what follows this entry, the last one that was read. None if it is known."""
    if end.map_end is None:
        return Unknown.INCOMPLETE
    if end.map_end.entry < entry.downstream:  # the position was read before copying went on
        return Unknown.NOT_COPIED
    return Unknown.HIDDEN if end.map_end.entry > entry.downstream else None


def _closed(entry: Entry, after: Entry) -> Count | Unknown:
    """What has to be counted between two entries."""
    return _bounded(
        Count(entry.downstream_end, after.downstream, after.counted_before, entry.upstream_end, after.upstream)
    )


def _downstream_after(entry: Entry, upstream: int, end: End) -> int | Count | Unknown:
    """The translation of an upstream offset after the last entry, or of a position that was reset to before the map."""
    parts, at = _after(entry, end), end.map_end
    if at is None or not parts:
        return entry.downstream_end
    if entry.upstream_end <= upstream < entry.upstream_end + at.records:
        return _bounded(next((part for part in parts if upstream < part.after), parts[-1]))
    # It is none of the records that were copied after the entry, so what a group reads next comes after all of them.
    # If their end is known, nothing has to be counted, whoever has written before.
    return at.place if at.placed == at.records else _bounded(parts[-1])


def _upstream_after(entry: Entry, downstream: int, end: End) -> int | Count | Unknown:
    """The translation of a downstream offset after the last entry."""
    found = next((part for part in _after(entry, end) if part.end is None or downstream < part.end), None)
    return end.upstream if found is None else _bounded(found)


def _after(entry: Entry, end: End) -> Sequence[Count]:
    """What has to be counted after the last entry: the records that are placed, and if there are others, these.

    Others are those of the last transaction. A position of an older mirror places none.
    """
    at = end.map_end
    if at is None or not at.records:
        return ()
    last = Count(entry.downstream_end, None, at.records, entry.upstream_end, end.upstream)
    if not at.placed:
        return (last,)
    middle = entry.upstream_end + at.placed
    placed = replace(last, end=at.place, expected=at.placed, after=middle)
    if at.placed >= at.records:
        return (placed,)
    return placed, replace(last, begin=at.place, expected=at.records - at.placed, upstream=middle)


def _bounded(count: Count) -> Count | Unknown:
    """The count, if it is not too large: mirror writes an entry before there is more to count."""
    return count if count.expected < EVERY else Unknown.NOT_EXACT


def counted_downstream(count: Count, upstream: int, found: Sequence[int], log_start: int = 0) -> int | Unknown:
    """The translation of `upstream`, given the downstream offsets of the records that were to be counted.

    `log_start` is the first offset that the remote log still had after the counting.
    """
    if wrong := _wrong(count, found, log_start):
        return wrong
    index = upstream - count.upstream
    # Otherwise the group has read all that is copied.
    return found[index] if 0 <= index < count.expected else found[-1] + 1


def counted_upstream(count: Count, downstream: int, found: Sequence[int], log_start: int = 0) -> int | Unknown:
    """The translation of `downstream`, given the downstream offsets of the records that were to be counted."""
    if wrong := _wrong(count, found, log_start):
        return wrong
    index = bisect_left(found, downstream)
    return count.upstream + index if index < len(found) else count.after


def _wrong(count: Count, found: Sequence[int], log_start: int) -> Unknown | None:
    """Why the count says nothing; None if it does.

    Once the remote log has lost some of what has to be counted, nobody can tell how many: somebody else may have
    written among the rest.
    """
    if log_start > count.begin:
        return Unknown.CUT
    return None if len(found) == count.expected else Unknown.NOT_EXACT
