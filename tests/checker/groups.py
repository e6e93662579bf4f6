"""What has to hold of a consumer group whose offsets are synced: it moves over without a gap, and without repetition.

The judge knows nothing of how offsets are translated: it looks which records stand before an offset.

I10: at no moment does a group's offset on the target come after a record that the group has not read on the source, and
it never goes back; and once group sync has caught up, no record that the group has read comes after its offset. Where
programs write on both sides, the order differs: there the record that comes next is one that it has not read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

from tests.checker.checker import Violation
from tests.checker.history import Record

NEVER = 2**63  # after every offset


class GroupSample(NamedTuple):
    """A group in one partition at one moment."""

    committed: int  # its offset on the target
    read: int  # upstream offset: it has perhaps committed this one on the source, and none after it


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """A group in one partition. The last sample is that of the end, when all is copied; None: no offset has come."""

    name: str
    samples: Sequence[GroupSample]
    last: GroupSample | None
    read: int  # upstream offset that the group has committed last on the source


class Placed:
    """Where the records of a remote partition come from."""

    def __init__(self, source: Mapping[tuple[object, ...], int], target: Sequence[Record], end: int = NEVER) -> None:
        """`source` has the upstream offset of each record by its identity.

        `end` is the high watermark, read after the samples that are judged: until it is known, nothing is beyond it.
        """
        self.end = end
        known = [(record.offset, source[record.identity]) for record in target if record.identity in source]
        self._offsets = [downstream for downstream, _ in known]
        upstream = [each for _, each in known]
        self._next = [*upstream, NEVER]
        self._newest = [-1, *accumulate(upstream, max)]  # before each of them, and in the end
        self._oldest = [*accumulate(reversed(upstream), min, initial=NEVER)][::-1]  # from each of them on

    def next_from(self, downstream: int) -> int:
        """The upstream offset of the record that a consumer reads first from this downstream offset on."""
        return self._next[bisect_left(self._offsets, downstream)]

    def newest_before(self, downstream: int) -> int:
        """The highest upstream offset of a record before this downstream offset; -1 if there is none."""
        return self._newest[bisect_left(self._offsets, downstream)]

    def oldest_from(self, downstream: int) -> int:
        """The lowest upstream offset of a record at this downstream offset or after it."""
        return self._oldest[bisect_left(self._offsets, downstream)]


def is_exact(placed: Placed, sample: GroupSample) -> bool:
    """True if a consumer of the target goes on with the record that it would read next on the source."""
    return placed.newest_before(sample.committed) < sample.read <= placed.oldest_from(sample.committed)


def check_group(history: GroupHistory, placed: Placed) -> list[Violation]:
    """All violations of a group's history; none: it is right."""
    return [*_at_any_time(history, placed), *_in_the_end(history, placed)]


def check_group_of_both(history: GroupHistory, placed: Placed) -> list[Violation]:
    """All violations of a group's history where programs write on both sides.

    The sides have the records in different orders, so a group may read records again that it has read. But it stands
    as late as it can without passing one over: at a record that it has not read, or after all.
    """
    return [*_at_any_time(history, placed), *_early(history, placed)]


def _at_any_time(history: GroupHistory, placed: Placed) -> Iterator[Violation]:
    yield from _late(history, placed)
    yield from _beyond(history, placed)
    yield from _back(history)
    yield from _without_offset(history, placed)


def _back(history: GroupHistory) -> Iterator[Violation]:
    """The groups of the fault matrix only go forward on the source."""
    for before, after in pairwise(history.samples):
        if after.committed < before.committed:
            yield Violation("I10", f"{history.name} went back from {before.committed} to {after.committed}")


def _late(history: GroupHistory, placed: Placed) -> Iterator[Violation]:
    for sample in dict.fromkeys(history.samples):
        passed_over = placed.newest_before(sample.committed)
        if passed_over >= sample.read:
            what = f"{history.name} passes over the record at {passed_over}, and has not read to there: {sample}"
            yield Violation("I10", what)


def _beyond(history: GroupHistory, placed: Placed) -> Iterator[Violation]:
    """A consumer would pass over what is written between the end and there."""
    for sample in dict.fromkeys(history.samples):
        if sample.committed > placed.end:
            yield Violation("I10", f"{history.name} stands beyond the end of the log, {placed.end}: {sample}")


def _early(history: GroupHistory, placed: Placed) -> Iterator[Violation]:
    if history.last is not None and (again := placed.next_from(history.last.committed)) < history.last.read:
        what = f"{history.name} would read the record at {again} next, and has read to {history.read}: {history.last}"
        yield Violation("I10", what)


def _in_the_end(history: GroupHistory, placed: Placed) -> Iterator[Violation]:
    if history.last is not None and not is_exact(placed, history.last):
        before, after = placed.newest_before(history.last.committed), placed.oldest_from(history.last.committed)
        what = f"{history.name} has read to {history.read}, but stands after {before} and before {after}"
        yield Violation("I10", f"{what}: {history.last}")


def _without_offset(history: GroupHistory, placed: Placed) -> Iterator[Violation]:
    if history.last is None and placed.oldest_from(0) < history.read:  # what it has read begins on the target
        yield Violation("I10", f"{history.name} has no offset on the target, and has read to {history.read}")
