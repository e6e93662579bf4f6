"""The requests that say where things are: topics and their leaders, and coordinators."""

from __future__ import annotations

import base64
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mirror.errors import Malformed
from mirror.wire.access import Address
from mirror.wire.cursor import Cursor
from mirror.wire.requests import Api, Request
from mirror.wire.writer import Writer

# Before version 7 it has no leader epochs, before version 10 no topic ids.
METADATA = Api("Metadata", 3, 8, 12, flexible=9)
METADATA_BY_ID = Api("Metadata", 3, 12, 12, flexible=9)  # from Kafka 3.1 on
FIND_COORDINATOR = Api("FindCoordinator", 10, 4, 6, flexible=3)

GROUP, TRANSACTION = 0, 1  # kinds of coordinators
NO_ID = bytes(16)
# More than any cluster has. Each broker of an answer may be connected to, and each partition is remembered.
BROKERS_MAX, PARTITIONS_MAX = 10_000, 2**17
HOST_MAX = 255  # characters (RFC 1035)
_IDS = 10  # the first version with topic ids
_JAVA = str.maketrans("-_", "+/")
_FOUR = struct.Struct(">hiii")


def id_of(text: str) -> bytes:
    """A topic's id, from the text that librdkafka or Java makes of it; NO_ID for "". Raises Malformed."""
    try:
        found = base64.b64decode(text.translate(_JAVA) + "==", validate=True) if text else NO_ID
    except ValueError:
        found = b""
    if len(found) != len(NO_ID):
        raise Malformed(f"{text!r} is no topic id")
    return found


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of a partition: its node id and its epoch, or an error code and a node id of -1 if it has none."""

    node: int
    epoch: int
    error: int = 0


@dataclass(frozen=True, slots=True)
class DescribedTopic:
    """A topic as a broker describes it, with the leader and the replicas (node ids) of each partition.

    `id` is NO_ID for brokers before Kafka 2.8.
    """

    error: int
    id: bytes
    leaders: Mapping[int, Leader]
    replicas: Mapping[int, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Described:
    """An answer to Metadata: the brokers by node id, and the topics by name."""

    brokers: Mapping[int, Address]
    topics: Mapping[str, DescribedTopic]


def metadata(topics: Collection[str]) -> Request[Described]:
    """Ask for these topics and all brokers, without creating anything."""

    def write(writer: Writer) -> None:
        writer.array(sorted(topics), _write_topic).pack("b", 0)
        if writer.version <= _IDS:
            writer.pack("b", 0)  # no operations on the cluster
        writer.pack("b", 0).tags()

    return Request(METADATA, write, _described, asked=len(topics))


def metadata_by_id(ids: Collection[bytes]) -> Request[Mapping[bytes, int]]:
    """Ask for topics by their ids: an error code for each. A topic that we may not see has another one than none."""

    def write(writer: Writer) -> None:
        writer.array(sorted(ids), lambda each, topic: each.raw(topic).string(None).tags()).pack("bb", 0, 0).tags()

    return Request(METADATA_BY_ID, write, _errors_by_id, asked=len(ids))


def _errors_by_id(answer: Cursor) -> Mapping[bytes, int]:
    _, topics = _read(answer)
    return {topic.id: topic.error for _, topic in topics}


def _write_topic(writer: Writer, name: str) -> None:
    if writer.version >= _IDS:
        writer.raw(NO_ID)
    writer.string(name).tags()


def _described(answer: Cursor) -> Described:
    brokers, topics = _read(answer)
    return Described(brokers, dict(topics))


def _read(answer: Cursor) -> tuple[dict[int, Address], list[tuple[str, DescribedTopic]]]:
    """The brokers and the topics of an answer. A topic that was asked for by its id may have no name."""
    answer.throttle()
    brokers = read_endpoints(answer)
    answer.string(), answer.int32()  # cluster id, controller
    topics = answer.array(_topic, 8, answer.asked)
    if answer.version <= _IDS:
        answer.int32()
    answer.tags()
    return brokers, topics


def read_endpoints(answer: Cursor) -> dict[int, Address]:
    """Brokers by node id."""
    return dict(answer.array(_endpoint, 11, BROKERS_MAX))


def _endpoint(answer: Cursor) -> tuple[int, Address]:
    node = answer.int32()
    address = _address(answer)
    answer.string()  # rack
    answer.tags()
    return node, address


def _address(answer: Cursor) -> Address:
    return _checked(answer.string(), answer.int32())


def _checked(host: str, port: int) -> Address:
    """The address. Its host comes into logs, and is looked up."""
    if not 0 < len(host) <= HOST_MAX or not host.isprintable() or " " in host:
        raise Malformed("a broker has no host" if not host else "a broker's host can't be one")
    if not 0 < port < 2**16:
        raise Malformed(f"a broker has port {port}")
    return host, port


def _topic(answer: Cursor) -> tuple[str, DescribedTopic]:
    error, name = answer.int16(), answer.string()
    topic_id = answer.uuid() if answer.version >= _IDS else NO_ID
    answer.int8()
    partitions = answer.array(_partition, 17, PARTITIONS_MAX)
    answer.int32()
    answer.tags()
    leaders = {number: leader for number, leader, _ in partitions}
    return name, DescribedTopic(error, topic_id, leaders, {number: replicas for number, _, replicas in partitions})


def _partition(answer: Cursor) -> tuple[int, Leader, Sequence[int]]:
    error, number, node, epoch = answer.unpack(_FOUR)
    if not 0 <= number < PARTITIONS_MAX:
        raise Malformed(f"a topic has a partition {number}")
    replicas, *_ = (answer.int32s() for _ in ("replicas", "in sync", "offline"))
    answer.tags()
    return number, Leader(node, epoch, error), replicas


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The node that coordinates a group or a transactional id, or an error code."""

    node: int
    address: Address
    error: int


def find_coordinators(kind: int, names: Collection[str]) -> Request[Mapping[str, Coordinator]]:
    """Ask who coordinates these groups, or these transactional ids."""
    some = sorted(names)
    return Request(
        FIND_COORDINATOR,
        lambda writer: writer.pack("b", kind).array(some, Writer.string).tags(),
        _coordinators,
        asked=len(some),
    )


def _coordinators(answer: Cursor) -> Mapping[str, Coordinator]:
    answer.throttle()
    found = dict(answer.array(_coordinator, 13, answer.asked))
    answer.tags()
    return found


def _coordinator(answer: Cursor) -> tuple[str, Coordinator]:
    name, node, host, port = answer.string(), answer.int32(), answer.string(), answer.int32()
    error, _ = answer.int16(), answer.string()
    answer.tags()
    return name, Coordinator(node, (host, port) if error else _checked(host, port), error)
