"""Positions: the next upstream offset of each partition, in a consumer group on the target."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from mirror.errors import ClusterAway, PartitionError, PositionUnstable
from mirror.kafka.client_errors import is_away, is_lasting
from mirror.kafka.clients import group_reader
from mirror.kafka.committed_metadata import metadata_of
from mirror.kafka.renewed import Renewed
from mirror.model import Position
from mirror.settings import Cluster
from mirror.target.loading import LOOK_INTERVAL, TIMEOUT, Tokens, doubtful, held
from mirror.target.open_transactions import holding_producer
from mirror.target.position_metadata import decoded, encoded

KNOWN_LEADER_TIMEOUT = 1.0  # seconds for the leader that is known, which may be down
COORDINATOR_PATIENCE = 3.0  # seconds for a coordinator that moves or loads
COORDINATOR_RETRY = 0.1  # seconds

Reader = Renewed[Consumer]


def to_commit(position: Position, remote: str, partition: int) -> TopicPartition:
    """The position as `send_offsets_to_transaction` takes it. The key is the remote topic: a broker refuses others."""
    return TopicPartition(remote, partition, position.offset, encoded(position), position.epoch)


def from_committed(committed: TopicPartition) -> Position | None:
    """The position that `to_commit` encoded; None when nothing was ever committed."""
    epoch = committed.leader_epoch
    return decoded(committed.offset, -1 if epoch is None else epoch, metadata_of(committed))


def _both(found: tuple[int, int]) -> tuple[int, int]:
    low, high = found
    return int(low), int(high)


class PositionReader:
    """Reads positions. Only a *loaded* position can be trusted; a hint just says where to start reading.

    `token_topic` is a topic on the target that mirror may read. Under it the group gets the tokens of `load_all`.
    """

    def __init__(self, cluster: Cluster, group: str, token_topic: str) -> None:
        self._target = cluster
        self._group = group
        self._token_topic = token_topic
        self.tokens = Tokens()
        self._lock = threading.Lock()
        self._learning = threading.Lock()
        self._learned: dict[Reader, float] = {}
        self._stable: Reader = Renewed(cluster, lambda: group_reader(cluster, group, "read_committed"))
        self._latest: Reader = Renewed(cluster, lambda: group_reader(cluster, group, "read_uncommitted"))

    def close(self) -> None:
        """End the clients."""
        self._stable.client.close()
        self._latest.client.close()

    def load(self, remote: str, partition: int) -> Position | None:
        """The stable position, not older than the begin of this call. None if none was ever committed.

        Raises the same errors as `stable`.
        """
        return self.load_all([(remote, partition)])[remote, partition]

    def load_all(self, remote_partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Position | None]:
        """Load the positions of several remote partitions at once, at least of one.

        An answer counts only if it has a token of ours since this call began: Tokens says why. Raises the same errors
        as `stable`.
        """
        deadline, pause = time.monotonic() + TIMEOUT, LOOK_INTERVAL
        began = self.tokens.begin()
        wanted = [TopicPartition(self._token_topic, 0), *(TopicPartition(*each) for each in remote_partitions)]
        while (left := deadline - time.monotonic()) > 0:
            with self._lock:  # so that tokens are committed in the order of their numbers
                token = TopicPartition(self._token_topic, 0, 0, self.tokens.make())
                # Nobody waits for this commit, because a broker answers the requests of a connection in their order.
                self._stable.client.commit(offsets=[token], asynchronous=True)
            with_token, *found = self._fetch_stable(wanted, left)
            self._stable.client.poll(0)  # drops the results of the commits
            if self.tokens.is_since(began, metadata_of(with_token)):
                return {(each.topic, each.partition): self._checked(each) for each in found}
            time.sleep(random.uniform(0, pause))  # another task may have committed its token after ours
            pause = min(2 * pause, 1.0)
        raise PositionUnstable(doubtful(f"{wanted[-1].topic}-{wanted[-1].partition}", self._token_topic))

    def stable(self, remote: str, partition: int) -> Position | None:
        """A committed position on which no transaction is pending (OffsetFetch's RequireStable, KIP-447).

        Raises PositionUnstable while one is pending, ClusterAway when the target does not answer, PartitionError when
        it refuses.
        """
        (found,) = self._fetch_stable([TopicPartition(remote, partition)], TIMEOUT)
        return self._checked(found)

    def _fetch_stable(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        with contextlib.suppress(ClusterAway):
            return self._fetch(self._stable, asked, timeout)
        # librdkafka asks again and again while a transaction is pending. If the target answers the next request, which
        # waits for no transaction, then that was the reason for the time-out.
        self.hints((each.topic, each.partition) for each in asked)
        raise PositionUnstable(held(f"the position of {asked[-1].topic}-{asked[-1].partition}"))

    def _checked(self, found: TopicPartition) -> Position | None:
        if found.error is not None:
            where = f"{found.topic}-{found.partition}"
            if found.error.code() == KafkaError.UNSTABLE_OFFSET_COMMIT:
                raise PositionUnstable(held(f"the position of {where}"))
            raise self._failed(f"no position of {where}", found.error)
        return from_committed(found)

    def commit(self, position: TopicPartition) -> None:
        """Commit a position by itself, without a transaction. Raises ClusterAway or PartitionError."""
        try:
            (done,) = self._latest.client.commit(offsets=[position], asynchronous=False)
        except KafkaException as error:
            raise self._failed(f"position of {position.topic}-{position.partition}", error.args[0]) from error
        if done.error is not None:
            raise self._failed(f"position of {position.topic}-{position.partition}", done.error)

    def await_no_open_transaction(self, remote: str, partition: int) -> int:
        """Wait until every transaction that is open on a remote partition now has ended. Returns its high watermark.

        A fenced producer normally has no open transaction. But Kafka 4.3.0 to 4.4.0 may lose the abort marker: they
        skip the markers of a partition that has no leader at that moment. Then the next transaction with the same
        producer id would end that transaction, too, and commit records that were aborted. Raises PositionUnstable,
        ClusterAway or PartitionError.
        """
        deadline = time.monotonic() + TIMEOUT
        high = self.end(remote, partition)
        while self._bounds(self._stable, remote, partition)[1] < high:
            if time.monotonic() > deadline:
                raise PositionUnstable(held(f"{remote}-{partition}", holding_producer(self._target, remote, partition)))
            time.sleep(LOOK_INTERVAL)
        return high

    def end(self, remote: str, partition: int) -> int:
        """The high watermark of a remote partition. Raises ClusterAway or PartitionError."""
        return self.bounds(remote, partition)[1]

    def bounds(self, remote: str, partition: int) -> tuple[int, int]:
        """The start and the high watermark of a remote partition. Raises ClusterAway or PartitionError."""
        return self._bounds(self._latest, remote, partition)

    def _bounds(self, reader: Reader, remote: str, partition: int) -> tuple[int, int]:
        """The start, and the last stable offset for a read_committed reader, else the high watermark."""
        here, began = TopicPartition(remote, partition), time.monotonic()
        with contextlib.suppress(KafkaException):
            return _both(reader.client.get_watermark_offsets(here, KNOWN_LEADER_TIMEOUT))
        # librdkafka may have asked the leader before the last election: it does until its metadata is 15 minutes old.
        self._learn_leaders(reader, began)
        # If the target refuses, this raises the reason. The request for the end would only say "unknown partition".
        self.hints([(remote, partition)])
        try:
            return _both(reader.client.get_watermark_offsets(here, TIMEOUT))
        except KafkaException as error:
            raise self._failed(f"no end of {remote}-{partition}", error.args[0]) from error

    def _learn_leaders(self, reader: Reader, since: float) -> None:
        """Renew the metadata, once for all threads whose request has failed since `since`.

        Thousands of partitions may be taken over at the same time. The request is for all topics, not for one: a
        consumer that was asked for a topic by name keeps the topic for ever. If that topic is deleted, the consumer
        keeps its leader, even after that broker has restarted, with a thread that is busy all the time.
        """
        with self._learning:
            if self._learned.get(reader, 0.0) < since:
                learned = False
                with contextlib.suppress(KafkaException):
                    learned = bool(reader.client.list_topics(timeout=TIMEOUT).brokers)
                reader.note(not learned)
                self._learned[reader] = time.monotonic()

    def hints(
        self, remote_partitions: Iterable[tuple[str, int]], refused: set[tuple[str, int]] | None = None
    ) -> dict[tuple[str, int], Position | None]:
        """Positions that may be older than the truth, because pending transactions are not waited for.

        A partition whose position the target refuses to give is added to `refused`. Without `refused` that is an error.
        Raises the same errors as `stable`.
        """
        asked = [TopicPartition(remote, partition) for remote, partition in remote_partitions]
        if not asked:
            return {}
        found = self._fetch_patiently(asked)
        for each in (f for f in found if f.error is not None):
            error = self._failed(f"no position of {each.topic}-{each.partition}", each.error)
            if error.away or refused is None:
                raise error
            refused.add((each.topic, each.partition))
        return {(f.topic, f.partition): from_committed(f) for f in found if f.error is None}

    def _fetch_patiently(self, asked: list[TopicPartition]) -> list[TopicPartition]:
        """Fetch from `_latest`. Ask again while the coordinator moves, or loads a partition that was just created."""
        deadline = time.monotonic() + COORDINATOR_PATIENCE
        while True:
            try:
                return self._fetch(self._latest, asked)
            except PartitionError as error:
                if error.blocked or time.monotonic() > deadline:
                    raise
                time.sleep(COORDINATOR_RETRY)

    def _fetch(self, reader: Reader, asked: list[TopicPartition], timeout: float = TIMEOUT) -> list[TopicPartition]:
        try:
            found = list(reader.client.committed(asked, timeout))
            reader.note(False)
            return found
        except KafkaException as error:
            reader.note(is_away(error.args[0]))
            raise self._failed(f"no positions of group {self._group}", error.args[0]) from error

    def _failed(self, what: str, error: KafkaError) -> ClusterAway | PartitionError:
        text = f"{what}: {error.str()}"
        return ClusterAway(self._target.alias, text) if is_away(error) else PartitionError(text, is_lasting(error))
