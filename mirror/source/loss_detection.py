"""What the source has lost: upstream offsets from the position on that can't be copied any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from confluent_kafka.admin import OffsetSpec

from mirror.errors import PartitionError
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.librdkafka_log import truncated_at
from mirror.model import Partition, Position, Topic

# What a person can do about a loss.
PASS_OVER = "pass them over with mirror resume --skip-lost"
MEND = f"have the source mended, or {PASS_OVER}"


@dataclass(frozen=True, slots=True)
class Loss:
    """Why copying can't go on at `position`, and the offset where it can.

    - deleted: retention or DeleteRecords overtook the position;
    - truncated: an unclean leader election cut the log before the position;
    - recreated: the topic was deleted and created again;
    - corrupt: the batch at the position is not what was written, `why` says how that is known.
    """

    reason: Literal["deleted", "truncated", "recreated", "corrupt"]
    position: int
    resume: int
    why: str = ""

    @property
    def offsets(self) -> int:
        """How many are lost; 1 for a recreated topic, because nobody knows where the old topic ended."""
        return 1 if self.reason == "recreated" else abs(self.position - self.resume)

    @property
    def remedy(self) -> str:
        """For people: what to do."""
        if self.reason == "recreated":
            return "go on with the new topic with mirror resume --skip-lost"
        if self.reason == "truncated":
            return "go on where it was cut with mirror resume --skip-lost"
        return MEND if self.reason == "corrupt" else PASS_OVER

    @property
    def what(self) -> str:
        """For people: the range, and why."""
        if self.reason == "deleted":
            return f"offsets {self.position} to {self.resume - 1} were deleted on the source before they were copied"
        if self.reason == "corrupt":
            return f"offsets {self.position} to {self.resume - 1} can't be read as they were written: {self.why}"
        if self.reason == "truncated":
            return (
                f"the source's log was cut at offset {self.resume} (unclean leader election): offsets {self.resume} to "
                f"{self.position - 1} were copied and are not the source's any more"
            )
        return (
            f"the source topic was deleted and created again: what followed offset {self.position - 1} of the old one "
            f"is lost, the new one begins at offset {self.resume}"
        )


def find_loss(source: ClusterAdmin, partition: Partition, topic: Topic, position: Position, said: str) -> Loss | None:
    """What is lost, after the consumer could not go on at `position` and `said` why. None if it can go on there now.

    Raises ClusterAway. Raises PartitionError if the source does not have the plan's topic any more, if it gives no
    offsets, or if the broker that answers is not the partition's leader any more.
    """
    if source.topic_ids([partition.topic]).get(partition.topic) != topic.topic_id:
        raise PartitionError("the source topic was deleted; perhaps another of its name waits for the next plan")
    first = source.offsets({partition: OffsetSpec.earliest()}, stable=False).get(partition)
    answer = source.end(partition)
    if first is None or answer is None:
        raise PartitionError("the source gives no offsets of the partition")
    end, epoch = answer
    if not position.belongs_to(topic.topic_id):
        return Loss("recreated", position.offset, first)
    if position.offset < first:
        return Loss("deleted", position.offset, first)
    cut = truncated_at(said)  # where the consumer was, which may be after the position
    kept = end if cut is None else min(end, cut)
    if position.offset <= kept:
        return None
    # A deposed leader that has not heard of its successor may have a shorter log, too. If we believed it, records would
    # be copied again. Only a leader with a newer epoch than the records before the position can have cut the log.
    if 0 <= epoch <= position.newest_epoch:
        raise PartitionError(
            f"the log of the source's broker that answers ends at offset {end}, but it does not lead any more: its "
            f"leader epoch is {epoch}, a record before position {position.offset} has {position.newest_epoch}"
        )
    return Loss("truncated", position.offset, max(first, kept))
