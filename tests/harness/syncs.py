"""Offset syncs as MirrorMaker 2 writes and reads them, with a parser of its own.

Key: INT16 length, topic in UTF-8, INT32 partition. Value: INT64 upstream, INT64 downstream. All big-endian.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from tests.harness import oracle


class Sync(NamedTuple):
    """The record at `upstream` on the source is the one at `downstream` on the target."""

    upstream: int
    downstream: int


def read(target: str, alias: str) -> dict[tuple[str, int], list[Sync]]:
    """All syncs of a source that a read_committed consumer sees, by source topic and partition, in order."""
    found: dict[tuple[str, int], list[Sync]] = defaultdict(list)
    records = oracle.read(target, f"mm2-offset-syncs.{alias}.internal")
    assert list(records) == [0], "MirrorMaker's topic has one partition"
    for record in records[0]:
        assert record.key is not None and record.value is not None
        length = int.from_bytes(record.key[:2], "big")
        topic, partition = record.key[2 : 2 + length].decode(), record.key[2 + length :]
        assert len(partition) == 4 and len(record.value) == 16
        sync = Sync(int.from_bytes(record.value[:8], "big"), int.from_bytes(record.value[8:], "big"))
        found[topic, int.from_bytes(partition, "big")].append(sync)
    return found


def translate(syncs: Sequence[Sync], position: int) -> int | None:
    """MirrorMaker's rule (OffsetSyncStore): the nearest sync at or before a group's position, and one more if before.

    `syncs` are in the order of their upstream offsets. None: older than all of them.
    """
    index = bisect_right(syncs, position, key=lambda sync: sync.upstream) - 1
    if index < 0:
        return None
    return syncs[index].downstream + (syncs[index].upstream != position)
