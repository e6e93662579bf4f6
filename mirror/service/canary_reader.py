"""Reads a flow's canaries on the target."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from mirror.control.control_topics import end_of
from mirror.errors import ClusterAway
from mirror.kafka.clients import internal_consumer
from mirror.kafka.credentials import FileChanges
from mirror.kafka.polling import polled
from mirror.kafka.renewed import end_later
from mirror.settings import Flow

TAIL = 100  # offsets before the end at which reading begins; other flows and markers have most of them
AT_ONCE = 1_000  # records


class CanaryReader:
    """Reads the records with the flow's key, from shortly before the end of the topic on. Only one thread uses it.

    A consumer can lose its cluster (see kafka/renewed.py), or a topic that was deleted and created again. So the caller
    calls `renew` after it has waited in vain: a new consumer knows nothing of the old topic.
    """

    def __init__(self, flow: Flow) -> None:
        self.problem = ""  # why nothing can be read; "" if that is not known, or nothing is wrong
        self._flow = flow
        self._key = flow.name.encode()
        self._changes = FileChanges(flow.target)
        self._consumer: Consumer | None = None

    @property
    def is_open(self) -> bool:
        """True if the last `renew` has succeeded, and the target's credentials have not changed since."""
        return self._consumer is not None and not self._changes.any()

    def renew(self) -> None:
        """Begin to read, or begin anew. If that is not possible now, `problem` says why."""
        self.close()
        self._changes.note()
        topic = self._flow.canary_topic
        try:
            consumer = internal_consumer(self._flow.target, self._flow.group)
        except (ClusterAway, KafkaException) as error:  # there is no token, or a certificate without its key
            self.problem = str(error)
            return
        try:
            end = end_of(consumer, topic, self._flow.target.alias)
        except ClusterAway as error:
            self.problem = str(error)
            end_later(consumer)
            return
        consumer.assign([TopicPartition(topic, 0, max(0, end - TAIL))])
        self._consumer, self.problem = consumer, ""

    def poll(self, timeout: float) -> Iterator[bytes]:
        """The values that arrive within `timeout` seconds."""
        if self._consumer is None:
            return
        for message in polled(self._consumer, timeout, AT_ONCE):
            error, value = message.error(), message.value()
            if error is None:
                self.problem = ""
                if message.key() == self._key and value is not None:
                    yield value
            elif error.code() != KafkaError._PARTITION_EOF:
                self.problem = error.str()

    def close(self) -> None:
        """End the consumer."""
        if self._consumer is not None:
            end_later(self._consumer)
            self._consumer = None
