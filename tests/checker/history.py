"""What is recorded of one source partition while faults are injected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]
Fate = Literal["acknowledged", "aborted", "unknown"]


class Record(NamedTuple):
    """A record as a consumer sees it."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int  # ms since the Unix epoch

    @property
    def content(self) -> tuple[object, ...]:
        """All that has to be the same on both sides."""
        return self[1:]

    @property
    def identity(self) -> tuple[object, ...]:
        """What the producer gave: unique in a history."""
        return self[1:4]


class Committed(NamedTuple):
    """A position, as mirror has committed it."""

    offset: int  # the next upstream one
    resets: int = 0  # how often it was set to where copying had not led it

    @property
    def progress(self) -> tuple[int, int]:
        """What only grows from one position of a partition to the next."""
        return self.resets, self.offset


class Memory(NamedTuple):
    """The most that a worker's memory has grown, and the most that it may grow; bytes."""

    grown: int
    bound: int


class Sent(NamedTuple):
    """What was sent to the source. Who sends can't always know what became of it."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    fate: Fate

    @property
    def identity(self) -> tuple[object, ...]:
        """What the producer gave: equal to the identity of the record that came of it."""
        return self[:3]


@dataclass(frozen=True, slots=True)
class Sample:
    """The target at one moment: the position was read before and after the records, as far as they are visible."""

    before: int  # next upstream offset; -1: no position yet
    visible: int  # records
    after: int
    during_fault: bool = False
    doubled: int = 0  # how many of the visible records are there a second time, or a third


@dataclass(slots=True)
class History:
    """One partition's history. `source` is read last, read_committed and from the beginning, as `target` is."""

    sent: Sequence[Sent]
    source: Sequence[Record]
    target: Sequence[Record]
    concurrent: Sequence[Record]  # what a reader saw that followed the target all the time
    samples: Sequence[Sample]
    recorded: Sequence[Committed]  # every position that mirror ever committed, in this order
    position: int | None
    source_end: int  # last stable offset
    stable: int  # the target's last stable offset and high watermark, when it is idle
    high: int
    stalls: Sequence[float] = ()  # seconds from the end of each fault until another record was visible
    passed_over: frozenset[int] = field(default_factory=frozenset)  # upstream offsets, told as lost or refused
    choices: int = 0  # how often mirror has told that a position was set by a choice, somebody's or a policy's
    chosen: int | None = None  # upstream offset that was chosen when the remote topic was made again
    strays: Sequence[Record] = ()  # on topics to which nothing may be copied
    memory: Sequence[Memory] = ()
    crashes: int | None = None  # None: exactly once; else what may have doubled records, at least once
    batch: int = 0  # most records that one crash may double
