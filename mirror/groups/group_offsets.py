"""Reads the offsets of consumer groups that mirror is no member of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, TopicPartition

from mirror.errors import ClusterAway, PartitionError
from mirror.kafka.clients import group_reader, is_away
from mirror.model import Partition
from mirror.settings import Cluster

REQUEST_TIMEOUT = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset, with the metadata that a consumer gave it."""

    offset: int
    metadata: str


def offsets_of(
    cluster: Cluster, group: str, names: Mapping[Partition, tuple[str, int]]
) -> tuple[dict[Partition, Committed], dict[Partition, str]]:
    """The committed offsets of a group, and why those of some partitions are not known.

    `names` has the topic partitions of this cluster by source partition. It does not wait for offsets in transactions
    that have not ended, because a transaction may hang. Raises ClusterAway or PartitionError.
    """
    if not names:
        return {}, {}
    with closing(group_reader(cluster, group, "read_uncommitted")) as reader:
        found = _asked(cluster, group, reader, [TopicPartition(*name) for name in names.values()])
    at = {(each.topic, each.partition): each for each in found}
    known = {p: at[name] for p, name in names.items() if name in at}
    failed = {p: f"no offset of group {group}: {each.error.str()}" for p, each in known.items() if each.error}
    good = {p: each for p, each in known.items() if not each.error and each.offset >= 0}
    return {p: Committed(each.offset, each.metadata or "") for p, each in good.items()}, failed


def _asked(cluster: Cluster, group: str, reader: Consumer, asked: list[TopicPartition]) -> Sequence[TopicPartition]:
    try:
        return list(reader.committed(asked, REQUEST_TIMEOUT))
    except KafkaException as error:
        cause = error.args[0]
    text = f"no offsets of group {group}: {cause.str()}"
    raise ClusterAway(cluster.alias, text) if is_away(cause) else PartitionError(text)
