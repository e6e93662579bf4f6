"""Finds up to where a partition was copied: looks for the end of the remote partition among the source's records. Pure.

Records are compared by their digests (verify/digests.py). A copy is in order, so the source has the last records of the
remote partition as one run, and the true position is after that run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mirror.records.undecided import Undecided
from mirror.text import plural

Numbered = tuple[int, bytes]  # a source record: its offset and its digest


@dataclass(frozen=True, slots=True)
class Found:
    """The next upstream offset to copy, and how many records before it are the same on both sides."""

    position: int
    compared: int


@dataclass(frozen=True, slots=True)
class Before:
    """The last records of the source before the recorded position, as many as are compared, or all that there are.

    `cut`: they are all that the source still has, and it has removed others before them.
    """

    digests: Sequence[bytes]
    cut: bool


def find_position(
    tail: Sequence[bytes], before: Before, after: Iterable[Numbered], recorded: int, exact: bool
) -> Found | Undecided:
    """Find the position, given the last records of the remote partition as `tail`.

    `recorded` is the position that the other tool says. Everything before it was copied; of what is `after` it, some
    may have been copied too. If `exact`, nothing was, and `after` is looked at only if the tail does not fit there. A
    tail without records fits: then nothing that the target has can come twice. If the source has removed everything
    before `recorded` and the tail fits nowhere, `recorded` counts only if nothing of what the source has was copied.
    """
    if not tail:
        return Found(recorded, 0)
    matcher = _Matcher(tail, before.cut)
    compared = 0
    for digest in before.digests:
        compared = matcher.add(digest)
    if compared and exact:
        return Found(recorded, compared)
    found = [Found(recorded, compared)] if compared else []
    last = recorded
    for offset, digest in after:
        compared, last = matcher.add(digest), offset + 1
        if compared:
            found.append(Found(last, compared))
        if len(found) > 1:
            return Undecided(
                f"the last {plural(len(tail), 'record')} of the copy fit before offset {found[0].position} of the "
                f"source and before offset {last}: several records have the same key, value, headers and timestamp"
            )
    if found:
        return found[0]
    removed = before.cut and not before.digests
    if removed and (exact or last == recorded):  # nothing that the source still has was copied
        return Found(recorded, 0)
    return Undecided(_removed(recorded) if removed else _mismatch(tail, before, recorded, last))


def _removed(recorded: int) -> str:
    return (
        f"the source has removed all records before offset {recorded}, which MirrorMaker has recorded, and none of "
        "those that it still has is the last record of the copy: some of them may have been copied since"
    )


def _mismatch(tail: Sequence[bytes], before: Before, recorded: int, last: int) -> str:
    places = f"before offset {recorded}" if last == recorded else f"before any offset from {recorded} to {last}"
    some = agreeing(tail, before.digests)
    rest = f"only the last {plural(some, 'record')} of them are" if some else "not even the last of them is"
    return (
        f"the last {plural(len(tail), 'record')} of the copy are not those that the source has {places}: {rest} what "
        f"stands before offset {recorded}"
    )


def agreeing(first: Sequence[bytes], second: Sequence[bytes]) -> int:
    """How many records at the end of both are the same."""
    shorter = min(len(first), len(second))
    return next((n for n in range(shorter) if first[-1 - n] != second[-1 - n]), shorter)


class _Matcher:
    """Gets the source's records one after another, and says for each whether the tail ends with it.

    It uses the algorithm of Knuth, Morris and Pratt. So no record is kept or compared again, however often records
    repeat. If the source is `cut`, it may have only the last records of the tail: then these have to fit.
    """

    def __init__(self, tail: Sequence[bytes], cut: bool) -> None:
        self._tail = list(tail)
        self._cut = cut
        self._borders = _borders(self._tail)
        self._fitting = 0  # so many records at the beginning of the tail are equal to the last ones that were added
        self._first: list[bytes] = []  # the first records that were added, while they are fewer than the tail has

    def add(self, digest: bytes) -> int:
        """Add a record. Returns how many records up to it are the end of the tail; 0 if they are not."""
        if self._fitting == len(self._tail):
            self._fitting = self._borders[-1]
        while self._fitting and self._tail[self._fitting] != digest:
            self._fitting = self._borders[self._fitting - 1]
        if self._tail[self._fitting] == digest:
            self._fitting += 1
        if self._fitting == len(self._tail):
            return self._fitting
        return self._cut_short(digest) if self._cut else 0

    def _cut_short(self, digest: bytes) -> int:
        """What `add` returns while fewer records were added than the tail has."""
        if len(self._first) + 1 >= len(self._tail):
            self._cut = False
            return 0
        self._first.append(digest)
        fits = self._tail[-1] == digest and self._tail[-len(self._first) :] == self._first
        return len(self._first) if fits else 0


def _borders(tail: Sequence[bytes]) -> list[int]:
    """For each record of the tail: how many records up to it are also the first ones of the tail, but not all of it."""
    borders = [0] * len(tail)
    length = 0
    for at in range(1, len(tail)):
        while length and tail[at] != tail[length]:
            length = borders[length - 1]
        if tail[at] == tail[length]:
            length += 1
        borders[at] = length
    return borders
