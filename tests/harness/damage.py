"""What a failing disk does to a source: a broker gives it on as it is."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from mirror.demo.brokers import LocalCluster

_HEADER = struct.Struct(">qi")  # of a batch: base offset, and bytes that follow


def batches(content: bytes) -> Iterator[tuple[int, int]]:
    """Where each batch of a segment begins and ends."""
    begin = 0
    while begin < len(content):
        _, length = _HEADER.unpack_from(content, begin)
        yield begin, begin + _HEADER.size + length
        begin += _HEADER.size + length


def flip(cluster: LocalCluster, topic: str, number: int, content: bytes, broker: int = 0) -> None:
    """Flip a bit of where `content` stands in a batch of partition 0, counted from 0; the same again mends it.

    `content` may itself have the flipped bit. It is the copy of the cluster's broker of this number.
    """
    (segment,) = (Path(str(cluster.brokers[broker].properties["log.dirs"])) / f"{topic}-0").glob("*.log")
    begin, end = list(batches(segment.read_bytes()))[number]
    flipped = bytes([content[0] ^ 1]) + content[1:]
    with segment.open("r+b") as file:
        whole = file.read()
        (at,) = [found for each in (content, flipped) if (found := whole.find(each, begin, end)) >= 0]
        file.seek(at)
        file.write(bytes([whole[at] ^ 1]))
