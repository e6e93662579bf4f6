"""Makes the CRC-32C of a large batch anew after its header has changed, without reading its records again.

A CRC is linear: when the beginning of some bytes changes, the checksum changes by that of the difference, moved on by
as many zero bytes as follow. Moving on by 2**n bytes is a linear map of 32 bits, kept as four tables.
"""

from __future__ import annotations

from functools import cache

from crc32c import crc32c

_REVERSED = 0x82F63B78  # Castagnoli's polynomial
_BYTE = 8  # bits

Tables = tuple[list[int], list[int], list[int], list[int]]


def changed(checksum: int, before: bytes, after: bytes, following: int) -> int:
    """The checksum of bytes that began with `before` and now begin with `after`. `following` bytes come after those.

    Takes as long for a gigabyte as for a kilobyte: some microseconds.
    """
    difference, level = crc32c(before) ^ crc32c(after), 0
    while following:
        if following & 1:
            difference = _moved(_tables(level), difference)
        following >>= 1
        level += 1
    return checksum ^ difference


def _moved(tables: Tables, value: int) -> int:
    first, second, third, fourth = tables
    return first[value & 255] ^ second[value >> 8 & 255] ^ third[value >> 16 & 255] ^ fourth[value >> 24]


@cache
def _tables(level: int) -> Tables:
    """The tables that move a checksum on by 2**level zero bytes."""
    columns = []
    for bit in range(4 * _BYTE):
        value = 1 << bit
        if level:
            value = _moved(_tables(level - 1), _moved(_tables(level - 1), value))
        else:
            for _ in range(_BYTE):
                value = value >> 1 ^ (_REVERSED if value & 1 else 0)
        columns.append(value)
    tables = [[0] * 256 for _ in range(4)]
    for place, table in enumerate(tables):
        for byte in range(1, 256):
            lowest = byte & -byte
            table[byte] = table[byte ^ lowest] ^ columns[place * _BYTE + lowest.bit_length() - 1]
    return tables[0], tables[1], tables[2], tables[3]
