"""Varints: seven bits in each byte, the lowest bits first. Those in records are zigzag-encoded."""

from __future__ import annotations

from mirror.errors import Malformed

_BITS = 64  # most bits of a number in a record
_ONE = [bytes([number]) for number in range(0x80)]
_UNSIGNED = 35  # bits of the bytes in which a number of 32 bits fits


def read(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Decode the zigzag-encoded number at `at`. Returns it and the place after it. Raises Malformed."""
    value = shift = 0
    while shift < _BITS + 6 and at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise Malformed("a number in a record has no end")


def read_unsigned(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Decode the number of 32 bits at `at`, without zigzag. Returns it and the place after it. Raises Malformed."""
    if at < len(data) and (byte := data[at]) < 0x80:
        return byte, at + 1
    value = shift = 0
    while shift < _UNSIGNED and at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise Malformed("a number in the answer has no end")


def write(number: int) -> bytes:
    """Encode a number with zigzag, in the shortest way."""
    return write_unsigned((number << 1) ^ (number >> (_BITS - 1)))


def write_unsigned(number: int) -> bytes:
    """Encode a number that is not negative, without zigzag, in the shortest way."""
    if number < 0x80:
        return _ONE[number]
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
