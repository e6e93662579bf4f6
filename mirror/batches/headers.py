"""The headers of record batches: what a batch contains, and whether read_committed consumers see it."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

from crc32c import crc32c

from mirror import varints
from mirror.errors import Malformed

# First offset, length, leader epoch, format; at the same places in every format.
_START = struct.Struct(">qiib")
# CRC, attributes, last offset delta, base and largest timestamp, producer id, epoch and sequence, records.
_REST = struct.Struct(">IhiqqqhiI")
LENGTH_FROM = 12  # the length counts the bytes from here on
_OLD = struct.Struct(">Ib")  # CRC and format of the old formats
_OLD_CRC_FROM = 16
CRC_FROM = 21  # the CRC covers the bytes from here (the attributes) on
HEADER = _START.size + _REST.size  # bytes

FORMAT = 2
CODEC, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x07, 0x08, 0x10, 0x20  # bits of the attributes
_ABORT = b"\x00\x00"  # the type in a marker's key, after the version
_OLD_MIN, _OFFSET_MAX = 14, 2**63 - 2  # the offset after it has to be one, too


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """One record batch. The offsets `first` and `last` do not change when compaction removes records.

    For the old formats 0 and 1 only `format`, `last` and `data` are known.
    """

    format: int
    first: int
    last: int
    epoch: int  # of the leader that appended it
    attributes: int
    base_timestamp: int  # ms
    max_timestamp: int  # ms
    producer_id: int
    records: int
    data: memoryview  # the whole batch

    @property
    def payload(self) -> memoryview:
        """The records, compressed or not."""
        return self.data[HEADER:]

    @property
    def is_old(self) -> bool:
        """True for format 0 or 1, of producers before Kafka 0.11. Its records have no headers and are not read here."""
        return self.format < FORMAT


def walk(data: memoryview, most: int = 2**31) -> list[RecordBatch]:
    """The complete batches in the records of a Fetch answer. An incomplete last batch is left out.

    So is what begins after `most` bytes, because a batch needs many times the bytes of its header.

    Raises Malformed for data that is not a batch, and for a wrong checksum.
    """
    found: list[RecordBatch] = []
    at, end = 0, len(data)
    while end - at >= _START.size and at < most:
        first, length, epoch, version = _START.unpack_from(data, at)
        total = LENGTH_FROM + length
        if (
            not 0 <= first <= _OFFSET_MAX
            or not 0 <= version <= FORMAT
            or length < (HEADER - LENGTH_FROM if version == FORMAT else _OLD_MIN)
        ):
            where = f"after offset {found[-1].last}" if found else "at the fetched offset"
            raise Malformed(f"no record batch {where}")
        if total > end - at:
            break
        if found and first <= found[-1].last:
            raise Malformed(f"offset {first} comes after offset {found[-1].last}")
        read = _batch if version == FORMAT else _old
        found.append(read(data[at : at + total], first, epoch))
        at += total
    return found


def _batch(data: memoryview, first: int, epoch: int) -> RecordBatch:
    crc, attributes, delta, base, most, producer, _, _, records = _REST.unpack_from(data, _START.size)
    if crc32c(data[CRC_FROM:]) != crc:
        raise Malformed(f"the batch at offset {first} has a wrong checksum")
    last = first + delta
    # A batch keeps its last offset when compaction removes records, even if it removes all of them.
    if delta < 0 or records > delta + 1 or last > _OFFSET_MAX:
        raise Malformed(f"the batch at offset {first} has {records} records up to offset {last}")
    return RecordBatch(FORMAT, first, last, epoch, attributes, base, most, producer, records, data)


def _old(data: memoryview, offset: int, _: int) -> RecordBatch:
    """Parse an entry of an old format, which has the offset of its last message. The CRC starts at the format."""
    crc, version = _OLD.unpack_from(data, LENGTH_FROM)
    if crc32(data[_OLD_CRC_FROM:]) != crc:
        raise Malformed(f"the message at offset {offset} has a wrong checksum")
    return RecordBatch(version, offset, offset, -1, 0, -1, -1, -1, 0, data)


def committed(batches: Iterable[RecordBatch], aborted: Sequence[tuple[int, int]]) -> Iterator[RecordBatch]:
    """The batches that read_committed consumers see (KIP-98): no markers, and nothing of aborted transactions.

    `aborted` is the list in the Fetch answer, a producer id and a first offset each. From that offset up to the
    producer's next abort marker, its transactional batches are left out.
    """
    coming = sorted(aborted, key=lambda each: each[1], reverse=True)
    aborting: set[int] = set()
    for batch in batches:
        while coming and coming[-1][1] <= batch.last:
            aborting.add(coming.pop()[0])
        if batch.attributes & CONTROL:
            if _aborts(batch):
                aborting.discard(batch.producer_id)
        elif not (batch.attributes & TRANSACTIONAL and batch.producer_id in aborting):
            yield batch


def _aborts(control: RecordBatch) -> bool:
    """True for an abort marker, by the key of its only record. Compaction may have removed that record (KIP-534)."""
    if not control.records:
        return False
    _, at = varints.read(control.payload, 0)
    at += 1  # attributes
    for _ in ("timestamp", "offset", "length of the key"):
        _, at = varints.read(control.payload, at)
    return bytes(control.payload[at : at + 4])[2:] == _ABORT
