"""A producer for mirror's own topics that survives a topic which is deleted and created again."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Message

from mirror.errors import ClusterAway
from mirror.kafka.credentials import FileChanges
from mirror.kafka.producers import internal_producer
from mirror.settings import Cluster

BY_KEY = -1  # stands for the partition that Java's producer would choose, by the record's key


def queued(produce: Callable[[], object], flush: Callable[[float], int], timeout: float) -> None:
    """Queue one of many records. If the queue is full, wait until it is empty, at most `timeout` seconds.

    The user's queue.buffering.max.messages may be small. Raises KafkaException if nobody takes what is queued.
    """
    try:
        produce()
    except BufferError:
        if flush(timeout):
            raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT, "no answer in time")) from None
        produce()


class OwnTopicProducer:
    """Writes to one partition of topics, or BY_KEY.

    After a record that was not delivered, or once a file with the cluster's credentials has changed, another client
    takes over.

    librdkafka ignores the leader of a topic that was created again if its epoch is lower than the old topic's was: it
    writes to the old topic's leader for ever (issue 4898 there). A new client knows nothing of the old topic.
    """

    def __init__(self, cluster: Cluster, partition: int = 0) -> None:
        self._cluster = cluster
        self._partition = partition
        self._changes = FileChanges(cluster)
        self._client = internal_producer(cluster)
        self._failed = False

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes,
        delivered: Callable[[KafkaError | None, Message], object] = lambda *_: None,
    ) -> None:
        """Queue a record. Raises BufferError, and KafkaException while the client believes that there is no topic."""
        if self._failed or (self._changes.any() and len(self._client) == 0):
            self._renew()

        def noted(error: KafkaError | None, message: Message) -> None:
            self._failed |= error is not None
            delivered(error, message)

        try:
            self._client.produce(topic, value, key, self._partition, noted)
        except KafkaException:
            self._failed = True
            raise

    def _renew(self) -> None:
        """Make another client. Where that is not possible now, as without a token, this one goes on until it is."""
        self._changes.note()
        try:
            made = internal_producer(self._cluster)
        except (ClusterAway, KafkaException):
            self._failed = True
            return
        self._client.purge()
        self._client, self._failed = made, False

    def poll(self) -> None:
        """Serve the callbacks of what was delivered."""
        self._client.poll(0)

    def flush(self, timeout: float) -> int:
        """Wait until all is delivered, at most `timeout` seconds. Returns how many records are not."""
        left = int(self._client.flush(timeout))
        self._failed |= left > 0
        return left

    def purge(self) -> None:
        """Give up what is not delivered yet."""
        self._client.purge()
