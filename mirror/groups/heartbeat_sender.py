"""Writes MirrorMaker's heartbeats to the source; they come to the target as any other records."""

from __future__ import annotations

import logging
import threading
import time

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.admin import NewTopic

from mirror.control.leader_thread import LeaderPart
from mirror.errors import ClusterAway
from mirror.groups.heartbeats import Heartbeat
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.own_topic_producer import OwnTopicProducer
from mirror.logs import OnChange
from mirror.naming import HEARTBEATS
from mirror.settings import Flow

log = logging.getLogger(__name__)

CLOSE_TIMEOUT = 1.0  # seconds


class HeartbeatSender(LeaderPart):
    """Sends a heartbeat each `heartbeats.interval`, in a thread of its own. Only the flow leader has one."""

    def __init__(self, flow: Flow) -> None:
        super().__init__("heartbeats", flow)
        self._why = OnChange()  # used by the thread alone, which also runs the producer's callbacks

    @property
    def wanted(self) -> bool:
        """True if the configuration wants it."""
        return self._flow.heartbeats.enabled

    def _work(self, stopping: threading.Event) -> None:
        flow = self._flow
        admin, producer = ClusterAdmin(flow.source), OwnTopicProducer(flow.source)
        exists = False
        while not stopping.is_set():
            exists = exists or self._create_topic(admin)
            if exists:
                beat = Heartbeat(flow.source.alias, flow.target.alias, int(time.time() * 1000))
                try:
                    producer.produce(HEARTBEATS, beat.value(), beat.key(), self._delivered)
                except KafkaException as error:  # the topic is gone, or the queue is full
                    self._say(error.args[0].str())
                    exists = False
                producer.poll()
            stopping.wait(flow.heartbeats.interval)
        producer.flush(CLOSE_TIMEOUT)

    def _create_topic(self, admin: ClusterAdmin) -> bool:
        """True if the topic exists, now at least."""
        factor = self._flow.internal_replication_factor
        topic = NewTopic(HEARTBEATS, 1, factor, config={"cleanup.policy": "compact"})
        try:
            refused = admin.create_topics([topic]).get(HEARTBEATS)
        except ClusterAway as error:
            self._say(str(error))
            return False
        if refused is None or refused.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return True
        self._say(f"the topic can't be created: {refused.str()}")
        return False

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._say(error.str())
        elif self._why.clear():
            log.info("heartbeats are written again", extra={"flow": self._flow.name})

    def _say(self, reason: str) -> None:
        if self._why.is_new(reason):
            where = {"flow": self._flow.name, "topic": HEARTBEATS, "reason": reason}
            log.warning("no heartbeat can be written to the source now, the next one is tried", extra=where)
