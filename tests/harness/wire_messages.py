"""Parts of the requests and answers of transactions, in Kafka's protocol. Each names one topic and its partition 0."""

from __future__ import annotations

import struct

from mirror.batches import varints
from mirror.wire.cursor import Cursor


def text(content: str) -> bytes:
    """Encode a COMPACT_STRING."""
    encoded = content.encode()
    return varints.write_unsigned(len(encoded) + 1) + encoded


def of_partition(topic: str, content: bytes) -> bytes:
    """Encode the topics of a flexible request, up to its end. `content` follows the partition's number."""
    return b"\2" + text(topic) + b"\2" + struct.pack(">i", 0) + content + b"\0\0\0"


def added(answer: Cursor) -> int:
    """The partition's error code in an answer to AddPartitionsToTxn."""
    answer.int32(), answer.string(), answer.int32(), answer.int32()
    return answer.int16()


def offset_committed(answer: Cursor) -> int:
    """A topic in an answer to TxnOffsetCommit: the partition's error code."""
    answer.compact_string()
    (error,) = answer.compact_array(_offset_committed, 7)
    answer.tags()
    return error


def _offset_committed(answer: Cursor) -> int:
    _, error = answer.int32(), answer.int16()
    answer.tags()
    return error


def produced(answer: Cursor) -> tuple[int, int]:
    """A topic in an answer to Produce: the partition's error code, and the base offset."""
    answer.compact_string()
    (found,) = answer.compact_array(_produced, 30)
    answer.tags()
    return found


def _produced(answer: Cursor) -> tuple[int, int]:
    _, error, base = answer.int32(), answer.int16(), answer.int64()
    answer.int64(), answer.int64()  # append time, log start
    answer.compact_array(_wrong_record, 6)
    answer.compact_string()
    answer.tags()
    return error, base


def _wrong_record(answer: Cursor) -> None:
    answer.int32(), answer.compact_string()
    answer.tags()


def described(answer: Cursor) -> tuple[int, set[int]]:
    """A topic in an answer to DescribeProducers: the partition's error code, and the ids of its producers."""
    answer.compact_string()
    (found,) = answer.compact_array(_described, 8)
    answer.tags()
    return found


def _described(answer: Cursor) -> tuple[int, set[int]]:
    _, error, _ = answer.int32(), answer.int16(), answer.compact_string()
    known = answer.compact_array(_producer, 37)
    answer.tags()
    return error, set(known)


def _producer(answer: Cursor) -> int:
    producer = answer.int64()
    answer.int32(), answer.int32(), answer.int64(), answer.int32(), answer.int64()
    answer.tags()
    return producer
