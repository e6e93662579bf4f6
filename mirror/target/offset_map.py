"""Entries of the offset map: which upstream offsets the records of one transaction have, and which downstream ones.

The map outlives compaction, because each entry has a key of its own. It is written in the transaction of the records.

A transaction's records stand one after another on the target, so an entry has one downstream offset, and the upstream
offsets as runs without gaps. Most transactions get no entry: as long as the upstream offsets continue without a gap, a
reader counts the committed records after the last entry. `EVERY` bounds how many it has to count.

Each entry names the one that it follows, and each position the last one. So a reader that lacks an entry notices it:
the topic's end may be hidden by another partition's open transaction, or somebody has deleted records of the topic.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mirror import decode, varints
from mirror.errors import Malformed
from mirror.model import MapEnd
from mirror.target.runs import runs_of

EVERY = 1_000  # records after which a transaction gets an entry even if its upstream offsets continue without a gap
RUNS_MAX = 10_000  # most runs in an entry; a transaction with more gaps gets several entries
VALUE_MAX = 2**18  # bytes; more than RUNS_MAX runs need

_VERSION = 1
_NUMBERS = struct.Struct(">iq")  # partition, downstream offset
_FIRST, _UNKNOWN = 0, -1  # in place of the distance to the entry that this one follows
_NAME_MAX = 255  # bytes of a topic's name or id
_MAX = 2**62  # no number may come to this: what is computed from several of them has to fit into 64 bits, too


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
    skips: length, gap, length, gap, length. `follows` is the end of the map before this entry: the upstream offsets of
    the records that it counts follow its entry without a gap. It is None if it is not known what was copied before:
    entries that were written earlier, at this downstream offset or after it, are of a log that was cut.
    `resets` is that of the position (see Position): while it stays the same, upstream offsets do not go back.
    """

    upstream: int  # of the first record
    downstream: int  # of the first record
    runs: tuple[int, ...]
    follows: MapEnd | None = None
    resets: int = 0

    @property
    def records(self) -> int:
        """The number of records."""
        return sum(self.runs[::2])

    @property
    def counted_before(self) -> int:
        """How many records were copied before this entry and after the one that it follows."""
        return 0 if self.follows is None else self.follows.records

    def is_next_to(self, before: Entry) -> bool:
        """True if this entry follows that one, so that the map has no gap between the two."""
        return self.follows is not None and self.follows.entry == before.downstream

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
        if self.follows is None:
            link, before = _UNKNOWN, 0
        else:
            link = self.downstream - self.follows.entry if self.follows.entry >= 0 else _FIRST
            before = self.follows.records
        numbers = (self.resets, self.upstream, link, before, *self.runs)
        return bytes([_VERSION]) + b"".join(map(varints.write, numbers))


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
        decode.topic_name(topic)
    except ValueError:  # UnicodeDecodeError, or decode's own
        raise Malformed("a name in a key of the offset map is not UTF-8, or not a topic's") from None
    if partition < 0 or downstream < 0:
        raise Malformed("a number in a key of the offset map is negative")
    return Copied(topic, partition, topic_id, remote_id), downstream


def decode_value(downstream: int, value: bytes) -> Entry:
    """The entry at this downstream offset, from what `Entry.value` encoded. Raises Malformed."""
    if value[:1] != bytes([_VERSION]) or len(value) > VALUE_MAX:
        raise Malformed("not an entry of the offset map")
    numbers, at = [], 1
    while at < len(value):
        number, at = varints.read(value, at)
        numbers.append(number)
    if not 5 <= len(numbers) <= 4 + 2 * RUNS_MAX or len(numbers) % 2 == 0:
        raise Malformed("an entry of the offset map has no runs, or too many")
    resets, upstream, link, before, *runs = numbers
    known = link == _UNKNOWN or (before >= 0 and link <= downstream)
    highest = max(resets, before, max(upstream, downstream) + sum(runs))
    if min(resets, upstream) < 0 or link < _UNKNOWN or not known or min(runs) <= 0 or highest >= _MAX:
        raise Malformed("a number in an entry of the offset map is out of bounds")
    follows = MapEnd(downstream - link if link != _FIRST else -1, before) if link != _UNKNOWN else None
    return Entry(upstream, downstream, tuple(runs), follows, resets)


class EntryChooser:
    """Decides for one producer session of a partition which transactions get an entry.

    A transaction gets one if it is the session's first, if the upstream offsets before it or within it have a gap, if
    `every` records have none, if the map's end is not known, or if others may have written between the last ones. While
    others write, each transaction gets one, because nothing can be counted there. `every` 1 always gives each an entry:
    that is for topics of which compaction removes records, too.
    """

    def __init__(self, every: int = EVERY) -> None:
        self._every = every
        self._expected: int | None = None  # the upstream offset that continues without a gap

    def is_due(self, offsets: Sequence[int], end: MapEnd | None) -> bool:
        """True if a transaction with the records at these upstream offsets, at least one, gets an entry.

        `end` is the map's end before it.
        """
        gap_before, gap_within = offsets[0] != self._expected, offsets[-1] - offsets[0] != len(offsets) - 1
        return gap_before or gap_within or end is None or end.records + len(offsets) >= self._every

    def committed(self, offsets: Sequence[int], interrupted: bool = False) -> None:
        """The transaction is committed, with its entries if it was due for some.

        `interrupted` is true if the remote partition may have records of others before its records or between them.
        """
        self._expected = None if interrupted else offsets[-1] + 1


def entries(offsets: Sequence[int], first: int, last: int, follows: MapEnd | None, resets: int) -> list[Entry]:
    """The entries of a transaction with the records at these upstream offsets, at `first` to `last` on the target.

    Usually it is one. If somebody else has written between the records, it is an entry of the first record alone, for
    it is not known where the others are. If the map's end is not before the records, an unclean election has cut the
    remote log: what is left of the records before is not known.
    """
    if follows is not None and follows.entry >= first:
        follows = None
    if last - first != len(offsets) - 1:
        return [Entry(offsets[0], first, (1,), follows, resets)]
    found: list[Entry] = []
    done = 0
    for runs in _split(_runs(offsets)):
        found.append(Entry(offsets[done], first + done, runs, follows, resets))
        done += found[-1].records
        follows = MapEnd(found[-1].downstream)
    return found


def entries_in_pieces(
    offsets: Sequence[int], downstream: Mapping[int, int], follows: MapEnd | None, resets: int
) -> list[Entry]:
    """The entries of a transaction, given the downstream offset of each record by index.

    Each piece without the records of others gets an entry. A record whose offset is not known ends them: what follows
    is in none.
    """
    found: list[Entry] = []
    begin = 0
    for end in range(1, len(offsets) + 1):
        before, here = downstream.get(end - 1), downstream.get(end)
        if before is None:
            return found
        if here != before + 1:
            found += entries(offsets[begin:end], downstream[begin], before, follows, resets)
            begin, follows = end, MapEnd(found[-1].downstream)
    return found


def end_after(made: Sequence[Entry], records: int) -> MapEnd | None:
    """The map's end after the entries of a transaction with so many records. None if they do not have all of them."""
    return MapEnd(made[-1].downstream) if made and sum(each.records for each in made) == records else None


def _runs(offsets: Sequence[int]) -> list[int]:
    first, *others = runs_of(offsets)
    runs, end = [len(first)], first.stop
    for run in others:
        runs += (run.start - end, len(run))
        end = run.stop
    return runs


def _split(runs: list[int]) -> Iterator[tuple[int, ...]]:
    """In parts of RUNS_MAX runs; the gap between two parts is in neither."""
    step = 2 * RUNS_MAX
    for begin in range(0, len(runs), step):
        yield tuple(runs[begin : begin + step - 1])
