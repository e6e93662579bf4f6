"""Writes checkpoints of consumer groups, so that MirrorMaker's Java client can translate their offsets."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException, Message

from mirror.errors import ClusterAway
from mirror.groups.checkpoints import Checkpoint
from mirror.groups.group_sync import GroupOffset
from mirror.kafka.clients import internal_producer
from mirror.naming import ReplicationPolicy
from mirror.settings import Flow

WRITE_TIMEOUT = 10.0  # seconds


class CheckpointWriter:
    """Writes the checkpoints that have changed since it wrote them; at first, all of them."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._policy = ReplicationPolicy.of(flow)
        self._producer = internal_producer(flow.target)
        self._written: dict[bytes, bytes] = {}

    def close(self) -> None:
        """Give up what is not written yet: the next leader writes it."""
        self._producer.purge()

    def write(self, found: Iterable[GroupOffset]) -> None:
        """Write the checkpoints of all offsets that are translated. Raises ClusterAway."""
        failed: list[KafkaError] = []
        due = self._due(found)

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._written[message.key() or b""] = due[message.key() or b""]
            else:
                failed.append(error)

        for key, value in due.items():
            try:
                self._producer.produce(self._flow.checkpoint_topic, value, key, 0, delivered)
            except KafkaException as error:  # the client believes that the topic does not exist
                failed.append(error.args[0])
        if self._producer.flush(WRITE_TIMEOUT) or failed:
            reason = failed[0].str() if failed else "no answer in time"
            said = f"{self._flow.checkpoint_topic} accepts no records: {reason}"
            raise ClusterAway(self._flow.target.alias, said)

    def _due(self, found: Iterable[GroupOffset]) -> dict[bytes, bytes]:
        due: dict[bytes, bytes] = {}
        for each in found:
            if each.downstream is None:
                continue
            remote = self._policy.remote_topic(each.partition.topic)
            at = (each.upstream.offset, each.downstream, each.upstream.metadata)
            checkpoint = Checkpoint(each.group, remote, each.partition.partition, *at)
            if self._written.get(checkpoint.key()) != checkpoint.value():
                due[checkpoint.key()] = checkpoint.value()
        return due
