"""Decompresses a batch piece by piece, so that a small batch which decompresses to gigabytes needs little memory."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa

from mirror.errors import Malformed

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)  # the codes in a batch's attributes
_STREAMS = {GZIP: "gzip", LZ4: "lz4", ZSTD: "zstd"}

PIECE = 2**20  # bytes

_XERIAL = b"\x82SNAPPY\x00"  # Java's clients write this, two version numbers, and then blocks
_XERIAL_HEADER = len(_XERIAL) + 8
_BLOCK = struct.Struct(">i")
_SNAPPY_RATIO = 32  # no block has a higher ratio, because a copy of 64 bytes is encoded in 3 bytes


def unpacked(codec: int, payload: memoryview) -> Iterator[bytes]:
    """The decompressed records of a batch, in pieces. Raises Malformed."""
    if codec == NONE:
        yield bytes(payload)
    elif codec == SNAPPY:
        yield from _snappy(payload)
    elif codec in _STREAMS:
        yield from _stream(_STREAMS[codec], payload)
    else:
        raise Malformed(f"there is no compression codec {codec}")


def _stream(name: str, payload: memoryview) -> Iterator[bytes]:
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(payload)), name) as stream:
        while piece := _read(stream):
            yield piece


def _read(stream: pa.CompressedInputStream) -> bytes:
    try:
        return bytes(stream.read(PIECE))
    except (OSError, pa.ArrowException) as error:
        raise Malformed(f"a batch can't be unpacked: {error}") from error


def _snappy(payload: memoryview) -> Iterator[bytes]:
    if payload[: len(_XERIAL)] != _XERIAL:
        yield _block(payload)
        return
    at = _XERIAL_HEADER
    while at < len(payload):
        if at + _BLOCK.size > len(payload):
            raise Malformed("a snappy block has no length")
        (length,) = _BLOCK.unpack_from(payload, at)
        at += _BLOCK.size
        if not 0 < length <= len(payload) - at:
            raise Malformed(f"a snappy block of {length} bytes does not fit into its batch")
        yield _block(payload[at : at + length])
        at += length


def _block(data: memoryview) -> bytes:
    """Decompress one block, which begins with its decompressed size as a varint."""
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > _SNAPPY_RATIO * len(data):
        raise Malformed(f"a snappy block of {len(data)} bytes says that it unpacks to {size}")
    try:
        return bytes(pa.Codec("snappy").decompress(pa.py_buffer(data), size, asbytes=True))
    except (OSError, pa.ArrowException) as error:
        raise Malformed(f"a snappy block can't be unpacked: {error}") from error
