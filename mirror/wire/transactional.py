"""The requests of a transaction: who writes it, the position that goes with it, and its end."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirror.wire.cursor import Cursor
from mirror.wire.requests import Api, Request
from mirror.wire.writer import Writer

INIT_PRODUCER_ID = Api("InitProducerId", 22, 3, 5, flexible=2)
# The versions of transactions version 2 (KIP-890): a position adds itself, and an end gives the next epoch.
TXN_OFFSET_COMMIT = Api("TxnOffsetCommit", 28, 5, 5, flexible=3)
END_TXN = Api("EndTxn", 26, 5, 5, flexible=3)
OFFSET_COMMIT = Api("OffsetCommit", 8, 8, 9, flexible=8)
OFFSET_FETCH = Api("OffsetFetch", 9, 8, 9, flexible=6)
_NEXT_EPOCH = 5  # the first version of EndTxn that gives it
_OFFSET = struct.Struct(">iqi")
_MEMBER = 9  # the first version of OffsetFetch that names a member

Where = tuple[str, int]  # topic, partition


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom the transaction coordinator has let in: transactional id, producer id and epoch."""

    name: str
    producer: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Offset:
    """A committed offset. It is -1 if there is none; `epoch` is the leader's of the record before it."""

    offset: int
    metadata: str
    epoch: int = -1


@dataclass(frozen=True, slots=True)
class Entered:
    """An answer that names a producer: an error code, producer id and epoch."""

    error: int
    producer: int
    epoch: int


def init_producer_id(name: str, timeout: float) -> Request[Entered]:
    """Fence whoever has this transactional id, and end its transaction. `timeout` (s) is that of the next ones."""

    def write(writer: Writer) -> None:
        writer.string(name).pack("iqh", int(timeout * 1000), -1, -1).tags()

    return Request(INIT_PRODUCER_ID, write, _entered)


def end_txn(by: Identity, commit: bool, api: Api = END_TXN) -> Request[Entered]:
    """End the transaction. The answer has the producer and the epoch of the next one."""

    def write(writer: Writer) -> None:
        writer.string(by.name).pack("qhb", by.producer, by.epoch, commit).tags()

    return Request(api, write, _ended)


def _entered(answer: Cursor) -> Entered:
    answer.throttle()
    found = Entered(answer.int16(), answer.int64(), answer.int16())
    answer.tags()
    return found


def _ended(answer: Cursor) -> Entered:
    if answer.version >= _NEXT_EPOCH:
        return _entered(answer)
    answer.throttle()
    error = answer.int16()
    answer.tags()
    return Entered(error, -1, -1)


def txn_offset_commit(
    by: Identity, group: str, offsets: Mapping[Where, Offset], api: Api = TXN_OFFSET_COMMIT
) -> Request[Mapping[Where, int]]:
    """Commit offsets with the transaction. The answer: an error code for each."""

    def write(writer: Writer) -> None:
        writer.string(by.name).string(group).pack("qhi", by.producer, by.epoch, -1).string("").string(None)
        writer.array(offsets.items(), _write_offset).tags()

    return Request(api, write, _committed)


def offset_commit(group: str, offsets: Mapping[Where, Offset]) -> Request[Mapping[Where, int]]:
    """Commit offsets of a group without members. The answer: an error code for each."""

    def write(writer: Writer) -> None:
        writer.string(group).pack("i", -1).string("").string(None)
        writer.array(offsets.items(), _write_offset).tags()

    return Request(OFFSET_COMMIT, write, _committed)


def _write_offset(writer: Writer, item: tuple[Where, Offset]) -> None:
    (topic, partition), committed = item
    writer.string(topic).array(((partition, committed),), _write_partition).tags()


def _write_partition(writer: Writer, item: tuple[int, Offset]) -> None:
    partition, committed = item
    writer.pack("iqi", partition, committed.offset, committed.epoch).string(committed.metadata).tags()


def _committed(answer: Cursor) -> Mapping[Where, int]:
    answer.throttle()
    found = answer.by_topic(_committed_partition, 6)
    answer.tags()
    return {(topic, partition): error for topic, (partition, error) in found}


def _committed_partition(answer: Cursor) -> tuple[int, int]:
    partition, error = answer.int32(), answer.int16()
    answer.tags()
    return partition, error


@dataclass(frozen=True, slots=True)
class Offsets:
    """An answer to OffsetFetch: the group's error code, and for each partition an error code and the offset."""

    error: int
    found: Mapping[Where, tuple[int, Offset]]


def offset_fetch(group: str, wanted: Sequence[Where]) -> Request[Offsets]:
    """Ask for a group's offsets. Those that a transaction still holds have UNSTABLE_OFFSET_COMMIT (KIP-447)."""

    def write_group(writer: Writer, name: str) -> None:
        writer.string(name)
        if writer.version >= _MEMBER:
            writer.string(None).pack("i", -1)
        writer.array(wanted, _write_where).tags()

    def write(writer: Writer) -> None:
        writer.array((group,), write_group).pack("b", 1).tags()

    return Request(OFFSET_FETCH, write, _offsets)


def _write_where(writer: Writer, where: Where) -> None:
    topic, partition = where
    writer.string(topic).array((partition,), lambda each, number: each.pack("i", number)).tags()


def _offsets(answer: Cursor) -> Offsets:
    answer.throttle()
    groups = answer.array(_group, 5)
    answer.tags()
    return groups[0] if len(groups) == 1 else Offsets(-1, {})


def _group(answer: Cursor) -> Offsets:
    answer.string()
    topics = answer.by_topic(_offset, 20)
    error = answer.int16()
    answer.tags()
    return Offsets(error, {(topic, partition): (failed, found) for topic, (partition, failed, found) in topics})


def _offset(answer: Cursor) -> tuple[int, int, Offset]:
    partition, offset, epoch = answer.unpack(_OFFSET)
    metadata, error = answer.string(), answer.int16()
    answer.tags()
    return partition, error, Offset(offset, metadata, epoch)
