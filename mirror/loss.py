"""What the source has lost: upstream offsets from the position on that can't be copied any more."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from confluent_kafka.admin import OffsetSpec

from mirror.cluster import ClusterAdmin
from mirror.errors import PartitionError
from mirror.plan import Partition, Topic
from mirror.positions import Position

# librdkafka has looked where the source's log parted from the position's leader epoch (KIP-320), and only logs it.
PARTED = re.compile(r"truncation detected .* broker end offset is (\d+)")


@dataclass(frozen=True, slots=True)
class Loss:
    """Why copying can't go on at `position`, and the offset where it can.

    - deleted: retention or DeleteRecords overtook the position;
    - truncated: an unclean leader election cut the log before the position;
    - recreated: the topic was deleted and created again.
    """

    reason: Literal["deleted", "truncated", "recreated"]
    position: int
    resume: int

    @property
    def offsets(self) -> int:
        """How many are lost; 1 for a recreated topic: nobody knows how far the old one went."""
        return 1 if self.reason == "recreated" else abs(self.position - self.resume)

    @property
    def what(self) -> str:
        """For people: the range, and why."""
        if self.reason == "deleted":
            return f"offsets {self.position} to {self.resume - 1} were deleted on the source before they were copied"
        if self.reason == "truncated":
            return (
                f"the source's log was cut at offset {self.resume} (unclean leader election): offsets {self.resume} to "
                f"{self.position - 1} were copied and are not the source's any more"
            )
        return (
            f"the source topic was deleted and created again: what followed offset {self.position - 1} of the old one "
            f"is lost, the new one begins at offset {self.resume}"
        )


def find(source: ClusterAdmin, partition: Partition, topic: Topic, position: Position, said: str) -> Loss | None:
    """What is lost, given that the consumer could not go on at `position` and `said` why; None: it is there now.

    To go back on a log is believed only when all brokers agree on topic and leader: one that was deposed, and has not
    heard of it, has a shorter log, or the topic of before, and what is there would be copied again.

    Raises ClusterAway, or PartitionError when the plan's topic is not the source's any more, when offsets are refused,
    or brokers do not agree.
    """
    loss = _look(source, partition, topic, position, said)
    if loss is None or loss.reason == "deleted":
        return loss
    views = source.views(partition)
    if len(set(views.values())) > 1:
        known = "; ".join(f"{node}: {view}" for node, view in sorted(views.items()))
        raise PartitionError(f"the source's brokers do not agree on topic id and leader: {known}")
    return _look(source, partition, topic, position, said)


def _look(source: ClusterAdmin, partition: Partition, topic: Topic, position: Position, said: str) -> Loss | None:
    if source.topic_ids([partition.topic]).get(partition.topic) != topic.topic_id:
        raise PartitionError("the source topic was deleted; perhaps another of its name waits for the next plan")
    first = _offset(source, partition, OffsetSpec.earliest())
    end = _offset(source, partition, OffsetSpec.latest())
    if not position.belongs_to(topic.topic_id):
        return Loss("recreated", position.offset, first)
    if position.offset < first:
        return Loss("deleted", position.offset, first)
    parted = PARTED.search(said)  # of what was fetched, which may be ahead of the position
    kept = min(end, int(parted[1])) if parted else end
    return Loss("truncated", position.offset, max(first, kept)) if position.offset > kept else None


def _offset(source: ClusterAdmin, partition: Partition, spec: OffsetSpec) -> int:
    found = source.offsets({partition: spec}, stable=False)
    if partition not in found:
        raise PartitionError("the source gives no offsets of the partition")
    return found[partition]
