"""The request for records."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirror.wire.access import Address
from mirror.wire.cursor import Cursor
from mirror.wire.metadata import Leader, read_endpoints
from mirror.wire.requests import Api, Request
from mirror.wire.writer import Writer

# Up to version 12 topics have names, from version 13 on ids; version 16 can name a new leader's address (KIP-951).
FETCH = Api("Fetch", 1, 11, 17, flexible=12, has_records=True)
_IDS, _NO_REPLICA, _ADDRESSES = 13, 15, 16
_EPOCHS = 12  # the first version that tells whether our log and the leader's have parted

_HEAD = struct.Struct(">hi")
_PARTITION = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")
_DIVERGING, _LEADER = 0, 1  # tags


@dataclass(frozen=True, slots=True)
class TopicKey:
    """A topic's name, and its id for versions that have ids."""

    name: str
    id: bytes


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of a partition. `epoch` is the leader's, and `fetched` that of the last batch before `offset`."""

    partition: int
    offset: int
    most: int  # bytes; a batch that is larger comes alone
    epoch: int = -1
    fetched: int = -1


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a broker may wait for how many bytes, and how many bytes and partitions an answer may have."""

    wait: float  # seconds
    most: int  # bytes
    least: int = 1  # bytes
    partitions: int = 1


@dataclass(frozen=True, slots=True)
class Session:
    """A fetch session (KIP-227). Without one, each request stands for itself."""

    id: int = 0
    epoch: int = -1


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """An answer for one partition."""

    partition: int
    error: int
    stable: int  # the last stable offset
    aborted: Sequence[tuple[int, int]]  # producer id, first offset
    records: memoryview
    diverging: tuple[int, int] | None  # the epoch and the offset up to which our log and the leader's are the same
    leader: Leader | None  # if the broker knows a newer one
    preferred: int  # the replica that is nearer to us (KIP-392); -1 if there is none
    high: int  # the high watermark


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """An answer to Fetch: an error code or partitions, and addresses of brokers that are named in it.

    Each partition has its topic's name or id, as the version has it. All records are parts of `size` bytes.
    """

    error: int
    session: int
    partitions: Sequence[tuple[str | bytes, PartitionAnswer]]
    addresses: Mapping[int, Address]
    size: int
    throttled: bool  # then Kafka leaves out all partitions


def fetch(
    topics: Mapping[TopicKey, Sequence[Wanted]],
    limits: Limits,
    session: Session = Session(),
    forgotten: Mapping[TopicKey, Sequence[int]] | None = None,
    stable: bool = True,
    rack: str = "",
) -> Request[FetchAnswer]:
    """Ask for records.

    An answer has about `limits.most` bytes, and at least one whole batch. If `stable`, it ends with the last stable
    offset, and says what was aborted. In a session, only what has changed is asked for.
    """

    def write(writer: Writer) -> None:
        if writer.version < _NO_REPLICA:
            writer.pack("i", -1)
        wait = int(limits.wait * 1000)
        writer.pack("iiibii", wait, limits.least, limits.most, stable, session.id, session.epoch)
        writer.array(topics.items(), _write_topic)
        writer.array((forgotten or {}).items(), _write_forgotten)
        writer.string(rack).tags()

    return Request(FETCH, write, _answer, limits.wait, limits.most, limits.partitions)


def _write_topic(writer: Writer, item: tuple[TopicKey, Sequence[Wanted]]) -> None:
    topic, partitions = item
    _write_key(writer, topic)
    writer.array(partitions, _write_partition).tags()


def _write_key(writer: Writer, topic: TopicKey) -> None:
    if writer.version >= _IDS:
        writer.raw(topic.id)
    else:
        writer.string(topic.name)


def _write_partition(writer: Writer, wanted: Wanted) -> None:
    writer.pack("iiq", wanted.partition, wanted.epoch, wanted.offset)
    if writer.version >= _EPOCHS:
        writer.pack("i", wanted.fetched)
    writer.pack("qi", -1, wanted.most).tags()


def _write_forgotten(writer: Writer, item: tuple[TopicKey, Sequence[int]]) -> None:
    topic, partitions = item
    _write_key(writer, topic)
    writer.array(partitions, lambda each, partition: each.pack("i", partition)).tags()


def _answer(answer: Cursor) -> FetchAnswer:
    answer.throttle()
    error, session = answer.unpack(_HEAD)
    read = answer.by_topic_id if answer.version >= _IDS else answer.by_topic
    partitions = read(_partition, 37)
    tags = answer.tags()
    addresses = read_endpoints(tags[0]) if 0 in tags and answer.version >= _ADDRESSES else {}
    return FetchAnswer(error, session, partitions, addresses, answer.size, answer.throttled > 0)


def _partition(answer: Cursor) -> PartitionAnswer:
    number, error, high, stable, _ = answer.unpack(_PARTITION)
    aborted = answer.array(_aborted, _ABORTED.size)
    preferred, records = answer.int32(), answer.bytes()
    tags = answer.tags()
    diverging = (tags[_DIVERGING].int32(), tags[_DIVERGING].int64()) if _DIVERGING in tags else None
    leader = read_leader(tags[_LEADER]) if _LEADER in tags else None
    return PartitionAnswer(number, error, stable, aborted, records, diverging, leader, preferred, high)


def _aborted(answer: Cursor) -> tuple[int, int]:
    producer, first = answer.unpack(_ABORTED)
    answer.tags()
    return producer, first


def read_leader(answer: Cursor) -> Leader:
    """A leader that a broker names beside an error (KIP-951)."""
    return Leader(answer.int32(), answer.int32())
