"""Offset syncs: pairs of upstream and downstream offsets, in MirrorMaker 2's own format.

Key: topic STRING (the source's name), partition INT32. Value: upstreamOffset INT64, downstreamOffset INT64.
Big-endian, STRING is an INT16 length and UTF-8, no version (connect/mirror OffsetSync.java).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from mirror.target.runs import runs_of


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The record at `upstream` of the source partition stands at `downstream` of the remote one."""

    topic: str
    partition: int
    upstream: int
    downstream: int

    def key(self) -> bytes:
        """The record key."""
        name = self.topic.encode()
        return struct.pack(f">h{len(name)}si", len(name), name, self.partition)

    def value(self) -> bytes:
        """The record value."""
        return struct.pack(">qq", self.upstream, self.downstream)

    @staticmethod
    def decode(key: bytes, value: bytes) -> OffsetSync:
        """The sync that a record of the topic has. Raises struct.error or UnicodeDecodeError if it has none."""
        (length,) = struct.unpack_from(">h", key)
        name, partition = struct.unpack_from(f">{length}si", key, 2)
        upstream, downstream = struct.unpack(">qq", value)
        return OffsetSync(name.decode(), partition, upstream, downstream)


class SyncChooser:
    """Chooses the records of one partition that get an offset sync.

    A sync is due for the first record of a session, after every upstream gap (compaction, aborted records,
    transaction markers), and when `lag_max` records have passed since the last one. So each upstream offset is
    at most `lag_max` records after a sync, with no gap between the two.
    """

    def __init__(self, lag_max: int) -> None:
        self._lag_max = max(1, lag_max)
        self._expected: int | None = None  # the upstream offset that continues without a gap
        self._since = 0  # records since the last sync

    def choose(self, offsets: Sequence[int]) -> list[int]:
        """Indexes into `offsets` (ascending upstream offsets of a batch) that get a sync; changes nothing."""
        chosen: list[int] = []
        done, since, expected = 0, self._since, self._expected
        for run in runs_of(offsets):
            first = max(0, self._lag_max - since) if run.start == expected else 0
            found = range(done + first, done + len(run), self._lag_max)
            chosen += found
            done, expected = done + len(run), run.stop
            since = done - found[-1] if found else since + len(run)
        return chosen

    def committed(self, offsets: Sequence[int], chosen: Sequence[int]) -> None:
        """Remember which records of the committed batch have a sync."""
        self._expected = offsets[-1] + 1
        self._since = len(offsets) - chosen[-1] if chosen else self._since + len(offsets)

    @property
    def tail_is_synced(self) -> bool:
        """True if the last committed record has a sync of its own."""
        return self._since <= 1

    def tail_synced(self) -> None:
        """The last committed record got its sync."""
        self._since = 1
