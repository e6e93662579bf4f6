"""Writes checkpoints of consumer groups, so that MirrorMaker's Java client can translate their offsets."""

from __future__ import annotations

from collections.abc import Iterable

from mirror.groups.checkpoints import Checkpoint
from mirror.groups.group_sync import GroupOffset
from mirror.groups.own_topic_writer import OwnTopicWriter
from mirror.groups.remote_names import RemoteNames
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.topic_ids import KnownIds
from mirror.settings import Flow


class CheckpointWriter:
    """Writes the checkpoints that have changed since it wrote them; at first, all of them."""

    def __init__(self, flow: Flow) -> None:
        self._topic = flow.checkpoint_topic
        self._names = RemoteNames(flow)
        self._target = ClusterAdmin(flow.target)
        self._writer = OwnTopicWriter(flow.target, self._topic)
        self._known = KnownIds()
        self._written: dict[bytes, bytes] = {}

    def close(self) -> None:
        """End the client. What is not written yet, the next flow leader writes."""
        self._writer.close()

    def write(self, found: Iterable[GroupOffset]) -> None:
        """Write the checkpoints of all offsets that are translated. Raises ClusterAway, ForeignPlan."""
        self._names.refresh()
        topic_id = self._target.ids_now([self._topic])[0].get(self._topic)
        if topic_id is not None and self._known.is_another(self._topic, topic_id):
            self._written = {}  # the topic was deleted and created again
        current = self._encoded(found)
        # Those of groups that are gone are forgotten, so that the memory is bounded.
        self._written = {key: value for key, value in self._written.items() if key in current}
        due = {key: value for key, value in current.items() if self._written.get(key) != value}
        self._writer.write(due, lambda key: self._written.update({key: due[key]}))

    def _encoded(self, found: Iterable[GroupOffset]) -> dict[bytes, bytes]:
        encoded: dict[bytes, bytes] = {}
        for each in found:
            if each.downstream is None:
                continue
            remote = self._names.of(each.partition.topic)
            at = (each.upstream.offset, each.downstream, each.upstream.text)
            checkpoint = Checkpoint(each.group, remote, each.partition.partition, *at)
            encoded[checkpoint.key()] = checkpoint.value()
        return encoded
