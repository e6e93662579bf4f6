"""A topic on a flow's source that mirror writes to: heartbeats, and the canary."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.admin import NewTopic

from mirror.errors import ClusterAway
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.own_topic_producer import OwnTopicProducer
from mirror.kafka.topic_creation import create
from mirror.logs import OnChange
from mirror.settings import Flow

log = logging.getLogger(__name__)

CLOSE_TIMEOUT = 1.0  # seconds


class SourceTopic:
    """Creates the topic if it is missing, and writes to it. A record that is not written is given up: the next is due.

    What goes wrong is logged once. One thread uses it; the callbacks of the producer run in that thread, too.
    """

    def __init__(self, flow: Flow, topic: str, config: Mapping[str, str], what: str) -> None:
        """`config` is that of a new topic. `what` says in the log what the records are."""
        self.problem = ""  # why the last record was not written; "" if it was, or if that is not known yet
        self.created = 0  # how often it was created here
        self._where = {"flow": flow.name, "topic": topic}
        self._topic = NewTopic(topic, 1, flow.internal_replication_factor, config=dict(config))
        self._what = what
        self._admin, self._producer = ClusterAdmin(flow.source), OwnTopicProducer(flow.source)
        self._exists = False  # as far as is known
        self._why = OnChange()

    def write(self, key: bytes, value: bytes) -> bool:
        """Queue a record. False if that is not possible now; then `problem` says why."""
        self._exists = self._exists or self._create()
        if self._exists:
            try:
                self._producer.produce(self._topic.topic, value, key, self._delivered)
            except KafkaException as error:  # the client believes that there is no topic
                self._fail(error.args[0].str())
            except BufferError:
                self._fail("too many records wait for it")
        self._producer.poll()
        return self._exists

    def poll(self) -> None:
        """Find out what became of the records."""
        self._producer.poll()

    def close(self) -> None:
        """Wait a moment for what is queued."""
        self._producer.flush(CLOSE_TIMEOUT)

    def _create(self) -> bool:
        """True if the topic exists now. Somebody else may have created it, so it is looked for first."""
        name = self._topic.topic
        try:
            found, _ = self._admin.ids_now([name])
            refused = None if name in found else create(self._admin, [self._topic])[0].get(name)
        except ClusterAway as error:
            self._fail(str(error))
            return False
        if refused is not None:
            self._fail(f"the topic can't be created: {refused.str()}")
            return False
        self.created += name not in found
        return True

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._fail(error.str())
            return
        self.problem = ""
        if self._why.clear():
            log.info(f"{self._what} are written again", extra=self._where)

    def _fail(self, reason: str) -> None:
        self.problem, self._exists = reason, False
        if self._why.is_new(reason):
            said = f"{self._what} can't be written to the source now, the next one is tried"
            log.warning(said, extra={**self._where, "reason": reason})
