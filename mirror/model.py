"""What every part of mirror speaks of: a partition, a topic, a position. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from mirror import decode


class Partition(NamedTuple):
    """A source topic partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def a_partition(raw: Any) -> Partition:
    """As JSON has it: a list of topic and number. Raises Malformed."""
    return Partition(*decode.elements(raw, [decode.topic_name, decode.partition_number]))


@dataclass(frozen=True, slots=True)
class Topic:
    """A source topic that is mirrored, and its remote topic.

    `initial` counts the partitions that were there when the flow first ran: they begin at the flow's `start`.
    Those that come later begin at the earliest offset, whatever `start` says: nobody has seen their records.
    """

    remote: str
    topic_id: str  # KIP-516: tells a deleted and recreated topic from the first one
    partitions: int
    initial: int
    remote_id: str = ""  # the id of the remote topic that holds the copy; "" in plans from before it was recorded
    remote_lost: bool = False  # the target has no topic with this id (any more): somebody has to decide


@dataclass(frozen=True, slots=True)
class Position:
    """The next upstream offset, and the ids of the source topic and the remote topic that it belongs to.

    Without `topic_id` it is not one of ours: somebody else's tool has committed it. `remote_id` is "" in positions from
    before it was recorded. `resets` counts how often somebody, or a policy, has set the position to where copying
    had not led it: with the same `resets` a position never goes back.

    `epoch` is the leader epoch of the record before it (-1 if not known): by it a source tells whether its log still
    has that record, or was cut and has grown again (KIP-320). Behind markers it is not known; then `since` is that of
    the last record (-1 if not known), by which we tell who does not lead any more.
    """

    offset: int
    topic_id: str
    epoch: int = -1
    since: int = -1
    remote_id: str = ""
    resets: int = 0

    @property
    def progress(self) -> tuple[int, int]:
        """What only grows from one position of a partition to the next, within one source topic."""
        return self.resets, self.offset

    @property
    def newest_epoch(self) -> int:
        """The newest leader epoch that is known of what stands before the position; -1: none."""
        return max(self.epoch, self.since)

    def belongs_to(self, topic_id: str) -> bool:
        """Is it a position in this topic, as far as anybody knows?"""
        return self.topic_id in ("", topic_id)

    def reset(self, offset: int, remote_id: str) -> Position:
        """A position that somebody has chosen, in the same source topic."""
        here = offset == self.offset
        epochs = (self.epoch if here else -1, self.newest_epoch)
        return Position(offset, self.topic_id, *epochs, remote_id, self.resets + 1)
