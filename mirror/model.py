"""The values that every part of mirror uses: a partition, a topic, a position. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

from mirror import decode

Side = Literal["source", "target"]
SIDES: tuple[Side, ...] = get_args(Side)

BATCH_BYTES = 1_048_588  # Kafka's default of max.message.bytes


class Partition(NamedTuple):
    """A source topic partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def a_partition(raw: Any) -> Partition:
    """Decode a partition from its JSON list of topic and number. Raises DecodeError."""
    return Partition(*decode.elements(raw, [decode.topic_name, decode.partition_number]))


@dataclass(frozen=True, slots=True)
class Topic:
    """A source topic that is mirrored, and its remote topic.

    `initial_partitions` is the number of partitions that existed when the flow first ran: these begin at the flow's
    `start`. Later partitions begin at the earliest offset, whatever `start` says, because nobody has seen their records
    yet.
    """

    remote: str
    topic_id: str  # KIP-516: a recreated topic of the same name has another id
    partitions: int
    initial_partitions: int
    remote_id: str = ""  # the id of the remote topic that has the copy; "" in the plans of older versions
    remote_lost: bool = False  # the target has no topic with this id any more: an operator has to decide
    compacted: bool = False  # compaction removes records of the remote topic, so nothing can be counted there
    largest: int = BATCH_BYTES  # max.message.bytes of the remote topic, if it is known: the largest batch that it takes


@dataclass(frozen=True, slots=True)
class MapEnd:
    """The end of a partition's offset map, as the position that was committed with it says it.

    So a reader of the map finds out whether it has read the map to this end, and what follows. The position of a small
    transaction often can't say where its own records end. It says where those before it do, and the next position says
    the rest.
    """

    entry: int = -1  # downstream offset of the last entry; -1: there is none yet
    records: int = 0  # copied after that entry
    placed: int = 0  # of these the first ones, which are before `place`; the others are there or after it
    place: int = -1  # downstream offset; -1: none is placed


@dataclass(frozen=True, slots=True)
class Position:
    """The next upstream offset, and the ids of the source topic and the remote topic that it belongs to.

    A position without `topic_id` was committed by another tool, or was handed back to MirrorMaker. `remote_id` is "" in
    the positions of older versions.
    `resets` counts how often an operator or a policy has moved the position other than by copying. While `resets` stays
    the same, a position never goes back.

    `epoch` is the leader epoch of the record before the position, -1 if not known. With it the source can tell whether
    its log still has that record, or was truncated and has grown again (KIP-320). After transaction markers the epoch
    is not known. Then `epoch_before_markers` has the epoch of the last record before the markers (-1 if not known); it
    shows whether the broker that answers is an outdated leader.

    `map_end` is None if it is not known where the offset map ends.
    """

    offset: int
    topic_id: str
    epoch: int = -1
    epoch_before_markers: int = -1
    remote_id: str = ""
    resets: int = 0
    map_end: MapEnd | None = None

    @property
    def progress(self) -> tuple[int, int]:
        """A value that never decreases from one position of a partition to the next, within one source topic."""
        return self.resets, self.offset

    @property
    def newest_epoch(self) -> int:
        """The newest known leader epoch of the records before the position; -1 if none is known."""
        return max(self.epoch, self.epoch_before_markers)

    @property
    def is_handed_back(self) -> bool:
        """True if `mirror hand-back` has given it to MirrorMaker: mirror copies nothing until it is adopted again."""
        return not self.topic_id and bool(self.remote_id)

    def handed_back(self, remote_id: str) -> Position:
        """The position as `mirror hand-back` leaves it. Nobody takes it for mirror's own."""
        return replace(self, topic_id="", remote_id=remote_id)

    def belongs_to(self, topic_id: str) -> bool:
        """True if the position is, or may be, one in the topic with this id."""
        return self.topic_id in ("", topic_id)

    def reset(self, offset: int, remote_id: str) -> Position:
        """The position at `offset` of the same source topic, as an operator or a policy has chosen it."""
        here = offset == self.offset
        epochs = (self.epoch if here else -1, self.newest_epoch)
        map_end = self.map_end_in(self.topic_id, remote_id)
        return Position(offset, self.topic_id, *epochs, remote_id, self.resets + 1, map_end)

    def map_end_in(self, topic_id: str, remote_id: str) -> MapEnd | None:
        """`map_end` for a position in these topics. A pair that is not the position's own has no entries yet."""
        if not (self.topic_id and self.remote_id):
            return None
        return self.map_end if (self.topic_id, self.remote_id) == (topic_id, remote_id) else MapEnd()


def remote_partitions(topics: Mapping[str, Topic]) -> dict[Partition, Partition]:
    """All partitions of these topics (by name on the source), and the remote partition of each."""
    return {
        Partition(name, number): Partition(topic.remote, number)
        for name, topic in sorted(topics.items())
        for number in range(topic.partitions)
    }
