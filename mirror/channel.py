"""The control topic (plans, claims) and the status topic (reports), both compacted and on the target."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from mirror.clients import internal_consumer, internal_producer
from mirror.errors import ClusterAway
from mirror.plan import Plan
from mirror.reports import Report
from mirror.settings import Flow

PLAN_KEY = b"plan"
CLAIM_KEY = b"claim/"
UNKNOWN = (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART)
READ_TIMEOUT = 10.0  # seconds to read a channel to its end


@dataclass(frozen=True, slots=True)
class Claim:
    """A task says that a slice is now its own; an older task of the same slice gives way to it."""

    slice: int
    task: str

    def key(self) -> bytes:
        """The record key: one per slice, so the newest claim stands."""
        return CLAIM_KEY + str(self.slice).encode()

    def encode(self) -> bytes:
        """The record value, JSON."""
        return json.dumps({"task": self.task}).encode()


class ControlReader:
    """Follows a flow's control topic from its beginning; `plan` and `claims` are the newest it has seen.

    Safe to be used by several threads.
    """

    def __init__(self, flow: Flow) -> None:
        self.plan: Plan | None = None
        self.claims: dict[int, str] = {}
        self._cluster = flow.target.alias
        self._topic = flow.control_topic
        self._reached = 0
        self._lock = threading.Lock()
        self._consumer = internal_consumer(flow.target, flow.group)
        self._consumer.assign([TopicPartition(self._topic, 0, 0)])

    def poll(self, timeout: float) -> bool:
        """Take what comes within `timeout` seconds; True if the plan or a claim changed."""
        with self._lock:
            return self._take(timeout) is None

    def read_to_end(self) -> None:
        """Take everything up to the topic's end as it is now. Raises ClusterAway when it does not answer."""
        deadline = time.monotonic() + READ_TIMEOUT
        with self._lock:
            end = self._end(deadline)
            while self._reached < end:
                error = self._take(0.1)
                if time.monotonic() > deadline:
                    reason = f"{self._topic} can't be read to its end: {error or 'no answer in time'}"
                    raise ClusterAway(self._cluster, reason)

    def close(self) -> None:
        """Leave the topic."""
        with self._lock:
            self._consumer.close()

    def _end(self, deadline: float) -> int:
        while True:
            left = deadline - time.monotonic()
            try:
                return int(self._consumer.get_watermark_offsets(TopicPartition(self._topic, 0), max(0.1, left))[1])
            except KafkaException as error:
                cause: KafkaError = error.args[0]
                # A topic that was just created is not known to every broker at once.
                if cause.code() not in UNKNOWN or left <= 0:
                    raise ClusterAway(self._cluster, f"{self._topic} can't be read: {cause.str()}") from error
                self._consumer.poll(0.1)

    def _take(self, timeout: float) -> str | None:
        """None if something changed; else why not ("" for nothing new)."""
        message = self._consumer.poll(timeout)
        if message is None:
            return ""
        if message.error() is not None:
            if message.error().code() == KafkaError._PARTITION_EOF:
                self._reached = message.offset()
            return str(message.error().str())
        self._reached = message.offset() + 1
        key, value = message.key() or b"", message.value()
        if value is None:
            return ""
        if key == PLAN_KEY:
            self.plan = Plan.decode(value)
        elif key.startswith(CLAIM_KEY):
            self.claims[int(key[len(CLAIM_KEY) :])] = json.loads(value)["task"]
        return None


class ChannelWriter:
    """A task's voice: its claim on the control topic, its reports on the status topic."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._producer: Producer = internal_producer(flow.target)

    def claim(self, claim: Claim) -> None:
        """Write a claim and wait until it stands. Raises ClusterAway."""
        failed: list[KafkaError] = []
        self._producer.produce(
            self._flow.control_topic,
            claim.encode(),
            claim.key(),
            0,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        left = self._producer.flush(READ_TIMEOUT)
        if left or failed:
            self._producer.purge()
            reason = f"{self._flow.control_topic} takes no claim: {failed or 'no answer in time'}"
            raise ClusterAway(self._flow.target.alias, reason)

    def report(self, reports: Iterable[Report]) -> None:
        """Queue reports. One that is lost is replaced by the next: counters are cumulative."""
        for report in reports:
            try:
                self._producer.produce(self._flow.status_topic, report.encode(), report.key(), 0)
            except BufferError:
                break
        self._producer.poll(0)

    def close(self, timeout: float) -> None:
        """Send what is queued, within `timeout` seconds."""
        self._producer.flush(timeout)


class StatusReader:
    """Follows a flow's status topic from its end."""

    def __init__(self, flow: Flow) -> None:
        self._topic = flow.status_topic
        self._consumer: Consumer = internal_consumer(flow.target, flow.group)
        try:
            _, end = self._consumer.get_watermark_offsets(TopicPartition(self._topic, 0), READ_TIMEOUT)
        except KafkaException as error:
            self._consumer.close()
            reason = f"{self._topic} can't be read: {error.args[0].str()}"
            raise ClusterAway(flow.target.alias, reason) from error
        self._consumer.assign([TopicPartition(self._topic, 0, end)])

    def poll(self, timeout: float) -> list[Report]:
        """Reports that come within `timeout` seconds."""
        messages = self._consumer.consume(1000, timeout)
        reports = (Report.decode(m.value()) for m in messages if m.error() is None and m.value() is not None)
        return [report for report in reports if report is not None]

    def close(self) -> None:
        """Leave the topic."""
        self._consumer.close()
