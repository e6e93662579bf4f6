"""The requests for offsets: those that a group has committed, and the ends of logs."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirror.wire.cursor import ITEMS_MAX, Cursor
from mirror.wire.requests import Api, Request
from mirror.wire.writer import Writer

LIST_OFFSETS = Api("ListOffsets", 2, 6, 7, flexible=6)
OFFSET_COMMIT = Api("OffsetCommit", 8, 8, 9, flexible=8)
# The last version in which a client says for how long the group's offsets are kept (see KIP-211).
OFFSET_COMMIT_KEPT = Api("OffsetCommit", 8, 4, 4, flexible=8)
OFFSET_FETCH = Api("OffsetFetch", 9, 8, 9, flexible=6)
LATEST = -1  # in place of a timestamp
_MEMBER = 9  # the first version of OffsetFetch that names a member
_OFFSET = struct.Struct(">iqi")
_LISTED = struct.Struct(">ihqqi")

Where = tuple[str, int]  # topic, partition


@dataclass(frozen=True, slots=True)
class Offset:
    """A committed offset. It is -1 if there is none; `epoch` is the leader's of the record before it."""

    offset: int
    metadata: str
    epoch: int = -1


def offset_commit(group: str, offsets: Mapping[Where, Offset]) -> Request[Mapping[Where, int]]:
    """Commit offsets of a group without members. The answer: an error code for each."""

    def write(writer: Writer) -> None:
        writer.string(group).pack("i", -1).string("").string(None)
        writer.array(offsets.items(), write_offset).tags()

    return Request(OFFSET_COMMIT, write, read_committed, asked=len(offsets))


def offset_commit_kept(group: str, offsets: Mapping[Where, Offset], seconds: float) -> Request[Mapping[Where, int]]:
    """Commit offsets of a group without members, and have them kept for so long, whatever group it is.

    Kafka still does that, up to 4.2 at least (OffsetExpirationConditionImpl). This version has no leader epochs.
    """

    def write_partition(writer: Writer, item: tuple[int, Offset]) -> None:
        partition, committed = item
        writer.pack("iq", partition, committed.offset).string(committed.metadata)

    def write_topic(writer: Writer, item: tuple[Where, Offset]) -> None:
        (topic, partition), committed = item
        writer.string(topic).array(((partition, committed),), write_partition)

    def write(writer: Writer) -> None:
        writer.string(group).pack("i", -1).string("").pack("q", round(1_000 * seconds))
        writer.array(offsets.items(), write_topic)

    return Request(OFFSET_COMMIT_KEPT, write, read_committed, asked=len(offsets))


def write_offset(writer: Writer, item: tuple[Where, Offset]) -> None:
    """Write an offset under its topic and partition."""
    (topic, partition), committed = item
    writer.string(topic).array(((partition, committed),), _write_partition).tags()


def _write_partition(writer: Writer, item: tuple[int, Offset]) -> None:
    partition, committed = item
    writer.pack("iqi", partition, committed.offset, committed.epoch).string(committed.metadata).tags()


def read_committed(answer: Cursor) -> Mapping[Where, int]:
    """An error code for each offset that was to be committed."""
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


def offset_fetch(group: str, wanted: Sequence[Where] | None, stable: bool = True) -> Request[Offsets]:
    """Ask for a group's offsets; None: for all that it has, in topics that we may describe.

    With `stable`, those that a transaction still holds have UNSTABLE_OFFSET_COMMIT (KIP-447). Of all that a group has,
    one that only a transaction holds is left out.
    """

    def write_group(writer: Writer, name: str) -> None:
        writer.string(name)
        if writer.version >= _MEMBER:
            writer.string(None).pack("i", -1)
        writer.array(wanted, _write_where).tags()

    def write(writer: Writer) -> None:
        writer.array((group,), write_group).pack("b", stable).tags()

    return Request(OFFSET_FETCH, write, _offsets, asked=ITEMS_MAX if wanted is None else len(wanted))


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


def list_offsets(topic: str, partition: int, epoch: int, stable: bool, at: int = LATEST) -> Request[tuple[int, int]]:
    """Ask a partition's leader of this epoch for an offset: an error code and the offset.

    The latest is the last stable offset if `stable`, else the high watermark.
    """

    def write(writer: Writer) -> None:
        writer.pack("ib", -1, stable).array((topic,), write_topic).tags()

    def write_topic(writer: Writer, name: str) -> None:
        writer.string(name).array((partition,), lambda each, number: each.pack("iiq", number, epoch, at).tags()).tags()

    def read(answer: Cursor) -> tuple[int, int]:
        answer.throttle()
        found = {(name, number): each for name, (number, *each) in answer.by_topic(_listed, 26)}
        answer.tags()
        error, offset = found.get((topic, partition), (-1, -1))
        return error, offset

    return Request(LIST_OFFSETS, write, read)


def _listed(answer: Cursor) -> tuple[int, int, int]:
    partition, error, _, offset, _ = answer.unpack(_LISTED)
    answer.tags()
    return partition, error, offset
