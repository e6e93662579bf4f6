"""Reads a stretch of a partition as read_committed consumers see it, and makes digests of its records.

It runs inside Spark tasks. A chunk ends after a record whose digest begins with ten zero bits. So the same records
make the same chunks on both clusters, wherever a stretch begins and whatever is missing before it, and chunks can be
compared without matching offsets.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from types import MappingProxyType
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from mirror.commands.verify.record_reader import OldFormat, RecordReader, Removed
from mirror.errors import MirrorError, NotComparable, WireError
from mirror.kafka.clients import internal_consumer
from mirror.kafka.credentials import properties_of
from mirror.model import Partition
from mirror.records.consumed import Record, consumed, removed
from mirror.records.shared_topics import Shared
from mirror.records.transformed import transformed
from mirror.settings import Cluster

DIGEST = 16  # bytes; the chance that two of a billion different records have the same one is 1 in 10**20
BOUNDARY = b"\x00\x40"  # a digest below it ends a chunk: one record in 1,024 does
# Beyond these limits chunks are not by chance. Every task would read on to the end of the log, or memory would fill.
RECORDS_MAX = 5_000_000  # records without a boundary
CHUNKS_MIN, RECORDS_MIN = 1_000, 100  # chunks of a stretch, and how many records each one beyond these must have
START_WITHIN = 10.0  # seconds for an answer where a log begins

_TIMESTAMP = struct.Struct(">Q")
_64_BITS = 2**64 - 1

Properties = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of one partition of the cluster with this alias, by offsets.

    Its chunks begin after the first boundary from `start` on, or at `start` itself if it is the `first` stretch. They
    end with the first boundary from `end` on, or at `limit`. So the chunks of consecutive stretches are those of the
    whole.
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


class RecordDigest(NamedTuple):
    """One record: its offset, its digest and its timestamp (ms)."""

    offset: int
    digest: bytes
    timestamp: int


def digest(timestamp: int, content: bytes | None) -> bytes:
    """The digest of a record: of key, value, headers in their order, and timestamp. Null differs from empty.

    A record that can't be read whole (None) gets a digest that equals no other. It does not end a chunk, since a second
    reading has to find the same ends.
    """
    if content is None:
        return b"\xff" + os.urandom(DIGEST - 1)
    return blake2b(_TIMESTAMP.pack(timestamp & _64_BITS) + content, digest_size=DIGEST).digest()


def cut(records: Iterable[tuple[int, bytes]], end: int, first: bool) -> list[Chunk]:
    """Cut records, each an offset and a digest, into chunks.

    They begin after the first boundary or, if `first`, with the first record. Records are read up to the first boundary
    from the offset `end` on. Raises Uncuttable.
    """
    found: list[Chunk] = []
    start = last = -1
    within, total, since, content = first, 0, 0, _hash()
    for last, digest in records:
        if not since:
            start = last
        since += 1
        content.update(digest)
        if digest < BOUNDARY:
            if within:
                found.append(Chunk(start, last, since, content.digest()))
            within, total, since, content = True, total + since, 0, _hash()
            if len(found) > CHUNKS_MIN + total // RECORDS_MIN:
                raise Uncuttable
            if last >= end:
                break
        elif since > RECORDS_MAX:
            raise Uncuttable
    if within and since:
        found.append(Chunk(start, last, since, content.digest()))
    return found


def _hash() -> blake2b:
    return blake2b(digest_size=DIGEST)


class Uncuttable(Exception):
    """The digests of these records make chunks that are far too long or too short: they are the same few, repeated."""


class Digester:
    """Makes digests of stretches of these clusters, by alias. Every method raises MirrorError if records can't be read.

    It travels to the tasks within their code, so that Spark's data and pages hold no secret. If `librdkafka`, it reads
    both sides through that library, which cuts header names at a NUL byte: cut on one side only, they would differ.

    It reads committed records; with `stable` False, also those of aborted and open transactions. With `shared` it reads
    only those that one flow copies, or has copied. `transforms` has the dotted paths of transforms, by alias and topic:
    the digests of their topics are of what the transforms return.
    """

    def __init__(
        self,
        clusters: Mapping[str, Cluster],
        librdkafka: bool = False,
        stable: bool = True,
        shared: Shared | None = None,
        transforms: Mapping[tuple[str, str], str] = MappingProxyType({}),
    ) -> None:
        self._clusters = clusters
        self._shared = shared
        self._transforms = dict(transforms)
        self._librdkafka = librdkafka
        self._stable = stable

    def chunks(self, stretch: Stretch) -> list[Chunk]:
        """The chunks of a stretch. Raises NotComparable if its records make none."""
        read = self._read(stretch, stretch.limit)
        digests = ((offset, digest(at, content)) for offset, at, content in read)
        try:
            return cut(digests, stretch.end, stretch.first)
        except Uncuttable as error:
            raise NotComparable(
                f"{stretch.topic}-{stretch.partition} on {stretch.cluster} is not comparable: after offset "
                f"{stretch.start} the same records, timestamp included, are repeated too often"
            ) from error

    def entries(self, stretch: Stretch) -> list[RecordDigest]:
        """Each record of a stretch from `start` up to `end`."""
        return [_entry(record) for record in self._read(stretch, stretch.end)]

    def entries_with(self, wanted: frozenset[bytes], stretch: Stretch) -> list[RecordDigest]:
        """The last record of a stretch with each of these digests."""
        entries = map(_entry, self._read(stretch, stretch.end))
        return list({entry.digest: entry for entry in entries if entry.digest in wanted}.values())

    def start(self, stretch: Stretch) -> int:
        """The first offset that the log of a stretch has now."""
        cluster = self._clusters[stretch.cluster]
        consumer = _consumer(cluster.alias, _properties(cluster), self._stable)
        where = Partition(stretch.topic, stretch.partition)
        try:
            first, _ = consumer.get_watermark_offsets(TopicPartition(*where), START_WITHIN)
        except KafkaException as error:
            raise MirrorError(f"{where} on {cluster.alias} can't be read: {error.args[0].str()}") from error
        return int(first)

    def _read(self, stretch: Stretch, stop: int) -> Iterator[Record]:
        found, at = self._all(stretch, stop), (stretch.topic, stretch.partition)
        if self._shared is not None:
            found = self._shared.own(stretch.cluster, *at, found)
        path = self._transforms.get((stretch.cluster, stretch.topic))
        return found if path is None else transformed(path, *at, found)

    def _all(self, stretch: Stretch, stop: int) -> Iterator[Record]:
        cluster = self._clusters[stretch.cluster]
        properties = _properties(cluster)
        if self._librdkafka:
            return _through_librdkafka(cluster.alias, properties, self._stable, stretch, stop)
        return _whole(cluster.alias, properties, self._stable, stretch, stop)


def _properties(cluster: Cluster) -> Properties:
    return tuple(sorted(properties_of(cluster).items()))


def _entry(record: Record) -> RecordDigest:
    offset, timestamp, content = record
    return RecordDigest(offset, digest(timestamp, content), timestamp)


def _whole(alias: str, properties: Properties, stable: bool, stretch: Stretch, stop: int) -> Iterator[Record]:
    """Read the records from the stretch's start up to the offset `stop`, which is at most the last stable offset.

    Records of the old formats are read through librdkafka: they have no headers that it could cut.
    """
    reader = _reader(properties, stable)
    where = f"{stretch.topic}-{stretch.partition} on {stretch.cluster}"
    position = stretch.start
    while position < stop:
        try:
            yield from reader.read(stretch.topic, stretch.partition, position, stop)
            return
        except OldFormat as found:
            old = replace(stretch, start=found.first)
            position = found.last + 1
        except Removed as error:
            raise removed(where) from error
        except WireError as error:
            raise MirrorError(f"{where} can't be read: {error}") from error
        yield from _through_librdkafka(alias, properties, stable, old, min(position, stop))


@cache
def _reader(properties: Properties, stable: bool) -> RecordReader:
    """One client for each cluster and process, since Spark uses its Python workers again."""
    return RecordReader(dict(properties), stable)


def _through_librdkafka(
    alias: str, properties: Properties, stable: bool, stretch: Stretch, stop: int
) -> Iterator[Record]:
    where = Partition(stretch.topic, stretch.partition)
    return consumed(_consumer(alias, properties, stable), alias, where, stretch.start, stop)


@cache
def _consumer(alias: str, properties: Properties, stable: bool) -> Consumer:
    """One client for each cluster and process, since Spark uses its Python workers again."""
    return internal_consumer(Cluster(alias, dict(properties), {}, {}), "mirror-verify", reset="error", stable=stable)
