"""The request that writes record batches."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirror.text import said
from mirror.wire.access import Address
from mirror.wire.cursor import Cursor
from mirror.wire.fetch import TopicKey, read_leader
from mirror.wire.metadata import Leader, read_endpoints
from mirror.wire.requests import Api, Request
from mirror.wire.writer import Writer

# From version 12 on it adds the partition to the transaction (KIP-890), from version 13 on topics have ids.
PRODUCE = Api("Produce", 0, 12, 13, flexible=9)
_IDS = 13
ALL, LEADER = -1, 1  # acks
TIMEOUT = 8.0  # seconds for the other replicas; less than a connection waits for an answer

_PARTITION = struct.Struct(">ihqqq")
# An answer for one partition, with topic ids, if nothing is wrong; it has nothing else of variable length.
_PLAIN = struct.Struct(">B16sBihqqqBBBBiB")
_PLAIN_LENGTHS = (2, 2, 1, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Produced:
    """An answer for one partition: an error code, and the offset of the batch's first record.

    `appended` is the time (ms) by which the broker has replaced the records' timestamps; -1: it has kept them.
    """

    partition: int
    error: int
    base: int
    message: str
    leader: Leader | None  # if the broker knows a newer one (KIP-951)
    appended: int = -1


@dataclass(frozen=True, slots=True)
class ProduceAnswer:
    """An answer to Produce: partitions, and addresses of brokers that are named in it.

    Each partition has its topic's name or id, as the version has it.
    """

    partitions: Sequence[tuple[str | bytes, Produced]]
    addresses: Mapping[int, Address]


@dataclass(frozen=True, slots=True)
class Batch:
    """One stamped record batch and its partition. A request may have only one batch for a partition."""

    topic: TopicKey
    partition: int
    data: memoryview


def produce(name: str | None, batches: Sequence[Batch], acks: int, api: Api = PRODUCE) -> Request[ProduceAnswer]:
    """Write batches, in the transaction of the transactional id `name` if there is one."""

    def write(writer: Writer) -> None:
        writer.string(name).pack("hi", acks, int(TIMEOUT * 1000)).array(batches, _write_batch).tags()

    return Request(api, write, _answer, asked=len(batches))


def _write_batch(writer: Writer, batch: Batch) -> None:
    if writer.version >= _IDS:
        writer.raw(batch.topic.id)
    else:
        writer.string(batch.topic.name)
    writer.array((batch,), _write_data).tags()


def _write_data(writer: Writer, batch: Batch) -> None:
    writer.pack("i", batch.partition).records(batch.data).tags()


def _answer(answer: Cursor) -> ProduceAnswer:
    if answer.version >= _IDS and answer.left == _PLAIN.size:
        topics, topic, partitions, number, error, base, appended, _, *rest, throttled, tags = answer.unpack(_PLAIN)
        if (topics, partitions, *rest, tags) == _PLAIN_LENGTHS:
            answer.throttled = throttled
            return ProduceAnswer([(topic, Produced(number, error, base, "", None, appended))], {})
        answer.back(_PLAIN.size)
    read = answer.by_topic_id if answer.version >= _IDS else answer.by_topic
    partitions = read(_partition, 33)
    answer.throttle()
    tags = answer.tags()
    return ProduceAnswer(partitions, read_endpoints(tags[0]) if 0 in tags else {})


def _partition(answer: Cursor) -> Produced:
    number, error, base, appended, _ = answer.unpack(_PARTITION)  # and log start
    answer.array(_refused_record, 6)
    message = said(answer.string())
    tags = answer.tags()
    leader = read_leader(tags[0]) if 0 in tags else None
    return Produced(number, error, base, message, leader, appended)


def _refused_record(answer: Cursor) -> None:
    answer.int32(), answer.string()
    answer.tags()
