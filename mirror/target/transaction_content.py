"""What a transaction of whole batches is made of, and where its batches are in the remote partition."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from mirror.batches.headers import RecordBatch
from mirror.model import Position
from mirror.target.beside import Beside
from mirror.target.written import AppendedOffsets


@dataclass(frozen=True, slots=True)
class Places:
    """Where batches are in the remote partition: the offset of each one's first record, and how many it has."""

    bases: Sequence[int]
    counts: Sequence[int]

    @classmethod
    def following(cls, base: int, counts: Sequence[int]) -> Places:
        """Those of batches that follow each other."""
        return cls(list(accumulate(counts[:-1], initial=base)), counts)

    def of(self, indexes: Sequence[int]) -> Mapping[int, int]:
        """The offsets of the records with these indexes."""
        begins = list(accumulate(self.counts[:-1], initial=0))
        found = {}
        for index in indexes:
            batch = bisect_right(begins, index) - 1
            found[index] = self.bases[batch] + index - begins[batch]
        return found

    @property
    def last(self) -> int:
        """The offset of the last record."""
        return self.bases[-1] + self.counts[-1] - 1

    def appended(self, expected: int | None) -> AppendedOffsets:
        """Where all the records are, and where the first one should be, if that is known."""
        return AppendedOffsets(expected, self.bases[0], self.last, sum(self.counts))


@dataclass(frozen=True, slots=True)
class Made:
    """What goes beside batches: batches for our own topics, and the position to commit."""

    others: Sequence[Beside]
    position: Position


@dataclass(frozen=True, slots=True)
class TransactionContent:
    """What a transaction is made of: batches, at least one, and what goes beside them, once they have places.

    The topics of our own in `topics_beside` get batches that depend on the places. The position may name places also if
    there are no such topics, because it is sent once the first batch has its place.
    """

    batches: Sequence[RecordBatch]
    made: Callable[[Places], Made]
    topics_beside: Sequence[str]

    @property
    def counts(self) -> Sequence[int]:
        """The number of records of each batch."""
        return [each.records for each in self.batches]
