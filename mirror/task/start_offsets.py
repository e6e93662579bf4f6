"""Finds the offset at which each partition's consumer starts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient, OffsetSpec

from mirror.control.reported_positions import newer, reported_positions
from mirror.kafka.listed_offsets import list_offsets
from mirror.model import Partition, Position, Topic
from mirror.settings import Flow
from mirror.target.position_reader import PositionReader
from mirror.task.known_positions import StartPoint


class LastPositions:
    """The last position of each partition that joins: as it was reported, or as this task itself knows it.

    Reading the reports is reading the end of the whole flow's status topic, or more. So the task does that when a
    partition comes to it, and not when a partition that it has had alone since then changes its data path, or is paused
    or resumed. Only one thread at a time may call it.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        # The remote topics of the partitions that the plan has given to no other task since their reports were read.
        self._alone: dict[Partition, str] = {}
        # The last positions of partitions that this task gave up, by the remote topic, too.
        self._ours: dict[tuple[Partition, str], Position] = {}
        self._generation = 0

    def follow(self, generation: int, wanted: Mapping[Partition, Topic]) -> None:
        """Follow the plan of this generation, or a newer one, which wants these partitions.

        A loaded position is doubted if it is before the last one that is known. What another task has copied since ours
        could be lost unnoticed, so then the reports are read as well. This also holds after a plan that nobody has seen
        here: of several plans that come together, only the newest is read.
        """
        if generation - self._generation not in (0, 1):
            self._alone.clear()
        self._generation = generation
        remotes = {partition: topic.remote for partition, topic in wanted.items()}
        self._alone = {here: remote for here, remote in self._alone.items() if remotes.get(here) == remote}
        self._ours = {key: at for key, at in self._ours.items() if remotes.get(key[0]) == key[1]}

    def keep(self, partition: Partition, topic: Topic, position: Position) -> None:
        """Keep the position of a partition that this task has let go of, and goes on with."""
        if position.topic_id:
            self._ours[partition, topic.remote] = position

    def begun(self, starts: Mapping[Partition, Topic]) -> None:
        """Copiers begin with what `of` has returned for these partitions."""
        self._alone |= {partition: topic.remote for partition, topic in starts.items()}

    def of(self, joining: Mapping[Partition, Topic], partitions: int) -> dict[Partition, Position]:
        """The last known position of each of these partitions, of `partitions` in the flow. Raises ClusterAway."""
        ours = {p: self._ours[p, t.remote] for p, t in joining.items() if (p, t.remote) in self._ours}
        unknown = {p: topic for p, topic in joining.items() if self._alone.get(p) != topic.remote}
        return newer(reported_positions(self._flow, unknown, partitions) if unknown else {}, ours)


def find_starts(
    flow: Flow,
    positions: PositionReader,
    source: AdminClient,
    joining: Mapping[Partition, Topic],
    reports: Callable[[], Mapping[Partition, Position]],
    missing: dict[Partition, KafkaError] | None = None,
) -> dict[Partition, StartPoint]:
    """Where to start each partition: at its committed position, or else where the flow's `start` points.

    `reports` gives the positions that were reported last. The committed position is only a hint: a transaction may
    still be open that commits a newer one. So the copier loads the position again once it has fenced.

    Partitions without an offset from the source are left out, and added to `missing`, with the reason. Raises
    ClusterAway or PartitionError for the target.
    """
    refused: set[tuple[str, int]] = set()  # the target refuses to tell these positions; their take-overs say why
    hints = positions.hints(((topic.remote, p.partition) for p, topic in joining.items()), refused)
    reported = reports()
    starts: dict[Partition, StartPoint] = {}
    fresh: dict[Partition, OffsetSpec] = {}
    for partition, topic in joining.items():
        position = hints.get((topic.remote, partition.partition))
        if position is not None:
            starts[partition] = StartPoint(position.offset, position, reported.get(partition))
        else:
            seen_first = partition.partition < topic.initial_partitions
            fresh[partition] = _spec(flow.of_topic(partition.topic)) if seen_first else OffsetSpec.earliest()
    why: dict[Partition, KafkaError] = {}
    dated = [partition for partition in fresh if isinstance(flow.of_topic(partition.topic).start, int)]
    offsets = _asked(source, fresh, dated, why)
    unread = {p for p in fresh if (joining[p].remote, p.partition) in refused}
    starts |= {
        p: StartPoint(offset, reported=reported.get(p), unread=p in unread)
        for p, offset in offsets.items()
        if offset >= 0
    }
    if missing is not None:
        missing |= {partition: why[partition] for partition in fresh if partition not in starts}
    return starts


def _asked(
    source: AdminClient,
    fresh: Mapping[Partition, OffsetSpec],
    dated: Collection[Partition],
    why: dict[Partition, KafkaError],
) -> dict[Partition, int]:
    """The offsets that the source gives for `fresh`, of which `dated` start at a timestamp. `why` gets the refusals."""
    # A timestamp after the newest record means the end. The end is read first, so that no record that comes meanwhile
    # is passed over.
    ends = list_offsets(source, dict.fromkeys(dated, OffsetSpec.latest()), refused=why) if dated else {}
    offsets = list_offsets(source, fresh, refused=why)
    return offsets | {p: ends[p] for p, offset in offsets.items() if offset < 0 and p in ends}


def _spec(flow: Flow) -> OffsetSpec:
    if flow.start == "earliest":
        return OffsetSpec.earliest()
    if flow.start == "latest":
        return OffsetSpec.latest()
    return OffsetSpec.for_timestamp(flow.start)
