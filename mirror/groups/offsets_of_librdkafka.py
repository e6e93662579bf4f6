"""Reads offsets of consumer groups with librdkafka, for clusters that mirror's own client can't use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from mirror.errors import ClusterAway, PartitionError
from mirror.groups.position_groups import is_position
from mirror.kafka.client_errors import is_away
from mirror.kafka.clients import group_reader
from mirror.kafka.committed_metadata import metadata_of
from mirror.model import Partition
from mirror.settings import Cluster
from mirror.target.loading import held

REFUSED_AFTER = 1.0  # seconds without an answer before mirror looks whether the cluster has refused it
EVENTS_MAX = 100  # events of a reader that are looked at


def positions_of(
    cluster: Cluster, group: str, names: Mapping[Partition, tuple[str, int]], timeout: float, stable: bool = False
) -> tuple[dict[Partition, tuple[int, str]], dict[Partition, str]]:
    """The committed offsets of a group with their metadata, and why those of some partitions are not known.

    Only the metadata of mirror's own positions is given: what else confluent-kafka reads may have strange bytes at its
    end. `names` has the topic partitions of this cluster by source partition. If `stable`, and a transaction that has
    not ended holds one of the offsets, none of them is known. Raises ClusterAway or PartitionError.
    """
    try:
        found = _asked(cluster, group, names.values(), timeout, "read_committed" if stable else "read_uncommitted")
    except ClusterAway:
        if not stable:
            raise
        # librdkafka asks again and again while a transaction holds an offset. If the next question, which does not
        # wait for it, is answered, then that was the reason for the time-out.
        _asked(cluster, group, names.values(), timeout, "read_uncommitted")
        return {}, dict.fromkeys(names, held(f"an offset of group {group}"))
    at = {(each.topic, each.partition): each for each in found}
    known = {p: at[name] for p, name in names.items() if name in at}
    failed = {p: f"no offset of group {group}: {each.error.str()}" for p, each in known.items() if each.error}
    good = {p: each for p, each in known.items() if not each.error and each.offset >= 0}
    return {p: (each.offset, _of_position(metadata_of(each) or "")) for p, each in good.items()}, failed


def _of_position(metadata: str) -> str:
    return metadata if is_position(metadata) else ""


def _asked(
    cluster: Cluster, group: str, names: Iterable[tuple[str, int]], timeout: float, isolation: str
) -> Sequence[TopicPartition]:
    asked = [TopicPartition(*name) for name in names]
    with closing(group_reader(cluster, group, isolation)) as reader:
        for seconds in (REFUSED_AFTER, timeout):
            try:
                return list(reader.committed(asked, seconds))
            except KafkaException as error:
                cause = _refusal(reader) or error.args[0]
            if cause.code() != KafkaError._TIMED_OUT:
                break
    text = f"no offsets of group {group}: {cause.str()}"
    raise ClusterAway(cluster.alias, text) if is_away(cause) else PartitionError(text)


def _refusal(reader: Consumer) -> KafkaError | None:
    """Why the cluster does not say who coordinates the group; None if it did not refuse that.

    librdkafka asks again and again then, so that the request for offsets times out. It tells the reason as an event.
    """
    for _ in range(EVENTS_MAX):
        event = reader.poll(0)
        error = event and event.error()
        if event is None or (error and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED):
            return error or None
    return None
