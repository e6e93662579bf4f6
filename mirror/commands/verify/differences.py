"""Compares two sequences of digests: finds where they differ, and what each difference means. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import NamedTuple

from mirror.commands.verify.digests import RecordDigest


class Gap(NamedTuple):
    """a[a_from:a_to] is in the place of b[b_from:b_to]; before and after the gap both sequences are the same."""

    a_from: int
    a_to: int
    b_from: int
    b_to: int


Pairs = Sequence[tuple[int, int]]  # indexes into both sequences, ascending on both


def gaps(
    a: Sequence[bytes], b: Sequence[bytes], fixed: Pairs = (), floating: bool = False, ends_meet: bool = True
) -> Iterator[Gap]:
    """Yield the gaps between two sequences, so that as much as possible outside of them is the same in both.

    `fixed` pairs belong together, equal or not. If `floating`, the first items of both need not belong together: one
    sequence may begin in the middle of the other. Then the items before the first common one are aligned at their end,
    so that of a run of equal records the first ones are left over, and not the last. If not `ends_meet`, the last items
    of both need not belong together either.
    """
    i = j = 0
    anchors = list(_anchors(a, b, fixed))
    if floating and not ends_meet and not anchors:
        yield from [Gap(0, len(a), 0, len(b))] if a or b else []
        return
    for x, y in [*anchors, (len(a), len(b))]:
        if not floating:
            while i < x and j < y and a[i] == b[j]:
                i, j = i + 1, j + 1
        floating = False
        p, q = x, y
        while p > i and q > j and a[p - 1] == b[q - 1]:
            p, q = p - 1, q - 1
        if i < p or j < q:
            yield Gap(i, p, j, q)
        if x < len(a) and y < len(b) and a[x] != b[y]:
            yield Gap(x, x + 1, y, y + 1)
        i, j = x + 1, y + 1


def _anchors(a: Sequence[bytes], b: Sequence[bytes], fixed: Pairs) -> Iterator[tuple[int, int]]:
    """The fixed pairs, and between them pairs of digests that are unique on both sides."""
    i = j = 0
    for x, y in fixed:
        yield from ((i + p, j + q) for p, q in _unique(a[i:x], b[j:y]))
        yield x, y
        i, j = x + 1, y + 1
    yield from ((i + p, j + q) for p, q in _unique(a[i:], b[j:]))


def _unique(a: Sequence[bytes], b: Sequence[bytes]) -> list[tuple[int, int]]:
    """The longest increasing sequence of pairs of digests that are unique on both sides (patience diff)."""
    if list(a) == list(b):
        return []
    seen_a, seen_b = Counter(a), Counter(b)
    places = {digest: j for j, digest in enumerate(b) if seen_b[digest] == 1 == seen_a[digest]}
    tops: list[int] = []  # the smallest place in b that ends a sequence of each length
    ends: list[tuple[int, int, int]] = []  # a, b, index into `ends` of the pair before
    piles: list[int] = []  # index into `ends` of each top
    for i, digest in enumerate(a):
        j = places.get(digest)
        if j is None:
            continue
        pile = bisect_left(tops, j)
        ends.append((i, j, piles[pile - 1] if pile else -1))
        if pile == len(tops):
            tops.append(j)
            piles.append(len(ends) - 1)
        else:
            tops[pile], piles[pile] = j, len(ends) - 1
    found = []
    index = piles[-1] if piles else -1
    while index >= 0:
        i, j, index = ends[index]
        found.append((i, j))
    return found[::-1]


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of records, and of differences by kind."""

    source: int = 0  # records on the source
    target: int = 0  # records on the target
    lost: int = 0  # on the source only
    duplicated: int = 0  # on the target more often than on the source
    reordered: int = 0  # on the target in another order
    altered: int = 0  # another key, value, timestamp or headers
    extra: int = 0  # on the target only

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def equal(self) -> bool:
        """True if there are no differences."""
        return not (self.lost or self.duplicated or self.reordered or self.altered or self.extra)


class Difference(NamedTuple):
    """One difference. An offset is None where a record has no counterpart."""

    kind: str  # lost, duplicated, reordered, altered or extra
    upstream: int | None
    downstream: int | None


class Unmatched(NamedTuple):
    """The entries of one gap: records that only one side has at this place."""

    source: list[RecordDigest]
    target: list[RecordDigest]


def unmatched(source: Sequence[RecordDigest], target: Sequence[RecordDigest], fixed: Pairs = ()) -> Iterator[Unmatched]:
    """The gaps between two stretches of a partition."""
    for gap in gaps([entry.digest for entry in source], [entry.digest for entry in target], fixed):
        yield Unmatched(list(source[gap.a_from : gap.a_to]), list(target[gap.b_from : gap.b_to]))


def reordered(found: Sequence[Unmatched]) -> tuple[list[Difference], list[Unmatched]]:
    """The records that both sides have at different places, and the gaps without them."""
    elsewhere: defaultdict[bytes, deque[int]] = defaultdict(deque)
    for each in found:
        for entry in each.source:
            elsewhere[entry.digest].append(entry.offset)
    moved: list[Difference] = []
    kept = []
    for each in found:
        target = []
        for entry in each.target:
            if elsewhere[entry.digest]:
                moved.append(Difference("reordered", elsewhere[entry.digest].popleft(), entry.offset))
            else:
                target.append(entry)
        kept.append(target)
    upstream = {difference.upstream for difference in moved}
    left = [
        Unmatched([e for e in each.source if e.offset not in upstream], target)
        for each, target in zip(found, kept, strict=True)
    ]
    return moved, [each for each in left if each.source or each.target]


def judge(found: Sequence[Unmatched], originals: Mapping[bytes, int]) -> Iterator[Difference]:
    """Name the difference of each record in these gaps. `originals` has upstream offsets by digest.

    Within a gap, two records count as the same one, altered, if their timestamps are equal, or if both sides have
    equally many.
    """
    for each in found:
        added = []
        for entry in each.target:
            if entry.digest in originals:
                yield Difference("duplicated", originals[entry.digest], entry.offset)
            else:
                added.append(entry)
        even = len(each.source) == len(added)
        matches = each.source if even else _with_its_time(each.source, added)
        for entry, match in zip(added, matches, strict=True):
            if match is None:
                yield Difference("extra", None, entry.offset)
            else:
                yield Difference("altered", match.offset, entry.offset)
        altered = {match.offset for match in matches if match is not None}
        yield from (Difference("lost", entry.offset, None) for entry in each.source if entry.offset not in altered)


def _with_its_time(missing: Sequence[RecordDigest], added: Sequence[RecordDigest]) -> list[RecordDigest | None]:
    """For each added record the first missing one with its timestamp that is left; None if there is none."""
    left: defaultdict[int, deque[RecordDigest]] = defaultdict(deque)
    for entry in missing:
        left[entry.timestamp].append(entry)
    return [left[entry.timestamp].popleft() if left[entry.timestamp] else None for entry in added]
