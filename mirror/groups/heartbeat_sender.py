"""Writes MirrorMaker's heartbeats to the source; they come to the target as any other records."""

from __future__ import annotations

import logging
import threading
import time

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.admin import NewTopic

from mirror.errors import ClusterAway
from mirror.groups.heartbeats import Heartbeat
from mirror.kafka.clients import internal_producer
from mirror.kafka.cluster import ClusterAdmin
from mirror.logs import OnChange
from mirror.naming import HEARTBEATS
from mirror.settings import Flow
from mirror.text import BUG

log = logging.getLogger(__name__)

CLOSE_TIMEOUT = 1.0  # seconds


class HeartbeatSender:
    """Sends a heartbeat each `heartbeats.interval`, in a thread of its own. Only the flow leader has one."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._stopping: threading.Event | None = None  # of the thread that runs
        self._why = OnChange()  # used by the thread's callbacks alone

    def start(self) -> None:
        """Begin, unless it has begun or heartbeats are not wanted."""
        if self._flow.heartbeats.enabled and self._stopping is None:
            self._stopping = threading.Event()
            name = f"heartbeats {self._flow.name}"
            threading.Thread(target=self._run, args=(self._stopping,), daemon=True, name=name).start()

    def stop(self) -> None:
        """End; `start` begins again."""
        if self._stopping is not None:
            self._stopping.set()
            self._stopping = None

    def _run(self, stopping: threading.Event) -> None:
        try:
            self._send_until(stopping)
        except Exception:  # heartbeats must not end the copying
            log.exception(BUG, extra={"flow": self._flow.name})

    def _send_until(self, stopping: threading.Event) -> None:
        flow = self._flow
        producer = internal_producer(flow.source)
        exists = False
        while not stopping.is_set():
            exists = exists or self._create_topic()
            if exists:
                beat = Heartbeat(flow.source.alias, flow.target.alias, int(time.time() * 1000))
                try:
                    producer.produce(HEARTBEATS, beat.value(), beat.key(), 0, self._delivered)
                except KafkaException as error:  # the topic is gone, or the queue is full
                    self._say(error.args[0].str())
                    exists = False
                producer.poll(0)
            stopping.wait(flow.heartbeats.interval)
        producer.flush(CLOSE_TIMEOUT)

    def _create_topic(self) -> bool:
        """True if the topic exists, now at least."""
        factor = self._flow.internal_replication_factor
        topic = NewTopic(HEARTBEATS, 1, factor, config={"cleanup.policy": "compact"})
        try:
            refused = ClusterAdmin(self._flow.source).create_topics([topic]).get(HEARTBEATS)
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
