"""Writes checkpoints of consumer groups, so that MirrorMaker's Java client can translate their offsets."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from mirror.errors import ClusterAway
from mirror.groups.checkpoint_reader import read_checkpoints
from mirror.groups.checkpoint_withdrawal import Standing, Withdrawal
from mirror.groups.checkpoints import Checkpoint
from mirror.groups.group_sync import GroupOffset
from mirror.groups.own_topic_writer import OwnTopicWriter
from mirror.groups.remote_names import RemoteNames
from mirror.groups.source_groups import selects
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.topic_ids import KnownIds
from mirror.settings import Flow

log = logging.getLogger(__name__)

READS = 3  # how often it tries to read what stands there
OTHERS_MAX = 10_000  # checkpoints of offsets that are not translated any more, of which it knows where they are wrong


class CheckpointWriter:
    """Writes the checkpoints that have changed, and withdraws those that have become wrong."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._topic = flow.checkpoint_topic
        self._names = RemoteNames(flow)
        self._target = ClusterAdmin(flow.target)
        self._writer = OwnTopicWriter(flow.target, self._topic)
        self._withdrawal = Withdrawal(self._target, flow.name)
        self._known = KnownIds()
        self._reads = READS  # that are left
        self._stands: dict[bytes, Standing] = {}

    def close(self) -> None:
        """End the client. What is not written yet, the next flow leader writes."""
        self._writer.close()

    def write(self, found: Iterable[GroupOffset]) -> None:
        """Write the checkpoints of all offsets that are translated, and look at the others that stand there.

        Raises ClusterAway, ForeignPlan.
        """
        self._names.refresh()
        topic_id = self._target.ids_now([self._topic])[0].get(self._topic)
        if topic_id is not None and self._known.is_another(self._topic, topic_id):
            self._stands = {}  # the topic was deleted and created again
        if self._reads:
            self._read()
        wanted = self._encoded(found)
        self._forget_others(wanted)
        wanted |= self._withdrawal.judge({key: each for key, each in self._stands.items() if key not in wanted})
        before = {key: each.value for key, each in self._stands.items()}
        due = {key: each.value for key, each in wanted.items() if before.get(key) != each.value}
        self._stands |= {key: each for key, each in wanted.items() if key not in due}
        self._writer.write(due, lambda key: self._stands.update({key: wanted[key]}))

    def _encoded(self, found: Iterable[GroupOffset]) -> dict[bytes, Standing]:
        encoded: dict[bytes, Standing] = {}
        for each in found:
            if each.downstream is None:
                continue
            remote = self._names.of(each.partition.topic)
            at = (each.upstream.offset, each.downstream, each.upstream.text)
            checkpoint = Checkpoint(each.group, remote, each.partition.partition, *at)
            encoded[checkpoint.key()] = Standing(checkpoint.value(), each.remote_id)
        return encoded

    def _read(self) -> None:
        """Read what an earlier flow leader, or a MirrorMaker, has written. It is no error if that is not possible."""
        self._reads -= 1
        selected = selects(self._flow)
        try:
            values = read_checkpoints(self._flow, lambda each: selected(each.group))
        except ClusterAway as error:
            if not self._reads:
                where = {"flow": self._flow.name, "topic": self._topic, "reason": str(error)}
                log.warning("earlier checkpoints can't be read, and stay as they are", extra=where)
            return
        self._reads = 0
        self._stands = {key: Standing(value, "") for key, value in values.items()} | self._stands

    def _forget_others(self, current: Mapping[bytes, Standing]) -> None:
        """Forget the oldest of those that are not current, so that the memory is bounded."""
        others = [key for key in self._stands if key not in current]
        for key in others[: max(0, len(others) - OTHERS_MAX)]:
            del self._stands[key]
