"""Makes one batch of neighbouring small ones, because each batch is a request, which costs more than its few records.

Only uncompressed batches are merged that belong to no transaction, and whose offsets follow each other without a gap.
Of each record, the length and the differences of time and offset are written anew. All that follows stays as it is.
"""

from __future__ import annotations

import struct

from crc32c import crc32c

from mirror import varints
from mirror.batches.building import batch_of
from mirror.batches.headers import CRC_FROM, FORMAT, HEADER, LENGTH_FROM
from mirror.errors import Malformed

SMALL = 16  # records; to write more of them anew takes us longer than a request
MERGED_MAX = 2**20  # bytes of the batches that become one, where nothing asks for less
_FIELDS = struct.Struct(">qiibIhiqq14xI")  # of the header of a batch, without those of its producer
_LENGTH = struct.Struct(">i")
_LENGTH_AT = 8
_DIFFERENCE = 2**63  # of two timestamps; one that is larger can't be written
_MORE = 0x80  # a byte of a varint with more bytes after it
_SHORTS = 2**13
_SHORT = [varints.write(number) for number in range(_SHORTS + 16)]  # more than _SHORTS: a record's head is longer
_MOST = _SHORTS - SMALL  # records: a batch that has more gets no others, so that the place of each is in _SHORT
_ZEROS = b"\0\0\0"
_PAYLOAD = HEADER - CRC_FROM
# How the only record of a batch begins as nearly all producers write it, by the bytes of the record with its length:
# attributes and both differences are zero. A number of bytes that no such record has is not there.
_PLAIN = {
    HEADER - LENGTH_FROM + len(_SHORT[size]) + size: _SHORT[size] + _ZEROS for size in range(len(_ZEROS), _SHORTS)
}


def merged(data: memoryview, position: int, most: int, largest: int) -> memoryview:
    """The batches in the records of a Fetch answer, with one in place of each run of small ones.

    They are the beginning of `data`, which is changed, so they need no memory of their own. What begins before the
    offset `position` or after `most` bytes is not merged, and no batch becomes larger than `largest` bytes. Whatever
    looks wrong stays as it is: the walk through the batches judges it.
    """
    at = to = 0
    while at < most and at <= len(data) - HEADER:
        after, batch = _run(data, at, most, position, largest)
        if after == at:
            after += LENGTH_FROM + int(_LENGTH.unpack_from(data, at + _LENGTH_AT)[0])
        if not at < after <= len(data):
            break
        if batch is not None or to < at:
            part = data[at:after] if batch is None else batch
            data[to : to + len(part)] = part
            to += len(part)
        else:
            to = after
        at = after
    if to == at:
        return data
    rest = data[at:] if at < most else data[:0]
    data[to : to + len(rest)] = rest
    return data[: to + len(rest)]


def _run(data: memoryview, at: int, most: int, position: int, room: int) -> tuple[int, bytearray | None]:
    """Where the run of small batches that begins at `at` ends, and the batch that it becomes.

    That is None if the run stays as it is: it is none, or only one batch, or would not become smaller.
    """
    begin, parts, whole, batches, count = at, list[bytes](), 0, 0, 0
    offset, _, leader, _, _, _, _, base, newest, _ = _FIELDS.unpack_from(data, at)
    first = max(offset, position)
    most, end = min(most, len(data) - HEADER + 1), min(begin + room, len(data))
    while at < most and count <= _MOST:
        offset, length, epoch, version, crc, flags, delta, time, last, records = _FIELDS.unpack_from(data, at)
        after = at + LENGTH_FROM + length
        if (
            flags
            or version != FORMAT
            or not 0 < records <= SMALL
            or delta != records - 1
            or offset != first + count
            or not at + HEADER <= after <= end  # a length may be negative, and then lead back into the data
        ):
            break
        if records == 1 and (singles := _singles(data, at, (most, end), first + count, count, base, parts)):
            at, epoch, last, records = singles
            batches += records
        elif crc32c(data[at + CRC_FROM : after]) == crc and _move(
            bytes(data[at + HEADER : after]), records, time - base, count, parts
        ):
            at, batches = after, batches + 1
        else:
            break
        whole, count, leader, newest = len(parts), count + records, epoch, max(newest, last)
    batch = batch_of(parts[:whole], count, (base, newest), first, leader) if batches > 1 else None
    return at, batch if batch is not None and len(batch) < at - begin else None


def _singles(
    data: memoryview, at: int, bounds: tuple[int, int], expected: int, before: int, base: int, parts: list[bytes]
) -> tuple[int, int, int, int] | None:
    """What `_move` does, for batches with one record each as nearly all producers write it, in half of the time.

    The place after them, their last leader epoch, their newest timestamp and their number; None if there are none.
    """
    most, end = bounds
    count, newest, leader = before, -_DIFFERENCE, -1
    expected -= before
    while at < most and count <= _MOST:
        offset, length, epoch, version, crc, flags, delta, time, last, records = _FIELDS.unpack_from(data, at)
        after = at + LENGTH_FROM + length
        later, plain = time - base, _PLAIN.get(length)
        if (
            not plain
            or flags
            or version != FORMAT
            or delta
            or records != 1
            or after > end
            or offset != expected + count
            or not -_DIFFERENCE <= later < _DIFFERENCE
        ):
            break
        body = bytes(data[at + CRC_FROM : after])
        if not body.startswith(plain, _PAYLOAD) or crc32c(body) != crc:
            break
        when = _SHORT[later] if 0 <= later < _SHORTS else varints.write(later)
        index, content = _SHORT[count], body[_PAYLOAD + len(plain) :]
        parts += (_SHORT[1 + len(when) + len(index) + len(content)], b"\0", when, index, content)
        at, count, leader = after, count + 1, epoch
        newest = last if last > newest else newest
    return (at, leader, newest, count - before) if count > before else None


def _move(data: bytes, records: int, later: int, before: int, parts: list[bytes]) -> bool:
    """Add the records of a batch to those of one that begins `later` ms earlier: their parts. `before` are there.

    False if they can't be there, or are not as a producer writes them. Then some of their parts may have been added.
    """
    at = 0
    try:
        for number in range(records):
            size, begin = data[at], at + 1
            if size >= _MORE:  # most have one or two bytes
                high = data[begin]
                size, begin = (size & 0x7F | high << 7, begin + 1) if high < _MORE else _doubled(data, at)
            at = begin + (size >> 1)
            difference, place = data[begin + 1], begin + 2
            if difference < _MORE:
                difference = (difference >> 1) ^ -(difference & 1)
            else:
                difference, place = varints.read(data, begin + 1)
            difference += later
            if size & 1 or data[place] != 2 * number or place >= at or not -_DIFFERENCE <= difference < _DIFFERENCE:
                return False
            written = _SHORT[difference] if 0 <= difference < _SHORTS else varints.write(difference)
            head = data[begin : begin + 1] + written + _SHORT[before + number]
            size = len(head) + at - place - 1
            parts.append((_SHORT[size] if size < _SHORTS else varints.write(size)) + head)
            parts.append(data[place + 1 : at])
    except (IndexError, Malformed):
        return False
    return at == len(data)


def _doubled(data: bytes, at: int) -> tuple[int, int]:
    number, place = varints.read(data, at)
    return 2 * number, place
