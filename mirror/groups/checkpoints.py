"""Checkpoints of consumer groups, in MirrorMaker 2's own format.

Key: group STRING, topic STRING (the remote topic's name), partition INT32. Value: version INT16, upstreamOffset INT64,
downstreamOffset INT64, metadata STRING. Big-endian, STRING is an INT16 length and UTF-8 (connect/mirror-client
Checkpoint.java).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from mirror import decode
from mirror.errors import Malformed
from mirror.wire.cursor import Cursor

VERSION = 0
STRING_MAX = 2**15 - 1  # bytes of a STRING


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group that has committed `upstream` on the source goes on at `downstream` of the remote partition."""

    group: str
    remote: str  # the remote topic
    partition: int
    upstream: int
    downstream: int
    metadata: str

    def key(self) -> bytes:
        """The record key."""
        return _string(self.group) + _string(self.remote) + struct.pack(">i", self.partition)

    def value(self) -> bytes:
        """The record value. Metadata that is too long for the format is left out: nobody needs it to go on."""
        metadata = self.metadata if len(self.metadata.encode()) <= STRING_MAX else ""
        return struct.pack(">hqq", VERSION, self.upstream, self.downstream) + _string(metadata)

    @staticmethod
    def decode(key: bytes, value: bytes) -> Checkpoint:
        """The checkpoint that a record of the topic has. Raises Malformed, also for another version of the format."""
        try:
            name, content = Cursor(key), Cursor(value)
            group, remote = name.string(), decode.topic_name(name.string())
            partition = decode.partition_number(name.int32())
            if content.int16() != VERSION:
                raise Malformed("a checkpoint of another version")
            upstream, downstream = _OFFSET(content.int64()), _OFFSET(content.int64())
            found = Checkpoint(group, remote, partition, upstream, downstream, content.string())
            name.end()
            content.end()
        except decode.DecodeError as error:
            raise Malformed(f"no checkpoint: {error}") from error
        return found


_OFFSET = decode.integer()


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded
