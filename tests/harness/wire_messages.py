"""Requests that only proofs make, in Kafka's protocol. Each names one topic and its partition 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mirror.wire.cursor import Cursor
from mirror.wire.requests import Api, Request
from mirror.wire.transactional import Identity
from mirror.wire.writer import Writer

# As clients did before transactions version 2, in versions that record it so.
ADD_PARTITIONS = Api("AddPartitionsToTxn", 24, 1, 1, flexible=3)
ADD_OFFSETS = Api("AddOffsetsToTxn", 25, 1, 1, flexible=3)
CREATE_ACLS = Api("CreateAcls", 30, 1, 1, flexible=2)
REASSIGN = Api("AlterPartitionReassignments", 45, 0, 0, flexible=0)
DESCRIBE_PRODUCERS = Api("DescribeProducers", 61, 0, 0, flexible=0)


def add_partition(by: Identity, topic: str) -> Request[int]:
    """Add the partition to the transaction. The answer: an error code."""

    def write(writer: Writer) -> None:
        writer.string(by.name).pack("qh", by.producer, by.epoch)
        writer.array((topic,), lambda each, name: each.string(name).array((0,), _number))

    return Request(ADD_PARTITIONS, write, _added)


def add_offsets(by: Identity, group: str) -> Request[int]:
    """Add the group's offsets to the transaction. The answer: an error code."""

    def read(answer: Cursor) -> int:
        answer.throttle()
        return answer.int16()

    return Request(
        ADD_OFFSETS, lambda writer: writer.string(by.name).pack("qh", by.producer, by.epoch).string(group), read
    )


def allow(topic: str, principal: str, operation: int) -> Request[int]:
    """Create an ACL that allows an operation, by number: librdkafka does not know all. The answer: an error code."""

    def one(writer: Writer, _: object) -> None:
        writer.pack("b", 2).string(topic).pack("b", 3).string(principal).string("*").pack("bb", operation, 3)

    def read(answer: Cursor) -> int:
        answer.throttle()
        (error,) = answer.array(lambda each: (each.int16(), each.string())[0], 4)
        return error

    return Request(CREATE_ACLS, lambda writer: writer.array((topic,), one), read)


def reassign(topic: str, replicas: Sequence[int]) -> Request[int]:
    """Give the partition other replicas. The answer: an error code; it takes a while."""

    def write(writer: Writer) -> None:
        writer.pack("i", 30_000)
        _of_partition(writer, topic, lambda each: each.pack("i", 0).array(replicas, _number).tags())

    def read(answer: Cursor) -> int:
        answer.throttle()
        error, _ = answer.int16(), answer.string()
        found = answer.array(_reassigned, 3)
        answer.tags()
        return error or next((each for each in found if each), 0)

    return Request(REASSIGN, write, read)


def _reassigned(answer: Cursor) -> int:
    answer.string()
    (error,) = answer.array(_reassigned_partition, 8)
    answer.tags()
    return error


def _reassigned_partition(answer: Cursor) -> int:
    _, error, _ = answer.int32(), answer.int16(), answer.string()
    answer.tags()
    return error


def describe_producers(topic: str) -> Request[tuple[int, set[int]]]:
    """Ask for the producers of which a replica has a state. The answer: an error code, and their ids."""

    def read(answer: Cursor) -> tuple[int, set[int]]:
        answer.throttle()
        (found,) = answer.array(_described, 3)
        answer.tags()
        return found

    def write(writer: Writer) -> None:
        writer.array((topic,), lambda each, name: each.string(name).array((0,), _number).tags()).tags()

    return Request(DESCRIBE_PRODUCERS, write, read)


def _of_partition(writer: Writer, topic: str, partition: Callable[[Writer], object]) -> None:
    writer.array((topic,), lambda each, name: each.string(name).array((0,), lambda one, _: partition(one)).tags())
    writer.tags()


def _number(writer: Writer, number: int) -> None:
    writer.pack("i", number)


def _added(answer: Cursor) -> int:
    answer.throttle()
    (error,) = answer.array(_added_topic, 6)
    return error


def _added_topic(answer: Cursor) -> int:
    answer.string()
    (error,) = answer.array(lambda each: (each.int32(), each.int16())[1], 6)
    return error


def _described(answer: Cursor) -> tuple[int, set[int]]:
    answer.string()
    (found,) = answer.array(_described_partition, 8)
    answer.tags()
    return found


def _described_partition(answer: Cursor) -> tuple[int, set[int]]:
    _, error, _ = answer.int32(), answer.int16(), answer.string()
    known = answer.array(_producer, 37)
    answer.tags()
    return error, set(known)


def _producer(answer: Cursor) -> int:
    producer = answer.int64()
    answer.int32(), answer.int32(), answer.int64(), answer.int32(), answer.int64()
    answer.tags()
    return producer
