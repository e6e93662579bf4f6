"""Entries of the offset map: which upstream offsets the records of one transaction have, and which downstream ones.

The map outlives compaction, because each entry has a key of its own. It is written in the transaction of the records.

A transaction's records stand one after another on the target, so an entry has one downstream offset, and the upstream
offsets as runs without gaps. Most transactions get no entry: as long as the upstream offsets continue without a gap, a
reader counts the committed records after the last entry. `EVERY` bounds how many it has to count.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mirror.batches import varints
from mirror.errors import Malformed

EVERY = 1_000  # records after which a transaction gets an entry even if its upstream offsets continue without a gap
RUNS_MAX = 10_000  # most runs in an entry; a transaction with more gaps gets several entries
VALUE_MAX = 2**18  # bytes; more than RUNS_MAX runs need
NOT_KNOWN = -1  # the number of records before an entry that follows positions of an older version

_VERSION = 1
_NUMBERS = struct.Struct(">iq")  # partition, downstream offset
_NAME_MAX = 255  # bytes of a topic's name or id


@dataclass(frozen=True, slots=True)
class Copied:
    """What an entry belongs to: a source partition, and the ids of the two topics (KIP-516)."""

    topic: str
    partition: int
    topic_id: str
    remote_id: str


@dataclass(frozen=True, slots=True)
class Entry:
    """The records of one transaction, or a part of them.

    `runs` has the number of records in each run, and before each but the first the number of offsets that the source
    skips: length, gap, length, gap, length. `before` is the number of records that were copied after the entry before
    this one and have no entry; their upstream offsets follow that entry without a gap. `resets` is that of the position
    (see Position): while it stays the same, upstream offsets do not go back.
    """

    upstream: int  # of the first record
    downstream: int  # of the first record
    runs: tuple[int, ...]
    before: int = 0
    resets: int = 0

    @property
    def records(self) -> int:
        """The number of records."""
        return sum(self.runs[::2])

    @property
    def upstream_end(self) -> int:
        """The upstream offset after the last record."""
        return self.upstream + sum(self.runs)

    @property
    def downstream_end(self) -> int:
        """The downstream offset after the last record."""
        return self.downstream + self.records

    def to_downstream(self, upstream: int) -> int:
        """Where the record `upstream` is, or if the source has none there, the next one."""
        up, down = self.upstream, self.downstream
        for length, gap in zip(self.runs[::2], (*self.runs[1::2], 0), strict=True):
            if upstream < up + length:
                return down + max(0, upstream - up)
            up, down = up + length + gap, down + length
        return down

    def to_upstream(self, downstream: int) -> int:
        """The upstream offset of the record at `downstream`, which must be one of these."""
        up, left = self.upstream, downstream - self.downstream
        for length, gap in zip(self.runs[::2], (*self.runs[1::2], 0), strict=True):
            if left < length:
                return up + left
            up, left = up + length + gap, left - length
        raise ValueError(f"there is no record at {downstream}")

    def key(self, copied: Copied) -> bytes:
        """The record key. No other entry has it, so compaction keeps each."""
        return key(copied, self.downstream)

    def value(self) -> bytes:
        """The record value."""
        return bytes([_VERSION]) + b"".join(map(varints.write, (self.resets, self.upstream, self.before, *self.runs)))


def key(copied: Copied, downstream: int) -> bytes:
    """The key of the entry whose first record is at this downstream offset."""
    names = (copied.topic, copied.topic_id, copied.remote_id)
    encoded = b"".join(struct.pack(">B", len(name)) + name for name in (each.encode() for each in names))
    return bytes([_VERSION]) + encoded + _NUMBERS.pack(copied.partition, downstream)


def decode_key(encoded: bytes) -> tuple[Copied, int]:
    """What the entry with this key belongs to, and its downstream offset. Raises Malformed."""
    if encoded[:1] != bytes([_VERSION]):
        raise Malformed("not a key of the offset map")
    names, at = [], 1
    for _ in range(3):
        length = encoded[at] if at < len(encoded) else _NAME_MAX
        names.append(encoded[at + 1 : at + 1 + length])
        at += 1 + length
    if len(encoded) != at + _NUMBERS.size:
        raise Malformed("not a key of the offset map")
    partition, downstream = _NUMBERS.unpack_from(encoded, at)
    try:
        topic, topic_id, remote_id = (name.decode() for name in names)
    except UnicodeDecodeError:
        raise Malformed("a name in a key of the offset map is not UTF-8") from None
    if partition < 0 or downstream < 0:
        raise Malformed("a number in a key of the offset map is negative")
    return Copied(topic, partition, topic_id, remote_id), downstream


def decode(encoded_key: bytes, value: bytes) -> tuple[Copied, Entry]:
    """The entry that `Entry.key` and `Entry.value` encoded. Raises Malformed."""
    copied, downstream = decode_key(encoded_key)
    if value[:1] != bytes([_VERSION]) or len(value) > VALUE_MAX:
        raise Malformed("not an entry of the offset map")
    numbers, at = [], 1
    while at < len(value):
        number, at = varints.read(value, at)
        numbers.append(number)
    if len(numbers) < 4 or len(numbers) % 2:
        raise Malformed("an entry of the offset map has no runs")
    resets, upstream, before, *runs = numbers
    if min(resets, upstream) < 0 or before < NOT_KNOWN or min(runs) <= 0 or upstream + sum(runs) >= 2**63:
        raise Malformed("a number in an entry of the offset map is out of bounds")
    return copied, Entry(upstream, downstream, tuple(runs), before, resets)


class MapMarks:
    """Decides for one producer session of a partition which transactions get an entry.

    A transaction gets one if it is the session's first, if the upstream offsets before it or within it have a gap, or
    if `every` records have none. `every` 1 gives each transaction an entry: then nothing has to be counted, which is
    wrong where compaction removes records of the remote topic.
    """

    def __init__(self, every: int = EVERY) -> None:
        self._every = every
        self._expected: int | None = None  # the upstream offset that continues without a gap

    def is_due(self, offsets: Sequence[int], before: int) -> bool:
        """True if a transaction with the records at these upstream offsets, at least one, gets an entry.

        `before` is the number of records that were copied since the last entry.
        """
        gap_before, gap_within = offsets[0] != self._expected, offsets[-1] - offsets[0] != len(offsets) - 1
        return gap_before or gap_within or before + len(offsets) >= self._every

    def committed(self, offsets: Sequence[int]) -> None:
        """The transaction is committed, with its entries if it was due for some."""
        self._expected = offsets[-1] + 1


def entries(offsets: Sequence[int], first: int, last: int, before: int, resets: int) -> list[Entry]:
    """The entries of a transaction with the records at these upstream offsets, at `first` to `last` on the target.

    Usually it is one. If somebody else has written between the records, it is an entry of the first record alone: who
    counts what follows it finds too many records, and is told that the translation is not exact.
    """
    if last - first != len(offsets) - 1:
        return [Entry(offsets[0], first, (1,), before, resets)]
    found: list[Entry] = []
    done = 0
    for runs in _split(_runs(offsets)):
        found.append(Entry(offsets[done], first + done, runs, 0 if found else before, resets))
        done += found[-1].records
    return found


def _runs(offsets: Sequence[int]) -> list[int]:
    if offsets[-1] - offsets[0] == len(offsets) - 1:
        return [len(offsets)]
    runs: list[int] = []
    begin = offsets[0]
    for before, after in pairwise(offsets):
        if after != before + 1:
            runs += (before + 1 - begin, after - before - 1)
            begin = after
    return [*runs, offsets[-1] + 1 - begin]


def _split(runs: list[int]) -> Iterator[tuple[int, ...]]:
    """In parts of RUNS_MAX runs; the gap between two parts is in neither."""
    step = 2 * RUNS_MAX
    for begin in range(0, len(runs), step):
        yield tuple(runs[begin : begin + step - 1])
