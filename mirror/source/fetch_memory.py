"""How much memory the fetcher of whole batches may use, and which partitions may have more of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from mirror.source.batch_feed import Feed, Held


@dataclass(frozen=True, slots=True)
class MemoryBounds:
    """Bounds on bytes, what Python needs included. An answer may exceed its bound by one batch."""

    total: int = 64 * 2**20
    answer: int = 8 * 2**20
    partition: int = 8 * 2**20  # that waits, beyond which nothing more is asked for
    partition_answer: int = 2**20
    batch: int = 512  # what Python needs for one beside its own bytes: 440 were measured
    largest: int = 32 * 2**20  # a larger batch goes by records; brokers take far more in one request (100 MiB)


BOUNDS = MemoryBounds()

# By Feed.is_quick: how much of the memory may be filled once the partition has got an answer.
LIMITS: Mapping[bool | None, float] = {True: 1.0, None: 7 / 8, False: 6 / 8}


@dataclass(frozen=True, slots=True)
class Room:
    """Who may get more by the next answer."""

    most: int  # bytes that wait, beyond which a partition gets nothing more
    batch: int  # see MemoryBounds
    quick: frozenset[bool | None]  # by Feed.is_quick

    def has(self, feed: Feed) -> bool:
        """True if the feed may get more."""
        return feed.size + feed.batches * self.batch < self.most and feed.is_quick in self.quick


class FetchMemory:
    """The bytes of one fetcher. One half is for whoever is first, the other half for partitions that have nothing.

    Of that half, LIMITS keep some for partitions that copy quickly. So live records come, however many others are slow
    or catch up. The requests under way may bring a quarter together, so that no broker waits for others that are idle.
    """

    def __init__(self, bounds: MemoryBounds, on_room: Callable[[], None]) -> None:
        """`on_room` is called when somebody who asked for room may get more than before."""
        self.bounds = bounds
        self.held = 0  # bytes of answers
        self.reserved = 0  # bytes that the requests under way may bring
        self._limited = self._refused = False  # did anybody get less than all room, or none, since others were told?
        self._on_room = on_room

    @property
    def used(self) -> int:
        """All bytes that others can't have now."""
        return self.held + self.reserved

    def answer(self, brokers: int) -> int:
        """Bytes that one answer may have, if so many brokers are asked at the same time."""
        return min(self.bounds.answer, self.bounds.total // 4 // brokers)

    @property
    def is_scarce(self) -> bool:
        """True if only partitions that have nothing may get more."""
        return self.held > self.bounds.total // 2

    def room(self, answer: int) -> Room | None:
        """Who may get more by an answer of so many bytes; None: nobody, because there is no room for it."""
        if self.used + answer > self.bounds.total:
            self._limited = self._refused = True
            return None
        most = 1 if self.is_scarce else self.bounds.partition
        filled = (self.held + answer) / self.bounds.total
        quick = frozenset(each for each, limit in LIMITS.items() if filled <= limit)
        self._limited = self._limited or self.is_scarce or len(quick) < len(LIMITS)
        return Room(most, self.bounds.batch, quick)

    @contextlib.contextmanager
    def reserve(self, answer: int) -> Iterator[None]:
        """Keep these bytes for an answer, until it is known how many it has."""
        self.reserved += answer
        try:
            yield
        finally:
            self.reserved -= answer
            if self._refused:
                self._tell()

    def hold(self, size: int) -> Held:
        """Count the memory of an answer."""
        return Held(size, self._count)

    def _count(self, size: int) -> None:
        self.held += size
        if size < 0 and self._limited:
            self._tell()

    def _tell(self) -> None:
        """There is more room. Those who still get too little ask again, and are told again."""
        self._limited = self._refused = False
        self._on_room()
