"""Asks which transactions are open on a partition (DescribeProducers, KIP-664), which librdkafka can't."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from mirror.errors import Refused
from mirror.wire.cluster import Cluster
from mirror.wire.cursor import Cursor
from mirror.wire.error_codes import name_of
from mirror.wire.requests import Api, Request
from mirror.wire.writer import Writer

DESCRIBE_PRODUCERS = Api("DescribeProducers", 61, 0, 0, flexible=0)
_PARTITION = struct.Struct(">ih")
_PRODUCER = struct.Struct(">qiiqiq")
_LEAST = _PRODUCER.size + 1  # bytes of a producer


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open on a partition: who writes it, and the offset of its first record."""

    producer_id: int
    producer_epoch: int
    start: int


@dataclass(frozen=True, slots=True)
class Described:
    """An error code, and the transactions that are open on a partition."""

    error: int
    found: list[OpenTransaction]


async def open_transactions(cluster: Cluster, topic: str, partition: int) -> list[OpenTransaction]:
    """The transactions that are open on a partition now. Raises WireError; Refused without Read on the topic."""
    leader = await cluster.leader(topic, partition)
    connection = await cluster.connection(leader.node)
    described = await connection.ask(describe_producers(topic, partition))
    if described.error:
        raise Refused(f"{DESCRIBE_PRODUCERS.name} was answered with {name_of(described.error)}", described.error)
    return described.found


def describe_producers(topic: str, partition: int) -> Request[Described]:
    """Ask a partition's leader for the producers that it knows there."""

    def write(writer: Writer) -> None:
        writer.array((topic,), write_topic).tags()

    def write_topic(writer: Writer, name: str) -> None:
        writer.string(name).array((partition,), lambda each, number: each.pack("i", number)).tags()

    def read(answer: Cursor) -> Described:
        answer.throttle()
        described = dict(answer.by_topic(_partition, 9))
        answer.tags()
        return described.get(topic, Described(-1, []))

    return Request(DESCRIBE_PRODUCERS, write, read)


def _partition(answer: Cursor) -> Described:
    _, error = answer.unpack(_PARTITION)
    answer.string()  # the error in words
    producers = answer.array(_producer, _LEAST)
    answer.tags()
    return Described(error, [each for each in producers if each.start >= 0])


def _producer(answer: Cursor) -> OpenTransaction:
    producer_id, epoch, _, _, _, start = answer.unpack(_PRODUCER)
    answer.tags()
    return OpenTransaction(producer_id, epoch, start)
