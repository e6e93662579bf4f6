"""Heartbeats, in MirrorMaker 2's own format.

Key: sourceClusterAlias STRING, targetClusterAlias STRING. Value: version INT16, timestamp INT64 (milliseconds since the
Unix epoch). Big-endian, STRING is an INT16 length and UTF-8 (connect/mirror-client Heartbeat.java).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

VERSION = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """At `timestamp` the source's records were being copied to the target."""

    source: str  # alias
    target: str  # alias
    timestamp: int  # milliseconds since the Unix epoch

    def key(self) -> bytes:
        """The record key."""
        source, target = self.source.encode(), self.target.encode()
        return struct.pack(f">h{len(source)}sh{len(target)}s", len(source), source, len(target), target)

    def value(self) -> bytes:
        """The record value."""
        return struct.pack(">hq", VERSION, self.timestamp)
