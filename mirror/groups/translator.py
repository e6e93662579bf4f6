"""Translates offsets of a flow: reads its positions and its offset map, and counts records where it has to."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import OffsetSpec

from mirror.errors import ClusterAway, PartitionError
from mirror.groups.offset_map_reader import OffsetMapReader
from mirror.groups.translation import (
    Count,
    End,
    PartitionMap,
    Unknown,
    counted_downstream,
    counted_upstream,
)
from mirror.kafka.clients import internal_consumer
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition, Position
from mirror.naming import ReplicationPolicy
from mirror.settings import Flow
from mirror.target.offset_map import Copied
from mirror.target.positions import Positions

TIMEOUT = 20.0  # seconds without an answer
AT_LEAST_ONCE = "not exact: the flow runs with exactly_once: false"
NEVER_COPIED = "the partition was never copied"
OLDER = (
    "not exact: MirrorMaker or an older version of mirror has copied up to the position, and the next record that is "
    "copied ends that"
)


@dataclass(frozen=True, slots=True)
class Translation:
    """An offset on one side and on the other. `translated` is None if it is not known, and `reason` says why."""

    partition: Partition  # of the source
    remote: str
    offset: int
    translated: int | None
    reason: str = ""

    def as_dict(self) -> dict[str, object]:
        """The translation as it is printed with --json."""
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "remote": self.remote,
            "offset": self.offset,
            "translated": self.translated,
            "reason": self.reason,
        }


class Translator:
    """Translates offsets of one flow. Positions and map are read again by `refresh`."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._policy = ReplicationPolicy.of(flow)
        self._target = ClusterAdmin(flow.target)
        self._map = OffsetMapReader(flow, PartitionMap)
        self._positions = Positions(flow.target, flow.group, flow.control_topic)
        self._counter = RecordCounter(flow)
        self._counted: dict[tuple[Partition, Count], list[int]] = {}  # since the last refresh
        self._ends: dict[Partition, Position | None] = {}
        self._starts: Mapping[Partition, int] = {}  # of the remote logs, by remote partition

    def close(self) -> None:
        """End the clients."""
        self._map.close()
        self._positions.close()
        self._counter.close()

    def refresh(self, partitions: Sequence[Partition]) -> None:
        """Read the positions of these partitions, and then the map. Raises ClusterAway or PartitionError."""
        self._counted.clear()
        remotes = {partition: (self._remote(partition), partition.partition) for partition in partitions}
        found = self._positions.hints(remotes.values(), set())
        self._ends = {partition: found.get(remote) for partition, remote in remotes.items()}
        if self._flow.exactly_once:
            self._map.read()
        self._starts = self._target.offsets({Partition(*remote): OffsetSpec.earliest() for remote in remotes.values()})

    def to_downstream(self, partition: Partition, upstream: int) -> Translation:
        """Where on the target a consumer has to begin to read that would read `upstream` next on the source.

        Raises ClusterAway or PartitionError.
        """
        found = self._translated(
            partition,
            lambda entries, end: entries.to_downstream(upstream, end),
            lambda count, records: counted_downstream(count, upstream, records),
        )
        start = self._starts.get(Partition(self._remote(partition), partition.partition), 0)
        if isinstance(found, int) and found < start:
            found = Unknown.BEFORE_THE_MAP.value
        return self._translation(partition, upstream, found)

    def to_upstream(self, partition: Partition, downstream: int) -> Translation:
        """Where on the source a consumer has to begin to read that would read `downstream` next on the target.

        Raises ClusterAway or PartitionError.
        """
        found = self._translated(
            partition,
            lambda entries, end: entries.to_upstream(downstream, end),
            lambda count, records: counted_upstream(count, downstream, records),
        )
        return self._translation(partition, downstream, found)

    def end(self, partition: Partition) -> Translation:
        """The end of what is copied: the position, and where the next record will be on the target or after that."""
        position = self._ends.get(partition)
        return self.to_downstream(partition, position.offset if position is not None else 0)

    def _translated(
        self,
        partition: Partition,
        look: Callable[[PartitionMap, End], int | Count | Unknown],
        counted: Callable[[Count, Sequence[int]], int | Unknown],
    ) -> int | str:
        position = self._ends.get(partition)
        if not self._flow.exactly_once:
            return AT_LEAST_ONCE
        if position is None:
            return NEVER_COPIED
        if position.unmapped < 0:
            return OLDER
        copied = Copied(*partition, position.topic_id, position.remote_id)
        entries = self._map.maps.get(copied, PartitionMap())
        found = look(entries, End(position.offset, position.unmapped, position.resets))
        if isinstance(found, Count):
            if (partition, found) not in self._counted:  # groups are often near each other
                self._counted[partition, found] = self._records(partition, position, found)
            found = counted(found, self._counted[partition, found])
        return found if isinstance(found, int) else found.value

    def _records(self, partition: Partition, position: Position, count: Count) -> list[int]:
        """The downstream offsets that are to be counted.

        After the last entry others may follow, as copying goes on. If the position has not moved, they are not ours.
        """
        remote = self._remote(partition)
        most = count.expected + 1
        found = self._counter.offsets((remote, partition.partition), count.begin, count.end, most)
        if count.end is None and len(found) > count.expected:
            now = self._positions.hints([(remote, partition.partition)]).get((remote, partition.partition))
            if now != position:
                return found[: count.expected]
        return found

    def _remote(self, partition: Partition) -> str:
        return self._policy.remote_topic(partition.topic)

    def _translation(self, partition: Partition, offset: int, found: int | str) -> Translation:
        remote = self._remote(partition)
        if isinstance(found, int):
            return Translation(partition, remote, offset, found)
        return Translation(partition, remote, offset, None, found)


class RecordCounter:
    """Finds out where the target's committed records are, in one range after another."""

    def __init__(self, flow: Flow) -> None:
        self._alias = flow.target.alias
        self._consumer = internal_consumer(flow.target, flow.group)

    def close(self) -> None:
        """End the client."""
        self._consumer.close()

    def offsets(self, remote: tuple[str, int], begin: int, end: int | None, most: int) -> list[int]:
        """The offsets of committed records from `begin` to before `end`, or to the last stable one. At most `most`.

        Raises ClusterAway, or PartitionError when the target refuses to give records.
        """
        self._consumer.assign([TopicPartition(*remote, begin)])
        try:
            return self._read(remote, begin, end, most)
        finally:
            self._consumer.unassign()

    def _read(self, remote: tuple[str, int], begin: int, end: int | None, most: int) -> list[int]:
        found: list[int] = []
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            for message in self._consumer.consume(min(most, 10_000), 0.1):
                error, offset = message.error(), int(message.offset() or 0)
                if (str(message.topic()), message.partition()) != remote or offset < begin:  # of the range before
                    continue
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return found
                if error is not None:
                    raise PartitionError(f"{remote[0]}-{remote[1]} can't be read: {error.str()}")
                if end is not None and offset >= end:
                    return found
                found.append(offset)
                if len(found) >= most:
                    return found
                deadline = time.monotonic() + TIMEOUT
        raise ClusterAway(self._alias, f"{remote[0]}-{remote[1]} can't be read: no answer in time")
