"""Following the control topic: what the newest plan, claims and orders are."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, TopicPartition

from mirror.control.decisions import KEY as DECISION_KEY
from mirror.control.decisions import Decision
from mirror.control.orders import Order, Scope, replayed
from mirror.control.plan import Plan
from mirror.control.topics import CLAIM_KEY, INTENT_KEY, ORDER_KEY, PLAN_KEY, READ_TIMEOUT, Claim, end_of
from mirror.errors import ClusterAway, ForeignPlan
from mirror.kafka.clients import internal_consumer
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.topic_ids import KnownIds, TopicIds
from mirror.model import Partition
from mirror.settings import Flow

log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())  # in Spark's planner nobody has set up a log: the service says it, and the tasks

REMEMBERED = 1_000  # take-overs that nobody has taken out
STRAGGLE = 0.1  # seconds in which answers still come to a reader that fetches no more
NOT_READ = "another version of mirror wrote it: run one version only, and give orders again with its pause and resume"


@dataclass
class SinceRecreation:
    """What a control topic says to which no leader has written its plan yet: it was deleted, and made again."""

    orders: dict[Scope, Order | None] = field(default_factory=dict)  # None: lifted
    decisions: dict[Partition, Decision] = field(default_factory=dict)


class ControlReader:
    """Follows a flow's control topic from its beginning; `plan`, `claims` and `orders` are the newest it has seen.

    Orders, decisions and claims that can't be decoded are ignored, with a warning. Without the newest plan nobody must
    go on, or generations and `initial` would begin anew: as long as it can't be decoded every reading raises
    ForeignPlan, and `plan` is None.

    A topic that was deleted and made again has another id (KIP-516), and is read from its beginning, whatever its end
    is. What was known stands until the leader has written its plan there, with all that it knew: see `unwritten`.

    Only with `follow` may it be polled, and then without end: of records that were fetched and that nobody takes
    librdkafka keeps the broker that gave them, though that has restarted since, with a thread that looks for its end a
    thousand times a second. Others fetch nothing between two readings.

    Safe to be used by several threads.
    """

    def __init__(self, flow: Flow, follow: bool = False) -> None:
        self.plan: Plan | None = None
        self.intent: bytes | None = None
        self.claims: dict[int, str] = {}
        self.take_overs: deque[Claim] = deque(maxlen=REMEMBERED)  # for whoever takes them out
        self.orders: Mapping[Scope, Order] = {}  # replaced as a whole by every change
        self.decisions: Mapping[Partition, Decision] = {}  # the same
        self.recreations = 0  # how often the topic was found to be another one
        self._since_recreation: SinceRecreation | None = None
        self._flow = flow
        self._cluster = flow.target.alias
        self._topic = flow.control_topic
        self._holders: dict[int, tuple[str, set[str]]] = {}  # by slice: the newest epoch, and the tasks that it had
        self._newest_plan: bytes | None = None  # while it is not decoded
        self._reached = 0
        self._follow = follow
        self._fetches = False
        self._lock = threading.Lock()
        self._known = KnownIds()
        # Who fetches on hears of another id by itself; others ask for it.
        self._ids = TopicIds()
        self._admin = None if follow else ClusterAdmin(flow.target)
        self._consumer = internal_consumer(flow.target, flow.group, "earliest", self._ids if follow else None)

    @property
    def awaits_plan(self) -> bool:
        """Has the topic been made anew, and no leader written its plan there?"""
        return self._since_recreation is not None

    @property
    def ordered_since(self) -> list[Scope]:
        """What people have given orders for since the topic was made anew, as long as it has no plan."""
        return list(self._since_recreation.orders) if self._since_recreation is not None else []

    def unwritten(self) -> tuple[dict[Scope, Order | None], list[Decision]]:
        """What has to be written to a topic that was made anew: orders, None lifts one, and decisions.

        So that all stands that was known, and what people have ordered since.
        """
        with self._lock:
            new = self._since_recreation
            if new is None:
                return {}, []
            wanted = replayed(self.orders, new.orders)
            changes = {scope: wanted.get(scope) for scope in wanted.keys() | new.orders.keys()}
            decisions = [each for partition, each in self.decisions.items() if partition not in new.decisions]
            return {scope: order for scope, order in changes.items() if order != new.orders.get(scope)}, decisions

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
                if self._admin is not None:
                    self._notice(self._admin.ids_now([self._topic])[0].get(self._topic))
                recreations = -1
                while recreations != self.recreations:
                    recreations = self.recreations
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
        deadline, recreations = time.monotonic() + READ_TIMEOUT, self.recreations
        while (before := self._reached) < end and recreations == self.recreations:
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
        if self._topic in self._ids.changed:
            self._ids.changed.clear()
            if self._notice(self._ids.get(self._topic)):
                return ""
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

    def _notice(self, topic_id: str | None) -> bool:
        """Begin anew if the topic has another id than before."""
        if topic_id is None or not self._known.is_another(self._topic, topic_id):
            return False
        self._reached, self._fetches, self._newest_plan = 0, False, None
        self._since_recreation = SinceRecreation()
        self.recreations += 1
        return True

    def _keep(self, key: bytes, value: bytes | None) -> bool:
        """False if it changes nothing. Raises whatever decoding raises."""
        if key.startswith(ORDER_KEY):
            self._keep_order(Scope.decode(key), None if value is None else Order.decode(value))
        elif key == INTENT_KEY:
            self.intent = value
        elif value is None:
            return False
        elif key == PLAN_KEY:
            self._newest_plan = value
            self._turn_over()
        elif key.startswith(DECISION_KEY.encode()):
            decision = Decision.decode(key, value)
            if self._since_recreation is not None:
                self._since_recreation.decisions[decision.partition] = decision
            else:
                self.decisions = {**self.decisions, decision.partition: decision}
        elif key.startswith(CLAIM_KEY):
            self._keep_claim(Claim.decode(key, value))
        return True

    def _keep_claim(self, claim: Claim) -> None:
        """Spark starts one task for each slice of an epoch: another one stands in for one that was lost."""
        self.claims[claim.slice] = claim.task
        epoch, tasks = self._holders.get(claim.slice, ("", set()))
        if not claim.spark_epoch or claim.spark_epoch != epoch:
            self._holders[claim.slice] = claim.spark_epoch, {claim.task}
        elif claim.task not in tasks:  # one that is known is read a second time
            tasks.add(claim.task)
            self.take_overs.append(claim)

    def _keep_order(self, scope: Scope, order: Order | None) -> None:
        if self._since_recreation is not None:
            self._since_recreation.orders.pop(scope, None)  # the newest comes last
            self._since_recreation.orders[scope] = order
            return
        others = {each: order for each, order in self.orders.items() if each != scope}
        self.orders = others if order is None else others | {scope: order}

    def _turn_over(self) -> None:
        """The leader has written its plan, and before it what stood: from now on what the new topic says counts."""
        new, self._since_recreation = self._since_recreation, None
        if new is not None:
            self.orders = {scope: order for scope, order in new.orders.items() if order is not None}
            self.decisions = new.decisions

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
