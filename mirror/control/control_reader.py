"""Follows the control topic and keeps the newest plan, claims, orders and decisions."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from mirror.control.control_topics import CLAIM_KEY, INTENT_KEY, ORDER_KEY, PLAN_KEY, READ_TIMEOUT, Claim, span_of
from mirror.control.decisions import KEY as DECISION_KEY
from mirror.control.decisions import Decision
from mirror.control.kept_claims import KeptClaims
from mirror.control.kept_orders import KeptOrders
from mirror.control.orders import Order, Orders, Scope
from mirror.control.plan import Plan, WrongPlan, unreadable
from mirror.control.signs import GOODBYE_KEY, SIGN_KEY, Signs
from mirror.control.verification import VERIFY_KEY, Verification
from mirror.errors import ClusterAway
from mirror.kafka.clients import internal_consumer
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.renewed import Outage, another
from mirror.kafka.topic_ids import KnownIds, TopicIds
from mirror.model import Partition
from mirror.settings import Flow
from mirror.text import SAID_MAX, said

log = logging.getLogger(__name__)
# Spark's planner process has no log set up: without this handler Python would print there. Service and tasks log it.
log.addHandler(logging.NullHandler())

TOGETHER = 0.1  # seconds for which a poll goes on while there are more records
STRAGGLE = 0.1  # seconds during which answers may still arrive after the reader has stopped fetching
NOT_READ = "another version of mirror wrote it: run one version only, and repeat orders with its pause and resume"


class ControlReader:
    """Follows a flow's control topic from its beginning; `plan`, `claims` and `orders` are the newest it has seen.

    Orders, decisions and claims that can't be decoded are ignored with a warning. A plan that another version of mirror
    may have written is never ignored: while it is the newest, `plan` is None and every reading raises ForeignPlan. A
    plan that contradicts itself is ignored if the plan before it is known: the flow leader writes over it. Otherwise
    generations and `initial_partitions` would start from the beginning, so then reading raises ForeignPlan, too.

    A topic that was deleted and created again has another id (KIP-516) and is read from its beginning, whatever its end
    is. There the flow leader first writes the orders and decisions that the new topic lacks (see `unwritten`), and then
    a plan. Until that plan has come, all that was known before stays in force. A topic that has become shorter, because
    a lagging replica became its leader or a disk was lost, is read from its beginning in the same way. The flow leader
    also writes orders, decisions and plan again if the topic begins later than before, because Kafka has deleted its
    oldest records, as with another `cleanup.policy` than compaction, and if a tombstone has deleted the plan.

    Poll only with `follow=True`, and then keep polling: while fetched records are unread, librdkafka keeps the broker
    that they came from, even one that has restarted since, and a thread that checks a thousand times a second. A reader
    without `follow` fetches nothing between two readings. Several threads may use a reader.
    """

    def __init__(self, flow: Flow, follow: bool = False) -> None:
        self.plan: Plan | None = None
        self.has_wrong_plan = False  # True if the topic's newest plan is ignored, and `plan` is the one before it
        self.intent: bytes | None = None
        self.verified: Verification | None = None  # the last comparison of the whole flow
        self.signs = Signs()
        self.recreations = 0  # how often the topic was found to have another id, or to have become shorter
        self._kept = KeptOrders()
        self.kept_claims = KeptClaims()
        self._flow = flow
        self._topic = flow.control_topic
        self._newest_plans: deque[bytes] = deque(maxlen=2)  # until they are decoded
        self._begin: int | None = None  # where the topic began at the last look
        self._reached = 0
        self._follow = follow
        self._fetches = False
        self._lock = threading.Lock()
        self._known = KnownIds()
        # A consumer that keeps fetching learns of another topic id by itself; without `follow` we ask for the id.
        self._ids = TopicIds()
        self._admin = None if follow else ClusterAdmin(flow.target)
        self._outage = Outage(flow.target)
        self._consumer = self._open()

    def _open(self) -> Consumer:
        return internal_consumer(self._flow.target, self._flow.group, "earliest", self._ids if self._follow else None)

    @property
    def orders(self) -> Orders:
        """The orders in force. Each reading that finds one replaces them as a whole."""
        return self._kept.orders

    @property
    def decisions(self) -> Mapping[Partition, Decision]:
        """The decisions in force. Each reading that finds one replaces them as a whole."""
        return self._kept.decisions

    @property
    def claims(self) -> Mapping[int, str]:
        """The task that has claimed each slice last."""
        return self.kept_claims.tasks

    @property
    def awaits_plan(self) -> bool:
        """True if the topic was recreated, or has lost records, and no flow leader has written a plan there since."""
        return self._kept.awaits_plan

    @property
    def orders_since_recreation(self) -> list[Scope]:
        """The scopes of orders that were given after the topic was recreated; empty once it has a plan."""
        return self._kept.orders_since_recreation

    def unwritten(self) -> tuple[dict[Scope, Order | None], list[Decision]]:
        """The orders (None removes one) and decisions that a topic which awaits a plan lacks.

        Once they are written, all that was known is in force again, changed by what operators have ordered since.
        """
        with self._lock:
            return self._kept.unwritten()

    def poll(self, timeout: float) -> bool:
        """Read what arrives within `timeout` seconds; True if something changed. Raises ForeignPlan.

        More that is there already is read with it: a change costs a task a pass over all of its partitions.
        """
        with self._lock:
            before, changed = self._reached, self._take(timeout) is None
            deadline = time.monotonic() + TOGETHER
            while before < self._reached and time.monotonic() < deadline:
                before, changed = self._reached, self._take(0) is None or changed
            self._kept.publish()
            self._decode_plan()
            return changed

    def read_to_end(self) -> None:
        """Read everything up to the topic's current end.

        Raises ClusterAway when the target does not answer, ForeignPlan for a plan of another version of mirror.
        """
        with self._lock:
            failed = True
            if self._outage.wants_another():
                self._renew()
            try:
                if self._admin is not None:
                    self._notice(self._admin.ids_now([self._topic])[0].get(self._topic))
                recreations = -1
                while recreations != self.recreations:
                    recreations = self.recreations
                    self._take_all(self._end())
                failed = False
            finally:
                self._outage.note(failed)
                self._rest()
                self._kept.publish()
                self._decode_plan()

    def close(self) -> None:
        """Leave the topic."""
        with self._lock:
            self._consumer.close()

    def _renew(self) -> None:
        """Replace the consumer by a new one."""
        before, self._consumer = self._consumer, another(self._consumer, self._open)
        self._fetches &= self._consumer is before

    def _rest(self) -> None:
        if self._fetches and not self._follow:
            self._consumer.unassign()
            self._fetches = False
            self._consumer.poll(STRAGGLE)  # discards records that arrived meanwhile, so that none stays unread

    def _end(self) -> int:
        """The topic's end. Notices what the topic has lost since the last look."""
        begin, end = span_of(self._consumer, self._topic, self._flow.target.alias)
        if end < self._reached:
            self._begin_again()
        elif self._begin is not None and begin > self._begin:
            self._kept.note_loss()
        self._begin = begin
        return end

    def _take_all(self, end: int) -> None:
        deadline, recreations = time.monotonic() + READ_TIMEOUT, self.recreations
        while (before := self._reached) < end and recreations == self.recreations:
            error = self._take(0.1)
            if self._reached != before:  # progress extends the deadline: the topic may be long and the link slow
                deadline = time.monotonic() + READ_TIMEOUT
            elif time.monotonic() > deadline:
                reason = f"{self._topic} can't be read to its end: {error or 'no answer in time'}"
                raise ClusterAway(self._flow.target.alias, reason)

    def _take(self, timeout: float) -> str | None:
        """Read one record. Returns None if something changed, else why not ("" if there is nothing new)."""
        if not self._fetches:
            self._consumer.assign([TopicPartition(self._topic, 0, self._reached)])
            self._fetches = True
        message = self._poll_once(timeout)
        if self._topic in self._ids.changed:
            self._ids.changed.clear()
            if self._notice(self._ids.get(self._topic)):
                return ""
        if message is None:
            return ""
        error, offset = message.error(), message.offset()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            return str(error.str())
        if offset < self._reached:  # librdkafka has found that the topic ends before
            self._begin_again()
            return ""
        self._reached = offset if error is not None else offset + 1
        return str(error.str()) if error is not None else self._kept_from(message)

    def _kept_from(self, message: Message) -> str | None:
        """Store a record if it can be decoded. Returns None if something changed, else ""."""
        key, value = message.key() or b"", message.value()
        try:
            return None if self._keep(key, value) else ""
        except Exception as error:  # whatever decoding raises
            if value is not None:  # a deleted record needs no warning
                self._log_ignored(key, f"{NOT_READ} ({error!r})")
            return ""

    def _log_ignored(self, key: bytes, reason: str) -> None:
        where = {"flow": self._flow.name, "topic": self._topic, "key": said(key[:SAID_MAX].decode(errors="replace"))}
        log.warning("record that can't be decoded is ignored", extra={**where, "reason": reason})

    def _poll_once(self, timeout: float) -> Message | None:
        message = self._consumer.poll(timeout)
        if self._follow and self._outage.has_lost(self._consumer, [Partition(self._topic, 0)], message is None):
            self._renew()
        return message

    def _notice(self, topic_id: str | None) -> bool:
        """If the topic has another id than before, start again from its beginning. True if so."""
        if topic_id is None or not self._known.is_another(self._topic, topic_id):
            return False
        self._begin_again()
        return True

    def _begin_again(self) -> None:
        """Read the topic from its beginning, as it is now. What was known stays in force until a plan comes."""
        self._reached, self._fetches, self._begin = 0, False, None
        self._newest_plans.clear()
        self._kept.begin_again()
        self.recreations += 1

    def _keep(self, key: bytes, value: bytes | None) -> bool:
        """Store one record; False if it changes nothing. Raises whatever decoding raises."""
        if key.startswith(ORDER_KEY):
            self._kept.order(Scope.decode(key), None if value is None else Order.decode(value))
        elif key == INTENT_KEY:
            self.intent = value
        elif value is None:
            if key == PLAN_KEY:
                self._kept.note_loss()
            return False
        elif key in (SIGN_KEY, GOODBYE_KEY):
            self.signs.read(key, value)
            return False
        elif key == PLAN_KEY:
            self.signs.overtake()
            self._newest_plans.append(value)
            self._kept.plan_came()
        elif key.startswith(DECISION_KEY.encode()):
            self._kept.decide(Decision.decode(key, value))
        elif key == VERIFY_KEY:
            self.verified = Verification.decode(value)
        elif key.startswith(CLAIM_KEY):
            self.kept_claims.keep(Claim.decode(key, value))
        return True

    def _decode_plan(self) -> None:
        """Decode the newest plan only: there may be thousands of older ones before the end of the topic."""
        if not self._newest_plans:
            return
        try:
            self.plan, self.has_wrong_plan = Plan.decode(self._newest_plans[-1]), False
        except Exception as error:  # whatever decoding raises
            self.plan = self._plan_before() if isinstance(error, WrongPlan) else None
            self.has_wrong_plan = self.plan is not None
            if self.plan is None:
                raise unreadable(self._flow.name, self._topic, error) from error
            self._log_ignored(PLAN_KEY, f"no mirror wrote it, and the plan before it counts ({error!r})")
        self._newest_plans.clear()

    def _plan_before(self) -> Plan | None:
        """The plan before the newest. Whoever reads the topic for the first time may still find it there."""
        try:
            return self.plan if len(self._newest_plans) == 1 else Plan.decode(self._newest_plans[0])
        except WrongPlan:
            return self.plan
        except Exception:  # another version's, which is never ignored
            return None
