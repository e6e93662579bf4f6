"""The control topic (plans, claims, orders) and the status topic (reports), both compacted and on the target."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from mirror.clients import internal_consumer, internal_producer, is_away
from mirror.errors import ClusterAway, FlowError, ForeignPlan
from mirror.orders import KEY, SKIP_KEY, Order, Scope, Skip
from mirror.plan import Partition, Plan
from mirror.reports import Report
from mirror.settings import Flow

log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())  # in Spark's planner nobody has set up a log: the service says it, and the tasks

PLAN_KEY = b"plan"
CLAIM_KEY = b"claim/"
ORDER_KEY = KEY.encode()
# What a broker says of a topic that was just created, or whose leader moves.
NOT_YET = (
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
)
READ_TIMEOUT = 10.0  # seconds without anything new in which a channel that is read to its end is waited for
NOT_READ = "another version of mirror wrote it: run one version only, and give orders again with its pause and resume"


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

    @staticmethod
    def decode(key: bytes, value: bytes) -> Claim:
        """The claim that `key` and `encode` made. Raises ValueError, KeyError or TypeError."""
        return Claim(int(key.removeprefix(CLAIM_KEY)), str(json.loads(value)["task"]))


class ControlReader:
    """Follows a flow's control topic from its beginning; `plan`, `claims` and `orders` are the newest it has seen.

    Orders, skips and claims that can't be decoded are ignored, with a warning. Without the newest plan nobody must go
    on, or generations and `initial` would begin anew: as long as it can't be decoded every reading raises ForeignPlan,
    and `plan` is None.

    Safe to be used by several threads.
    """

    def __init__(self, flow: Flow) -> None:
        self.plan: Plan | None = None
        self.claims: dict[int, str] = {}
        self.orders: Mapping[Scope, Order] = {}  # replaced as a whole by every change
        self.skips: Mapping[Partition, Skip] = {}  # the same
        self._flow = flow
        self._cluster = flow.target.alias
        self._topic = flow.control_topic
        self._newest_plan: bytes | None = None  # while it is not decoded
        self._reached = 0
        self._rests = True
        self._lock = threading.Lock()
        self._consumer = internal_consumer(flow.target, flow.group)

    def poll(self, timeout: float) -> bool:
        """Take what comes within `timeout` seconds; True if something changed. Raises ForeignPlan."""
        with self._lock:
            changed = self._take(timeout) is None
            self._decode_plan()
            return changed

    def read_to_end(self) -> None:
        """Take everything up to the topic's end as it is now.

        Raises ClusterAway when it does not answer, ForeignPlan for a plan of another version of mirror.
        """
        with self._lock:
            if self._rests:
                self._consumer.assign([TopicPartition(self._topic, 0, self._reached)])
                self._rests = False
            try:
                self._take_all()
            finally:
                self._decode_plan()

    def rest(self) -> None:
        """Fetch nothing until `read_to_end`.

        Of records that were fetched and that nobody takes, librdkafka keeps the broker that gave them, though that has
        restarted since, with a thread that looks for its end a thousand times a second.
        """
        with self._lock:
            self._consumer.unassign()
            self._rests = True

    def close(self) -> None:
        """Leave the topic."""
        with self._lock:
            self._consumer.close()

    def _take_all(self) -> None:
        end = _end(self._consumer, self._topic, self._cluster, time.monotonic() + READ_TIMEOUT)
        deadline = time.monotonic() + READ_TIMEOUT
        while (before := self._reached) < end:
            error = self._take(0.1)
            if self._reached != before:  # however long the topic and slow the link
                deadline = time.monotonic() + READ_TIMEOUT
            elif time.monotonic() > deadline:
                reason = f"{self._topic} can't be read to its end: {error or 'no answer in time'}"
                raise ClusterAway(self._cluster, reason)

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
        try:
            return None if self._keep(key, value) else ""
        except Exception as error:  # whatever decoding raises
            if value is not None:  # what has gone by now needs no warning
                reason = f"{NOT_READ} ({error!r})"
                where = {"flow": self._flow.name, "topic": self._topic, "key": key.decode(errors="replace")}
                log.warning("record that can't be decoded is ignored", extra={**where, "reason": reason})
            return ""

    def _keep(self, key: bytes, value: bytes | None) -> bool:
        """False if it changes nothing. Raises whatever decoding raises."""
        if key.startswith(ORDER_KEY):
            self._keep_order(Scope.decode(key), value)
        elif value is None:
            return False
        elif key == PLAN_KEY:
            self._newest_plan = value
        elif key.startswith(SKIP_KEY.encode()):
            skip = Skip.decode(key, value)
            self.skips = {**self.skips, skip.partition: skip}
        elif key.startswith(CLAIM_KEY):
            claim = Claim.decode(key, value)
            self.claims[claim.slice] = claim.task
        return True

    def _keep_order(self, scope: Scope, value: bytes | None) -> None:
        others = {each: order for each, order in self.orders.items() if each != scope}
        self.orders = others if value is None else others | {scope: Order.decode(value)}

    def _decode_plan(self) -> None:
        """Only the newest plan counts: thousands may be on the way to the end."""
        if self._newest_plan is None:
            return
        try:
            self.plan = Plan.decode(self._newest_plan)
        except Exception as error:  # whatever decoding raises
            self.plan = None
            raise ForeignPlan(
                f"flow {self._flow.name}: the plan on {self._topic} is of another version of mirror and can't be "
                f"decoded ({error!r}): run the version that wrote it, or a newer one"
            ) from error
        self._newest_plan = None


class ChannelWriter:
    """Writes claims and orders to the control topic, reports to the status topic.

    The leader's plans are in transactions of its own producer, which these plain writes do not disturb; where there
    are no transactions they are plain writes, too.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._producer: Producer = internal_producer(flow.target)

    def claim(self, claim: Claim) -> None:
        """Write a claim and wait until it stands. Raises ClusterAway, FlowError when the target refuses it."""
        self._control({claim.key(): claim.encode()})

    def order(self, changes: Mapping[Scope, Order | None]) -> None:
        """Write orders, None lifts one, and wait until they stand. Raises ClusterAway, FlowError."""
        self._control({scope.key(): order.encode() if order else None for scope, order in changes.items()})

    def skip(self, skips: Iterable[Skip]) -> None:
        """Write these choices and wait until they stand. Raises ClusterAway, FlowError."""
        self._control({skip.key(): skip.encode() for skip in skips})

    def plan(self, plan: Plan) -> None:
        """Write a plan without a transaction and wait until it stands. Raises ClusterAway, FlowError."""
        self._control({PLAN_KEY: plan.encode()})

    def _control(self, records: Mapping[bytes, bytes | None]) -> None:
        topic, failed = self._flow.control_topic, list[KafkaError]()
        for key, value in records.items():
            self._producer.produce(topic, value, key, 0, lambda error, _: failed.append(error) if error else None)
        left = self._producer.flush(READ_TIMEOUT)
        if left:
            self._producer.purge()
        reason = f"{topic} takes no record: {failed[0].str() if failed else 'no answer in time'}"
        if failed and not is_away(failed[0]) and failed[0].code() != KafkaError._MSG_TIMED_OUT:
            raise FlowError(f"flow {self._flow.name}: {reason}")
        if left or failed:
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


@dataclass(frozen=True, slots=True)
class Heard:
    """A report, and when it was written: seconds since the Unix epoch, by the clock of the task or the broker."""

    report: Report
    at: float


class StatusReader:
    """Follows a flow's status topic from its end, or from `back` records before it."""

    def __init__(self, flow: Flow, back: int = 0) -> None:
        self._cluster, self._topic = flow.target.alias, flow.status_topic
        self._consumer: Consumer = internal_consumer(flow.target, flow.group)
        try:
            self._end = _end(self._consumer, self._topic, self._cluster, time.monotonic() + READ_TIMEOUT)
        except ClusterAway:
            self._consumer.close()
            raise
        self._next = max(0, self._end - back)
        self._consumer.assign([TopicPartition(self._topic, 0, self._next)])

    def poll(self, timeout: float) -> list[Report]:
        """Reports that come within `timeout` seconds."""
        return [heard.report for heard in self._hear(timeout)]

    def history(self) -> list[Heard]:
        """All reports up to the topic's end as it was at the start, oldest first. Raises ClusterAway."""
        found: list[Heard] = []
        deadline = time.monotonic() + READ_TIMEOUT
        while self._next < self._end:
            heard = self._hear(0.1)
            found += heard
            if heard:
                deadline = time.monotonic() + READ_TIMEOUT
            elif time.monotonic() > deadline:
                raise ClusterAway(self._cluster, f"{self._topic} can't be read to its end")
        return found

    def _hear(self, timeout: float) -> list[Heard]:
        found = []
        for message in self._consumer.consume(1000, timeout):
            error = message.error()
            if error is None:
                self._next = message.offset() + 1
                report = None if message.value() is None else Report.decode(message.value())
                if report is not None:
                    found.append(Heard(report, message.timestamp()[1] / 1000))
            elif error.code() == KafkaError._PARTITION_EOF:
                self._next = message.offset()
        return found

    def close(self) -> None:
        """Leave the topic."""
        self._consumer.close()


def _end(consumer: Consumer, topic: str, cluster: str, deadline: float) -> int:
    """The end of a channel as it is now. Raises ClusterAway."""
    while True:
        left = deadline - time.monotonic()
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), max(0.1, left))[1])
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            if cause.code() not in NOT_YET or left <= 0:
                raise ClusterAway(cluster, f"{topic} can't be read: {cause.str()}") from error
            time.sleep(0.1)  # a poll would take a record that nobody sees again
