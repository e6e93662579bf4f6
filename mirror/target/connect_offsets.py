"""What MirrorMaker 2 records: its positions on Connect's offsets topic, and its offset syncs. Pure.

A position's key is `["<connector>",{"cluster":"primary","partition":0,"topic":"orders"}]` and its value `{"offset":41}`
(MirrorUtils.wrapPartition and wrapOffset). The offset is that of the last record that was copied:
MirrorSourceTask.loadOffset adds one to it. A tombstone takes a position back. Other connectors write to the same topic.

Connect looks for a key by its bytes (KafkaOffsetBackingStore), so `key` has to make the very bytes that Connect does.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from mirror import decode
from mirror.model import Partition
from mirror.target.offset_syncs import OffsetSync

SIZE_MAX = 2**16  # bytes of a key or a value

_PARTITION: Mapping[str, decode.Check[Any]] = {
    "cluster": decode.text,
    "topic": decode.topic_name,
    "partition": decode.partition_number,
}
_OFFSET: Mapping[str, decode.Check[Any]] = {"offset": decode.integer(0, decode.INT64_MAX - 1)}


def key(connector: str, cluster: str, partition: Partition) -> bytes:
    """The record key of a partition's position. `cluster` is the source's alias.

    Connect's JsonConverter writes the fields in the order of a Java HashMap, which is always the same for these three
    names, and without spaces.
    """
    of = {"cluster": cluster, "partition": partition.partition, "topic": partition.topic}
    return json.dumps([connector, of], separators=(",", ":"), ensure_ascii=False).encode()


def value(position: int) -> bytes | None:
    """The record value for a position, which is the next upstream offset.

    For position 0 it is a tombstone, because there is no last copied record. MirrorMaker then begins where its
    consumer's `auto.offset.reset` says, by default at the earliest record.
    """
    return b'{"offset":%d}' % (position - 1) if position > 0 else None


class Raw(NamedTuple):
    """A record of the topic, and the topic's partition that it stands in."""

    partition: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Recorded:
    """The next upstream offset of a partition, as MirrorMaker has recorded it; -1 if that can't be told.

    `problem` says why not.
    """

    position: int
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """All positions of one connector and one source cluster."""

    positions: Mapping[Partition, Recorded]
    ignored: int  # records of the connector that name no partition


def positions(records: Iterable[Raw], connector: str, cluster: str) -> Written:
    """The newest positions that this connector has recorded for the cluster with this alias."""
    newest: dict[tuple[int, bytes], Raw] = {}
    for record in records:
        if record.key is not None:
            newest[record.partition, record.key] = record
    found: dict[Partition, Recorded] = {}
    ignored = 0
    for record in newest.values():
        try:
            partition = _partition(record.key or b"", connector, cluster)
        except decode.DecodeError:
            ignored += 1
            continue
        if partition is not None and record.value is not None:
            one = _recorded(record.value)
            found[partition] = one if partition not in found else _together(found[partition], one)
    return Written(found, ignored)


def _partition(key: bytes, connector: str, cluster: str) -> Partition | None:
    """The partition in a key; None if it is another connector's or cluster's. Raises DecodeError."""
    try:
        name, of = decode.elements(decode.parsed(key, SIZE_MAX), [decode.text, _anything])
    except decode.DecodeError:  # whoever shares the topic may use keys of any form
        return None
    if name != connector:
        return None
    fields = decode.fields(of, _PARTITION)
    return Partition(fields["topic"], fields["partition"]) if fields["cluster"] == cluster else None


def _anything(raw: Any) -> Any:
    return raw


def _recorded(value: bytes) -> Recorded:
    try:
        fields = decode.fields(decode.parsed(value, SIZE_MAX), _OFFSET)
    except decode.DecodeError as error:
        return Recorded(-1, f"what MirrorMaker has recorded can't be decoded: {error}")
    return Recorded(fields["offset"] + 1)


def _together(first: Recorded, second: Recorded) -> Recorded:
    """Combine two keys that name the same partition. MirrorMaker may read either, so they have to be equal."""
    if first == second:
        return first
    places = " and ".join(each.problem or str(each.position) for each in (first, second))
    return Recorded(-1, f"MirrorMaker has recorded it under several keys, which differ: {places}")


class Sync(NamedTuple):
    """The source's record `upstream` is the remote partition's record `downstream`."""

    upstream: int
    downstream: int


def syncs(records: Iterable[Raw]) -> dict[Partition, Sync]:
    """The newest offset sync of each partition. Records that are no offset syncs are ignored."""
    found: dict[Partition, Sync] = {}
    for record in records:
        try:
            sync = OffsetSync.decode(record.key or b"", record.value or b"")
            partition = Partition(decode.topic_name(sync.topic), decode.partition_number(sync.partition))
        except (struct.error, ValueError):  # also DecodeError and UnicodeDecodeError
            continue
        if sync.upstream >= 0 <= sync.downstream:
            found[partition] = Sync(sync.upstream, sync.downstream)
    return found
