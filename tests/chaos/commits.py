"""Every position that mirror has committed, as the brokers keep them in their own topic."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import closing

from confluent_kafka import IsolationLevel

from tests.checker.history import Committed, Record
from tests.harness import oracle, topics
from tests.harness.pair import Pair

TOPIC = "__consumer_offsets"
TOPIC_ID = re.compile(rb'\{"topic_id":"([^"]*)"')
RESETS = re.compile(rb'"resets":(\d+)')


class Commits:
    """The positions of one remote topic that were committed since this object was made.

    The brokers compact their topic. Who calls `follow` more often than that loses none.
    """

    def __init__(self, pair: Pair, remote: str) -> None:
        self._pair, self._remote = pair, remote
        there = topics.partitions(pair.target, TOPIC)
        self._begins = oracle.ends(pair.target, TOPIC, IsolationLevel.READ_COMMITTED) if there else {}
        self._found: list[tuple[str, int, bytes]] = []  # group, partition and value

    def follow(self) -> None:
        """Read what was committed since the last call."""
        with closing(oracle.Reader(self._pair.target, TOPIC, begins=self._begins)) as reader:
            read = reader.to_end()
        for number, records in read.items():
            for record in records:
                place = _place(record)
                if record.value and place and place[1] == self._remote:
                    self._found.append((place[0], place[2], record.value))
                self._begins[number] = record.offset + 1

    def read(self) -> Iterator[tuple[int, str, Committed]]:
        """Partition, id of the source topic, and position of each."""
        for partition, value in self._of(self._pair.group):
            found = TOPIC_ID.search(value)
            if found is None:  # a stranger's
                continue
            # INT16 version, INT64 offset; what follows differs from version to version.
            (offset,) = struct.unpack_from(">q", value, 2)
            resets = RESETS.search(value)
            yield partition, found[1].decode(), Committed(offset, int(resets[1]) if resets else 0)

    def times(self, group: str) -> int:
        """How often an offset of this group was committed in the remote topic."""
        return len(self._of(group))

    def _of(self, group: str) -> list[tuple[int, bytes]]:
        self.follow()
        return [(number, value) for owner, number, value in self._found if owner == group]


def _place(record: Record) -> tuple[str, str, int] | None:
    """Group, topic and partition: INT16 version, STRING, STRING, INT32. From version 2 on it is something else."""
    key = record.key or b""
    version, length = struct.unpack_from(">hh", key)
    if version > 1:
        return None
    group, at = key[4 : 4 + length].decode(), 4 + length
    (length,) = struct.unpack_from(">h", key, at)
    return group, key[at + 2 : at + 2 + length].decode(), struct.unpack_from(">i", key, at + 2 + length)[0]
