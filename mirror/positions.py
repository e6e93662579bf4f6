"""Positions: the next upstream offset of each partition, in a consumer group on the target."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from mirror.clients import is_away, position_reader
from mirror.errors import ClusterAway, PartitionError, PositionUnstable
from mirror.settings import Cluster

REQUEST_TIMEOUT = 10.0  # seconds
KNOWN_LEADER_TIMEOUT = 1.0  # seconds for the leader that is known, which may be down
LOOK_INTERVAL = 0.02  # seconds
HANGS = "an open transaction; should that last, the target has lost its markers: docs/runbooks/MirrorPartitionFailed.md"


@dataclass(frozen=True, slots=True)
class Position:
    """The next upstream offset, and the id of the source topic that it belongs to ("" if not known).

    `epoch` is the leader epoch of the record before it (-1 if not known): by it a source tells whether its log still
    has that record, or was cut and has grown again (KIP-320).
    """

    offset: int
    topic_id: str
    epoch: int = -1

    def to_commit(self, remote: str, partition: int) -> TopicPartition:
        """As `send_offsets_to_transaction` takes it. The key is the remote topic: a broker refuses others."""
        metadata = json.dumps({"topic_id": self.topic_id}, separators=(",", ":"))
        return TopicPartition(remote, partition, self.offset, metadata, self.epoch)

    def belongs_to(self, topic_id: str) -> bool:
        """Is it a position in this topic, as far as anybody knows?"""
        return self.topic_id in ("", topic_id)

    @staticmethod
    def from_committed(committed: TopicPartition) -> Position | None:
        """None when nothing was ever committed."""
        if committed.offset < 0:
            return None
        try:
            topic_id = str(json.loads(committed.metadata or "{}")["topic_id"])
        except (ValueError, KeyError, TypeError):
            topic_id = ""  # committed by someone else's tool: the offset counts, recreation can't be told
        epoch = committed.leader_epoch
        return Position(committed.offset, topic_id, -1 if epoch is None else epoch)


class Positions:
    """Reads positions. Only a *stable* one may be trusted; an unstable one tells where to start looking."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster.alias
        self._group = group
        self._stable = position_reader(cluster, group, "read_committed")
        self._latest = position_reader(cluster, group, "read_uncommitted")

    def close(self) -> None:
        """End the clients."""
        self._stable.close()
        self._latest.close()

    def stable(self, remote: str, partition: int) -> Position | None:
        """The committed position, with no transaction pending on it (OffsetFetch's RequireStable, KIP-447).

        Raises PositionUnstable while one is pending, ClusterAway when the target does not answer, PartitionError when
        it refuses.
        """
        try:
            (found,) = self._fetch(self._stable, [TopicPartition(remote, partition)])
        except ClusterAway as error:
            self.hints([(remote, partition)])  # if it answers this, librdkafka has asked for the stable one in vain
            raise PositionUnstable(f"the position of {remote}-{partition} is held by {HANGS}") from error
        if found.error is not None:
            if found.error.code() == KafkaError.UNSTABLE_OFFSET_COMMIT:
                raise PositionUnstable(f"the position of {remote}-{partition} is held by {HANGS}")
            raise self._failed(f"no position of {remote}-{partition}", found.error)
        return Position.from_committed(found)

    def commit(self, position: TopicPartition) -> None:
        """Commit a position by itself, without a transaction. Raises ClusterAway or PartitionError."""
        try:
            (done,) = self._latest.commit(offsets=[position], asynchronous=False)
        except KafkaException as error:
            raise self._failed(f"position of {position.topic}-{position.partition}", error.args[0]) from error
        if done.error is not None:
            raise self._failed(f"position of {position.topic}-{position.partition}", done.error)

    def await_settled(self, remote: str, partition: int) -> None:
        """Wait until every transaction on a remote partition has ended that is open now.

        Of a fenced producer none can be, unless the target has lost its markers (Kafka 4.3.0 to 4.4.0 skip those of a
        partition that has no leader at that moment). The next transaction of the same producer id would end that one
        together with itself, and commit what was aborted. Raises PositionUnstable, ClusterAway or PartitionError.
        """
        deadline = time.monotonic() + REQUEST_TIMEOUT
        high = self.end(remote, partition)
        while self._end(self._stable, remote, partition) < high:
            if time.monotonic() > deadline:
                raise PositionUnstable(f"{remote}-{partition} is held by {HANGS}")
            time.sleep(LOOK_INTERVAL)

    def end(self, remote: str, partition: int) -> int:
        """The high watermark of a remote partition. Raises ClusterAway or PartitionError."""
        return self._end(self._latest, remote, partition)

    def _end(self, reader: Consumer, remote: str, partition: int) -> int:
        """The last stable offset for a read_committed reader, else the high watermark."""
        here = TopicPartition(remote, partition)
        try:
            try:
                return int(reader.get_watermark_offsets(here, KNOWN_LEADER_TIMEOUT)[1])
            except KafkaException:
                # librdkafka asks the leader before the last election until what it knows is 15 minutes old. Not at
                # once: the answer has all partitions of the topic, and thousands of them may be taken over.
                refusal = reader.list_topics(remote, REQUEST_TIMEOUT).topics[remote].error
                if refusal is not None:
                    raise KafkaException(refusal) from None
                return int(reader.get_watermark_offsets(here, REQUEST_TIMEOUT)[1])
        except KafkaException as error:
            raise self._failed(f"no end of {remote}-{partition}", error.args[0]) from error

    def hints(
        self, remote_partitions: Iterable[tuple[str, int]], refused: set[tuple[str, int]] | None = None
    ) -> dict[tuple[str, int], Position | None]:
        """Positions that may be behind the truth (a pending one is not waited for). Raises as `stable`.

        Those that the target refuses to tell are not raised for but added to `refused`, if that is given.
        """
        asked = [TopicPartition(remote, partition) for remote, partition in remote_partitions]
        if not asked:
            return {}
        found = self._fetch(self._latest, asked)
        for each in (f for f in found if f.error is not None):
            error = self._failed(f"no position of {each.topic}-{each.partition}", each.error)
            if error.away or refused is None:
                raise error
            refused.add((each.topic, each.partition))
        return {(f.topic, f.partition): Position.from_committed(f) for f in found if f.error is None}

    def _fetch(self, reader: Consumer, asked: list[TopicPartition]) -> list[TopicPartition]:
        try:
            return list(reader.committed(asked, REQUEST_TIMEOUT))
        except KafkaException as error:
            raise self._failed(f"no positions of group {self._group}", error.args[0]) from error

    def _failed(self, what: str, error: KafkaError) -> ClusterAway | PartitionError:
        text = f"{what}: {error.str()}"
        return ClusterAway(self._cluster, text) if is_away(error) else PartitionError(text)
