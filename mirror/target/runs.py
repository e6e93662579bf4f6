"""The upstream offsets of a transaction's records, as runs without a gap. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import overload


class Runs(Sequence[int]):
    """Ascending offsets, of which nobody makes a list: whole batches have as many as they like, in a few runs."""

    def __init__(self, parts: Iterable[range]) -> None:
        """`parts` ascend, and none is empty."""
        found: list[range] = []
        for part in parts:
            if found and found[-1].stop == part.start:
                found[-1] = range(found[-1].start, part.stop)
            else:
                found.append(part)
        self.runs: Sequence[range] = found
        self._ends = list(accumulate(map(len, found)))  # by run: how many offsets there are up to its end

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...

    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        index = index + len(self) if index < 0 else index
        if not 0 <= index < len(self):
            raise IndexError(index)
        run = bisect_right(self._ends, index)
        return self.runs[run].stop - (self._ends[run] - index)


def runs_of(offsets: Sequence[int]) -> Sequence[range]:
    """The runs of ascending offsets. It takes long only for a list with gaps."""
    if isinstance(offsets, Runs):
        return offsets.runs
    if not offsets:
        return []
    if offsets[-1] - offsets[0] == len(offsets) - 1:
        return [range(offsets[0], offsets[-1] + 1)]
    ends = [before + 1 for before, after in pairwise(offsets) if after != before + 1]
    begins = [after for before, after in pairwise(offsets) if after != before + 1]
    return [range(begin, end) for begin, end in zip([offsets[0], *begins], [*ends, offsets[-1] + 1], strict=True)]
