"""Where what was copied of a partition ends, as the target itself shows it. Pure: end_finder.py reads the records.

The last entry of the offset map says of one place that all before it was copied. What the target has after that place
was copied, too, though nobody may know it: the answer to a commit was lost, or a task died before it reported. So it is
compared with what the source has after that place. Copying is in order, so the first record that differs is no copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mirror.model import MapEnd, Position
from mirror.records.consumed import Record
from mirror.records.undecided import Undecided
from mirror.task.last_entries import LastEntry


@dataclass(frozen=True, slots=True)
class Logs:
    """The offsets that both logs have."""

    source_start: int
    source_end: int  # the last stable offset
    remote_start: int
    remote_end: int  # nothing of ours comes after it: whoever could write it is fenced


@dataclass(frozen=True, slots=True)
class Begin:
    """Where both sides are compared from: the first record at `downstream` or after it is a copy of `upstream`.

    Before the comparison, `passed` records of the target are passed over: the source does not have them any more.
    `counted` are the records between the last entry and `downstream`.
    """

    upstream: int
    downstream: int
    counted: int = 0
    passed: int = 0


@dataclass(frozen=True, slots=True)
class Matched:
    """What the target has from the beginning on: how many records, and the offset after the last one's original."""

    records: int
    upstream_end: int


@dataclass(frozen=True, slots=True)
class Differs:
    """The record at `downstream` is no copy of the one at `upstream`; None: the source has no more."""

    downstream: int
    upstream: int | None


def is_end(known: Position, last: LastEntry | None, logs: Logs) -> bool:
    """True if nothing after this position can have been copied, whatever the records are."""
    if _is_older(known, last):
        return False
    return logs.remote_end == 0 or (last is not None and logs.remote_end == _least_end(known.map_end, last))


def has_no_more(known: Position, last: LastEntry | None, logs: Logs) -> bool:
    """True if the source says that it has nothing after this position.

    A deposed leader may report an older end, so whatever can be compared says more.
    """
    return not _is_older(known, last) and logs.source_end <= known.offset


def _is_older(known: Position, last: LastEntry | None) -> bool:
    return last is not None and (last.resets, last.upstream_end) > known.progress


def _least_end(map_end: MapEnd | None, last: LastEntry) -> int | None:
    """The end of the remote partition if nothing more was copied and nobody else wrote; None if it is not known.

    The records of a transaction stand together, and a marker follows them.
    """
    if map_end is None or map_end.entry != last.downstream:
        return None
    place, rest = last.downstream_end, map_end.records
    if map_end.placed:
        place, rest = map_end.place, map_end.records - map_end.placed
    return place + 1 + (rest + 1 if rest else 0)


def begin(known: Position | None, last: LastEntry | None, logs: Logs, countable: bool) -> Begin | Undecided:
    """Where to begin to compare. `countable`: what was copied after an entry has upstream offsets without a gap.

    The last entry is best, since nothing can be missing between it and the copies after it. If the target has removed
    what follows it, a later place may be known from the position.
    """
    places = _places(known, last)
    if not places:
        return Undecided("the offset map has nothing of this partition that says what was copied")
    if places[0].downstream > logs.remote_end:
        return Undecided(
            f"it ends at offset {logs.remote_end}, but the offset map says that records were copied to before "
            f"{places[0].downstream}: its log was cut"
        )
    # After the records of a transaction there is a marker at least.
    whole = [place for place in places if logs.remote_start <= place.downstream + (1 if last else 0)]
    if not whole:
        return Undecided(f"it has lost what followed offset {places[-1].downstream}: it begins at {logs.remote_start}")
    at = whole[0]
    gone = max(0, logs.source_start - at.upstream)
    if gone and not countable and logs.remote_end > at.downstream + 1:
        return Undecided(f"the source has lost what followed offset {at.upstream}: it begins at {logs.source_start}")
    return Begin(at.upstream + gone, at.downstream, at.counted, gone)


def _places(known: Position | None, last: LastEntry | None) -> list[Begin]:
    """The places of which is known that they belong together, the earliest first."""
    map_end = None if known is None else known.map_end
    if last is None:
        nothing = known is not None and map_end == MapEnd()
        return [Begin(known.offset, 0)] if known is not None and nothing else []
    found = [Begin(last.upstream_end, last.downstream_end)]
    if map_end is not None and map_end.entry == last.downstream and map_end.placed:
        found.append(Begin(last.upstream_end + map_end.placed, map_end.place, map_end.placed))
    return found


def match(begun: Begin, source: Iterable[Record], target: Iterable[Record], timestamps: bool) -> Matched | Differs:
    """Compare what both sides have from `begun` on, without `timestamps` if the target sets its own.

    `source` has what is copied of the source, as the target gets it, and no content where nothing is: a transform
    fails for that record, or its headers can't be read. It is read only if the target has something to compare.
    """
    originals = iter(source)
    records, end = 0, begun.upstream - begun.passed
    for downstream, stamp, content in target:
        records += 1
        if records <= begun.passed:
            end += 1
            continue
        original = next((each for each in originals if each[2] is not None), None)
        if original is None:
            return Differs(downstream, None)
        upstream, wanted, copied = original
        # The target gives a time to a record that has none.
        if content != copied or (timestamps and wanted > 0 and stamp != wanted):
            return Differs(downstream, upstream)
        end = upstream + 1
    return Matched(records, end)
