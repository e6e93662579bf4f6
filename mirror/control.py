"""Following the control topic: what the newest plan, claims and orders are."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping

from confluent_kafka import KafkaError, TopicPartition

from mirror.channel import CLAIM_KEY, ORDER_KEY, PLAN_KEY, READ_TIMEOUT, Claim, end_of
from mirror.clients import internal_consumer
from mirror.errors import ClusterAway, ForeignPlan
from mirror.orders import SKIP_KEY, Order, Scope, Skip
from mirror.plan import Partition, Plan
from mirror.settings import Flow

log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())  # in Spark's planner nobody has set up a log: the service says it, and the tasks

STRAGGLE = 0.1  # seconds in which answers still come to a reader that fetches no more
NOT_READ = "another version of mirror wrote it: run one version only, and give orders again with its pause and resume"


class ControlReader:
    """Follows a flow's control topic from its beginning; `plan`, `claims` and `orders` are the newest it has seen.

    Orders, skips and claims that can't be decoded are ignored, with a warning. Without the newest plan nobody must go
    on, or generations and `initial` would begin anew: as long as it can't be decoded every reading raises ForeignPlan,
    and `plan` is None.

    Only with `follow` may it be polled, and then without end: of records that were fetched and that nobody takes
    librdkafka keeps the broker that gave them, though that has restarted since, with a thread that looks for its end a
    thousand times a second. Others fetch nothing between two readings.

    Safe to be used by several threads.
    """

    def __init__(self, flow: Flow, follow: bool = False) -> None:
        self.plan: Plan | None = None
        self.claims: dict[int, str] = {}
        self.orders: Mapping[Scope, Order] = {}  # replaced as a whole by every change
        self.skips: Mapping[Partition, Skip] = {}  # the same
        self._flow = flow
        self._cluster = flow.target.alias
        self._topic = flow.control_topic
        self._newest_plan: bytes | None = None  # while it is not decoded
        self._reached = 0
        self._follow = follow
        self._fetches = False
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
            try:
                self._take_all(end_of(self._consumer, self._topic, self._cluster))
            finally:
                self._rest()
                self._decode_plan()

    def close(self) -> None:
        """Leave the topic."""
        with self._lock:
            self._consumer.close()

    def _rest(self) -> None:
        if self._fetches and not self._follow:
            self._consumer.unassign()
            self._fetches = False
            self._consumer.poll(STRAGGLE)  # lets go of what came meanwhile

    def _take_all(self, end: int) -> None:
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
        if not self._fetches:
            self._consumer.assign([TopicPartition(self._topic, 0, self._reached)])
            self._fetches = True
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
