"""What the requests say that the target of batch_target.py gets, and the topics that they name."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from mirror.wire.cursor import Cursor
from mirror.wire.offsets import Offset

SYNCS, MAP = "mm2-offset-syncs.primary.internal", "mirror-offset-map.primary.internal"
BARRIER = "mirror-control.primary.internal"
ID = {"remote": b"remote-remote-re", SYNCS: b"s" * 16, MAP: b"m" * 16, BARRIER: b"b" * 16}
NAMES = {each: name for name, each in ID.items()}


@dataclass(frozen=True)
class Sent:
    """A request as it came: its kind, and for Produce the acks and for each topic the first sequence and the count."""

    kind: str
    node: int
    purpose: str
    acks: int = 0
    batches: tuple[tuple[str, int, int], ...] = ()  # topic, sequence, records


def seen(kind: str, body: bytes, node: int, purpose: str) -> tuple[Sent, dict[str, memoryview]]:
    """The request that a node gets, and for Produce the batch for each topic."""
    if kind != "Produce":
        return Sent(kind, node, purpose), {}
    answer = Cursor(body, 13, True)
    answer.string()
    acks, _ = answer.int16(), answer.int32()
    found = [(NAMES[key], data) for key, data in answer.by_topic_id(_data, 5)]
    answer.tags()
    assert len({name for name, _ in found}) == len(found), "a broker would drop one of two batches"
    sequences = tuple((name, *struct.unpack_from(">ii", data, 53)) for name, data in found)
    return Sent(kind, node, purpose, acks, sequences), dict(found)


def _data(answer: Cursor) -> memoryview:
    answer.int32()
    data = answer.bytes()
    answer.tags()
    return memoryview(data)


def offset_wanted(body: Cursor) -> int:
    """Of a partition in Fetch."""
    body.int32(), body.int32()
    offset = body.int64()
    body.int32(), body.int64(), body.int32()
    body.tags()
    return offset


def offset_committed(body: Cursor) -> Offset:
    """Of a partition in OffsetCommit or TxnOffsetCommit."""
    body.int32()
    offset, epoch, metadata = body.int64(), body.int32(), body.string()
    body.tags()
    return Offset(offset, metadata, epoch)
