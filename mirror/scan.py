"""Reads a stretch of a partition as read_committed consumers see it, and sums it up: runs inside Spark tasks.

A chunk ends after a record whose digest begins with ten zero bits. So the same records make the same chunks on both
clusters, wherever a stretch begins and whatever is missing before it: no two offsets have to be matched to compare.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from hashlib import blake2b
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from mirror.clients import internal_consumer, is_away
from mirror.errors import MirrorError
from mirror.settings import Cluster

TIMEOUT = 30.0  # seconds for an answer of a cluster
FETCH = 5_000  # records taken at once
DIGEST = 16  # bytes: two different records of a billion have the same one with a chance of 1 to 10**20
BOUNDARY = b"\x00\x40"  # digests below it end a chunk: one of 1,024

_RECORD = struct.Struct(">qii")
_HEADER = struct.Struct(">ii")

# Not `message.headers()`, for which CPython does not look whether there is an error beside the result: then that has a
# hole (see transaction.py), and taking it apart would end the process.
_headers = partial(Message.headers)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of one partition of the cluster with this alias, by offsets.

    Its chunks begin after the first boundary from `start` on (`first`: at once) and end with the first boundary from
    `end` on, or at `limit`. So the chunks of stretches that follow each other are those of the whole.
    """

    cluster: str
    topic: str
    partition: int
    start: int
    end: int
    limit: int
    first: bool


class Chunk(NamedTuple):
    """Records from one boundary to the next: the offsets of the first and last, how many, and their digest."""

    start: int
    last: int
    records: int
    digest: bytes


class Entry(NamedTuple):
    """One record: its offset, its digest and its timestamp (ms)."""

    offset: int
    digest: bytes
    timestamp: int


def digest(message: Message) -> bytes:
    """Of key, value, headers in their order and timestamp; null is not the same as empty.

    A record with a header name that is not UTF-8 can't be read whole, and is taken for the same as no other.
    """
    try:
        key, value, headers = message.key(), message.value(), _headers(message)
    except (SystemError, UnicodeDecodeError):
        return _unique()
    text = _RECORD.pack(message.timestamp()[1], _length(key), _length(value)) + (key or b"") + (value or b"")
    for name, content in headers or ():
        encoded = name.encode()
        text += _HEADER.pack(len(encoded), _length(content)) + encoded + (content or b"")
    return blake2b(text, digest_size=DIGEST).digest()


def _unique() -> bytes:
    """A digest that no other record has; it never ends a chunk, for who reads again has to find the same ends."""
    return b"\xff" + os.urandom(DIGEST - 1)


def _length(part: bytes | None) -> int:
    return -1 if part is None else len(part)


def cut(records: Iterable[tuple[int, bytes]], end: int, first: bool) -> list[Chunk]:
    """The chunks of records, offset and digest each, that begin after the first boundary or, if `first`, at once.

    Takes records up to the first boundary from the offset `end` on.
    """
    found: list[Chunk] = []
    digests: list[bytes] = []
    start = last = -1
    within = first
    for last, mark in records:
        if within:
            if not digests:
                start = last
            digests.append(mark)
        if mark < BOUNDARY:
            if digests:
                found.append(_chunk(start, last, digests))
                digests = []
            if last >= end:
                break
            within = True
    if digests:
        found.append(_chunk(start, last, digests))
    return found


class Scanner:
    """Sums up stretches of these clusters, by alias. Every method raises MirrorError when records can't be read.

    It travels to the tasks within their code, so that what stands in Spark's data and pages holds no secret.
    """

    def __init__(self, clusters: Mapping[str, Cluster]) -> None:
        self._clusters = clusters

    def chunks(self, stretch: Stretch) -> list[Chunk]:
        """The chunks of a stretch."""
        read = self._read(stretch, stretch.limit)
        return cut(((message.offset(), digest(message)) for message in read), stretch.end, stretch.first)

    def entries(self, stretch: Stretch) -> list[Entry]:
        """Each record from `start` up to `end`."""
        return [_entry(message) for message in self._read(stretch, stretch.end)]

    def find(self, wanted: frozenset[bytes], stretch: Stretch) -> list[Entry]:
        """As `entries`, but of the records with these digests alone."""
        return [entry for entry in map(_entry, self._read(stretch, stretch.end)) if entry.digest in wanted]

    def _read(self, stretch: Stretch, stop: int) -> Iterator[Message]:
        cluster = self._clusters[stretch.cluster]
        consumer = _consumer(cluster.alias, tuple(sorted(cluster.properties.items())))
        return _records(consumer, stretch, stop)


def _entry(message: Message) -> Entry:
    return Entry(message.offset(), digest(message), message.timestamp()[1])


def _chunk(first: int, last: int, digests: Sequence[bytes]) -> Chunk:
    return Chunk(first, last, len(digests), blake2b(b"".join(digests), digest_size=DIGEST).digest())


def _records(consumer: Consumer, stretch: Stretch, stop: int) -> Iterator[Message]:
    """The records from the stretch's start up to the offset `stop`, which is not behind the last stable offset."""
    if stretch.start >= stop:
        return
    where = f"{stretch.topic}-{stretch.partition} on {stretch.cluster}"
    # Before it is assigned: a consumer that does not know the leaders looks for them only half a second later.
    _metadata(consumer, stretch.topic, where)
    consumer.assign([TopicPartition(stretch.topic, stretch.partition, stretch.start)])
    try:
        while (first := consumer.poll(TIMEOUT)) is not None:
            # `consume` waits until it has all it was asked for, unless it is told not to wait.
            for message in (first, *consumer.consume(FETCH, 0)):
                error = message.error()
                if error is not None:
                    _judge(error, where)
                if message.offset() >= stop:
                    return
                if error is None:
                    yield message
    finally:
        consumer.unassign()
    raise MirrorError(f"{where} can't be read up to offset {stop}: no answer within {TIMEOUT:.0f} s")


def _metadata(consumer: Consumer, topic: str, where: str) -> None:
    try:
        consumer.list_topics(topic, TIMEOUT)
    except KafkaException as error:
        raise MirrorError(f"{where} can't be read: {error.args[0].str()}") from error


def _judge(error: KafkaError, where: str) -> None:
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        raise MirrorError(f"{where}: records were removed meanwhile, by retention or somebody: run it again")
    if error.code() != KafkaError._PARTITION_EOF and not is_away(error):
        raise MirrorError(f"{where} can't be read: {error.str()}")


@cache
def _consumer(alias: str, properties: tuple[tuple[str, str], ...]) -> Consumer:
    """One for each cluster in each process: Spark uses its Python workers again."""
    return internal_consumer(Cluster(alias, dict(properties), {}, {}), "mirror-verify", reset="error")
