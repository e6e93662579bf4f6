"""The control topic (plans, claims, orders) and the status topic (reports), both compacted and on the target.

This module writes both and reads the status topic; control_reader.py reads the control topic.
"""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from mirror import decode
from mirror.control.decisions import Decision
from mirror.control.orders import KEY, VALUE_MAX, Order, Scope
from mirror.control.reports import Report, key_of
from mirror.errors import ClusterAway, FlowError
from mirror.kafka.client_errors import is_away, is_lasting
from mirror.kafka.clients import QUEUE_RECORDS, internal_consumer
from mirror.kafka.own_topic_producer import OwnTopicProducer, queued
from mirror.kafka.renewed import Outage, another, close_apart
from mirror.model import Partition
from mirror.settings import Flow
from mirror.timing import RECENT_REPORTS

log = logging.getLogger(__name__)

PLAN_KEY = b"plan"
INTENT_KEY = b"intent"  # the announcement of what the next plan is going to copy: see conflicts.py
CLAIM_KEY = b"claim/"
ORDER_KEY = KEY.encode()
# Errors that pass: the topic was just created, or its leader is moving.
NOT_YET = (
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
)
ALL_REPORTS = 2**62  # more than any topic has: a StatusReader that goes back so far begins at the beginning
RATE_SPAN = 1.0  # seconds between two reports of a partition that tell how fast it is copied, at least
READ_TIMEOUT = 10.0  # seconds without progress after which reading one of these topics to its end is given up


@dataclass(frozen=True, slots=True)
class Claim:
    """A task's statement that it owns a slice from now on. An older task of the slice gives way to it."""

    slice: int
    task: str
    service_id: str = ""  # of the service that has started the task
    spark_epoch: str = ""  # the same for all tasks of one Spark epoch; "": an older mirror wrote the claim

    def key(self) -> bytes:
        """The record key: a slice's newest claim replaces the older ones."""
        return CLAIM_KEY + str(self.slice).encode()

    def encode(self) -> bytes:
        """The record value, JSON."""
        return json.dumps({"task": self.task, "leader": self.service_id, "epoch": self.spark_epoch}).encode()

    @staticmethod
    def decode(key: bytes, value: bytes) -> Claim:
        """Decode what `key` and `encode` made. Raises DecodeError."""
        number = decode.number_of_key(key.removeprefix(CLAIM_KEY).decode("latin-1"))
        later = {"leader": decode.name, "epoch": decode.name}
        found = decode.fields(decode.parsed(value, VALUE_MAX), {"task": decode.name}, later)
        return Claim(number, found["task"], found.get("leader", ""), found.get("epoch", ""))


class ControlWriter:
    """Writes claims, orders and decisions to the control topic, and reports to the status topic.

    The flow leader writes its plans in transactions of its own producer, which these plain writes do not disturb. A
    flow without transactions writes its plans with this class, too.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._producer = OwnTopicProducer(flow.target)

    def claim(self, claim: Claim) -> None:
        """Write a claim and wait until it is acknowledged. Raises ClusterAway, FlowError when the target refuses it."""
        self.write({claim.key(): claim.encode()})

    def order(self, changes: Mapping[Scope, Order | None]) -> None:
        """Write orders (None removes one) and wait until they are acknowledged. Raises ClusterAway, FlowError."""
        self.write({scope.key(): order.encode() if order else None for scope, order in changes.items()})

    def decide(self, decisions: Iterable[Decision]) -> None:
        """Write decisions and wait until they are acknowledged. Raises ClusterAway, FlowError."""
        self.write({decision.key(): decision.encode() for decision in decisions})

    def write(self, records: Mapping[bytes, bytes | None]) -> None:
        """Write records to the control topic, in this order, and wait until they are acknowledged.

        Raises ClusterAway, FlowError when the target refuses them.
        """
        topic, failed = self._flow.control_topic, list[KafkaError]()

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        try:
            for key, value in records.items():
                queued(
                    partial(self._producer.produce, topic, value, key, delivered), self._producer.flush, READ_TIMEOUT
                )
        except KafkaException as error:  # the client believes that the topic does not exist
            failed.append(error.args[0])
        left = self._producer.flush(READ_TIMEOUT)
        if left:
            self._producer.purge()
        reason = f"{topic} accepts no records: {failed[0].str() if failed else 'no answer in time'}"
        if failed and not is_away(failed[0]) and failed[0].code() != KafkaError._MSG_TIMED_OUT:
            raise FlowError(f"flow {self._flow.name}: {reason}", is_lasting(failed[0]))
        if left or failed:
            raise ClusterAway(self._flow.target.alias, reason)

    def report(self, reports: Iterable[Report]) -> None:
        """Queue reports. A lost one does no harm: counters are cumulative, so the next one replaces it."""
        for report in reports:
            try:
                self._producer.produce(self._flow.status_topic, report.encode(), report.key())
            except (BufferError, KafkaException):  # KafkaException while the topic does not exist
                break
        self._producer.poll()

    def close(self, timeout: float) -> None:
        """Send what is queued, waiting `timeout` seconds at most."""
        self._producer.flush(timeout)


@dataclass(frozen=True, slots=True)
class DatedReport:
    """A report, and the time `at` which it was written: seconds since the Unix epoch.

    The clock is the task's, or the broker's if the topic has log append time.
    """

    report: Report
    at: float


class StatusReader:
    """Follows a flow's status topic from its end, or from `back` records before it."""

    def __init__(self, flow: Flow, back: int = 0) -> None:
        self.ignored = 0  # number of reports that could not be decoded
        self._flow = flow
        self._cluster, self._topic = flow.target.alias, flow.status_topic
        self._outage = Outage(flow.target)
        self._consumer: Consumer = internal_consumer(flow.target, flow.group)
        try:
            self._end = end_of(self._consumer, self._topic, self._cluster)
        except ClusterAway:
            self.close()
            raise
        self._next = max(0, self._end - back)
        self._consumer.assign([TopicPartition(self._topic, 0, self._next)])

    @staticmethod
    def recent(flow: Flow, partitions: int, wanted: Iterable[Partition]) -> Iterator[Report]:
        """The last reports of the `wanted` partitions, the oldest first; the flow has `partitions` partitions in all.

        No other report is decoded: every task reads this when it starts. Raises ClusterAway.
        """
        keys = {key_of(partition) for partition in wanted}
        with closing(StatusReader(flow, _back(partitions))) as reader:
            for dated in reader._decoded(message for message in reader._to_end() if message.key() in keys):
                yield dated.report

    @staticmethod
    def newest(flow: Flow, partitions: int | None = None) -> list[DatedReport]:
        """The newest reports of each partition of a flow, the oldest first. Raises ClusterAway.

        Of each partition these are the last report, those that are at most RATE_SPAN older, and the one before them.
        They are among the last of a flow with this number of `partitions`; None: the whole topic is read.
        """
        kept: dict[bytes | None, deque[Message]] = {}
        with closing(StatusReader(flow, ALL_REPORTS if partitions is None else _back(partitions))) as reader:
            for message in (each for each in reader._to_end() if each.value() is not None):
                some = kept.setdefault(message.key(), deque(maxlen=RECENT_REPORTS))
                some.append(message)
                while len(some) > 2 and _at(message) - _at(some[1]) > RATE_SPAN:
                    some.popleft()
            return list(reader._decoded(message for some in kept.values() for message in some))

    @staticmethod
    def last(flow: Flow, partitions: Iterable[Partition]) -> list[Report]:
        """The last report of each of these partitions, however old it is. Raises ClusterAway.

        It reads the whole topic, but decodes no other report: there may be millions.
        """
        keys = {key_of(partition) for partition in partitions}
        with closing(StatusReader(flow, back=ALL_REPORTS)) as reader:
            newest = {message.key(): message for message in reader._to_end() if message.key() in keys}
            return [dated.report for dated in reader._decoded(newest.values())]

    def poll(self, timeout: float) -> list[Report]:
        """The reports that arrive within `timeout` seconds."""
        return [dated.report for dated in self._decoded(self._poll(timeout))]

    def history(self) -> Iterator[DatedReport]:
        """All reports up to the end that the topic had when this reader was created, the oldest first.

        There may be millions, so few are held at once. Raises ClusterAway.
        """
        return self._decoded(self._to_end())

    def _to_end(self) -> Iterator[Message]:
        deadline = time.monotonic() + READ_TIMEOUT
        while (before := self._next) < self._end:
            yield from self._poll(0.1)
            if self._next != before:
                deadline = time.monotonic() + READ_TIMEOUT
            elif time.monotonic() > deadline:
                raise ClusterAway(self._cluster, f"{self._topic} can't be read to its end")

    def _poll(self, timeout: float) -> list[Message]:
        found = []
        # No more at once: each may have INTERNAL_MAX bytes, however few it has while it is compressed.
        messages = self._consumer.consume(QUEUE_RECORDS, timeout)
        for message in messages:
            error = message.error()
            if error is None:
                self._next = message.offset() + 1
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._next = message.offset()
        if self._outage.has_lost(self._consumer, [Partition(self._topic, 0)], not messages):
            self._consumer = another(self._consumer, lambda: internal_consumer(self._flow.target, self._flow.group))
            self._consumer.assign([TopicPartition(self._topic, 0, self._next)])
        return found

    def _decoded(self, messages: Iterable[Message]) -> Iterator[DatedReport]:
        """The reports in these records, without those that can't be decoded."""
        for message in messages:
            value = message.value()
            try:
                if value is not None:
                    yield DatedReport(Report.decode(value), _at(message))
            except decode.DecodeError as error:
                self.ignored += 1
                where = {"flow": self._flow.name, "topic": self._topic, "reason": str(error)}
                log.warning("report that can't be decoded is ignored", extra=where)

    def close(self) -> None:
        """Leave the topic, without waiting for that."""
        close_apart(self._consumer)


def _back(partitions: int) -> int:
    """So many records at the end of the status topic have a report of each partition, if the tasks run."""
    return RECENT_REPORTS * (10 + partitions)


def _at(message: Message) -> float:
    """When a report was written: seconds since the Unix epoch."""
    return float(message.timestamp()[1] / 1000)


def end_of(consumer: Consumer, topic: str, cluster: str) -> int:
    """The current end offset of one of these topics. Raises ClusterAway."""
    return span_of(consumer, topic, cluster)[1]


def span_of(consumer: Consumer, topic: str, cluster: str) -> tuple[int, int]:
    """The offset where one of these topics begins now, and its end. Raises ClusterAway."""
    deadline = time.monotonic() + READ_TIMEOUT
    while True:
        left = deadline - time.monotonic()
        try:
            begin, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), max(0.1, left))
            return begin, end
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            if cause.code() not in NOT_YET or left <= 0:
                raise ClusterAway(cluster, f"{topic} can't be read: {cause.str()}") from error
            time.sleep(0.1)  # not poll: that could take a record which the caller would then never see
