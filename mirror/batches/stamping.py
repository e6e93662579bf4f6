"""Makes a record batch of another producer one of a transaction of ours, without touching its records."""

from __future__ import annotations

import struct

from crc32c import crc32c

from mirror.batches.checksum import changed
from mirror.batches.headers import CODEC, CRC_FROM, HEADER, TRANSACTIONAL

# Places in a batch of format 2. The checksum covers everything from the attributes on.
_FIRST, _LEADER_EPOCH, _CRC, _ATTRIBUTES, _PRODUCER = 0, 12, 17, CRC_FROM, 43
_NUMBER = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_UNSIGNED = struct.Struct(">I")
_FLAGS = struct.Struct(">h")
_BY = struct.Struct(">qhi")  # producer id, epoch, sequence
_LARGE = 2**17  # bytes; below, a checksum of everything is faster


def stamp(batch: memoryview, producer: int, epoch: int, sequence: int) -> None:
    """Change a batch with a right checksum in place: who wrote it and when it comes, in a transaction.

    The offset and the leader's epoch are what producers send. Of the flags only the codec stays: a delete horizon
    (KIP-534) is the source's, and the base timestamp is then its own.
    """
    before = bytes(batch[CRC_FROM:HEADER])
    (checksum,), (flags,) = _UNSIGNED.unpack_from(batch, _CRC), _FLAGS.unpack_from(batch, _ATTRIBUTES)
    _NUMBER.pack_into(batch, _FIRST, 0)
    _EPOCH.pack_into(batch, _LEADER_EPOCH, -1)
    _FLAGS.pack_into(batch, _ATTRIBUTES, flags & CODEC | TRANSACTIONAL)
    _BY.pack_into(batch, _PRODUCER, producer, epoch, sequence)
    if len(batch) >= _LARGE:
        checksum = changed(checksum, before, bytes(batch[CRC_FROM:HEADER]), len(batch) - HEADER)
    else:
        checksum = crc32c(batch[CRC_FROM:])
    _UNSIGNED.pack_into(batch, _CRC, checksum)
