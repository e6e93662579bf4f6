"""Leadership of a flow: one service at a time may write plans (KIP-618's way of fencing)."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace

from confluent_kafka import KafkaError, KafkaException, Producer

from mirror.control.orders import Scope
from mirror.control.plan import Lineage, Plan, assign, merge_initial, retire, slice_count
from mirror.control.reader import ControlReader
from mirror.control.topics import INTENT_KEY, PLAN_KEY, ControlWriter
from mirror.errors import ClusterAway, FlowError, Superseded
from mirror.kafka.clients import DEFAULTS, FENCED, INTERNAL_MAX, LIBRDKAFKA, transactional_properties
from mirror.kafka.transactional_ids import leader_id
from mirror.model import Partition, Topic
from mirror.settings import Flow

log = logging.getLogger(__name__)

TIMEOUT = 10.0  # seconds for each step of a transaction


class FlowLeader:
    """Leads one flow: `take`, then `publish` at once, then `check` now and then.

    Before it opens a producer, which fences all others, it reads the control topic to the end: somebody else's plan
    that is newer than what it knew as leader ends it. So of two services the one whose plan came last goes on.
    """

    def __init__(self, flow: Flow, identity: str) -> None:
        self._flow = flow
        self._identity = identity
        self._producer: Producer | None = None
        self._generation: int | None = None  # of the newest plan while we led; None: never led
        self._slots = 0  # that the newest plan was made for
        self._intent: bytes | None = None  # that we have announced, and no plan has followed yet
        self._recreations = 0  # of the control topic, when we last led
        self.control = ControlReader(flow)
        self._writer = None if flow.exactly_once else ControlWriter(flow)

    def take(self) -> None:
        """Fence whoever led before, then read the newest plan. Raises ClusterAway, FlowError, Superseded."""
        self.check()
        if self._writer is None:
            self._producer = self._fence()
            self.control.read_to_end()
        self._generation = self.control.plan.generation if self.control.plan else 0
        self._recreations = self.control.recreations

    def _fence(self) -> Producer:
        properties = transactional_properties(self._flow, leader_id(self._flow))
        # A plan has every partition. And a disturbed leader needs no telling: it reads before it writes again.
        big = {"compression.type": "gzip", "message.max.bytes": INTERNAL_MAX, "log_level": DEFAULTS["log_level"]}
        producer = Producer({**properties, **big}, logger=LIBRDKAFKA)
        try:
            producer.init_transactions(TIMEOUT)
        except KafkaException as error:
            raise self._judge(error) from error
        return producer

    def check(self) -> None:
        """Read the control topic to its end. Raises Superseded if another service has led since, ClusterAway."""
        self.control.read_to_end()
        plan = self.control.plan
        if plan is None or self._generation is None or plan.leader == self._identity:
            return
        # In a topic that was made anew generations may begin anew as well.
        anew = self.control.recreations != self._recreations and not self.control.awaits_plan
        if plan.generation > self._generation or anew:
            raise Superseded(f"flow {self._flow.name}: another service leads it now (generation {plan.generation})")

    def lost_tasks(self) -> list[int]:
        """The slices, once for each task of ours that was lost and taken over since this was last asked.

        As far as `check` has seen it. The first tasks of an epoch take nothing over, whatever ended the one before.
        """
        taken, take_overs = [], self.control.take_overs
        while take_overs:
            taken.append(take_overs.popleft())
        return [claim.slice for claim in taken if claim.leader == self._identity]

    @property
    def identity(self) -> str:
        """Of this service."""
        return self._identity

    def has_planned(self, remotes: Mapping[str, str], lineage: Lineage) -> bool:
        """Does our standing plan say that we copy `remotes` (remote topics by source topic), of this lineage?"""
        plan = self.control.plan
        if plan is None or not self._is_ours(plan) or plan.clusters != lineage.clusters:
            return False
        known = {name: topic.remote for name, topic in plan.topics.items()}
        return remotes.items() <= known.items() and plan.lineage.covers(lineage)

    def announce(self, topics: dict[str, Topic], lineage: Lineage) -> None:
        """Say what the next plan is going to copy; returns when all can read it.

        Raises ClusterAway, FlowError, Superseded. A commit is over before its marker is written, and without that no
        read_committed reader sees the record.
        """
        plan = self.control.plan
        generation = plan.generation + 1 if plan else 1
        intent = Plan(self._identity, generation, topics, (), clusters=lineage.clusters, origins=lineage.origins)
        self._intent = intent.encode()
        self._send({INTENT_KEY: self._intent})
        deadline = time.monotonic() + TIMEOUT
        while self.control.intent != self._intent:
            if time.monotonic() > deadline:
                reason = "what was announced can't be read, or another service has announced something since"
                raise FlowError(f"flow {self._flow.name}: {reason}")
            self.control.read_to_end()

    def publish(
        self,
        topics: dict[str, Topic],
        slots: int,
        weight: Mapping[Partition, float],
        lineage: Lineage,
        remote_ids: Mapping[str, str],
        renew_interval: float,
    ) -> Plan:
        """Write a plan for `topics` on `slots` cores, unless the newest says the same; returns the newest.

        To a control topic that was made anew it is written in any case, after the orders and decisions that stood.
        `remote_ids` are those of the target's topics, `renew_interval` is in seconds. Raises as `check`, FlowError.
        """
        self.check()  # again, for a look at both clusters may take long: a plan in a new topic ends what stood before
        previous = self.control.plan
        ours = previous is not None and self._is_ours(previous)
        partitions = [Partition(name, n) for name, topic in topics.items() for n in range(topic.partitions)]
        before = previous.slices if previous else ()
        current = len(before) if ours and slots == self._slots else 0
        count = slice_count(slots, self._flow.tasks_max, len(partitions), current)
        self._slots = slots
        plan = Plan(
            leader=self._identity,
            generation=previous.generation + 1 if previous else 1,
            topics=merge_initial(topics, previous),
            slices=assign(partitions, count, before, weight),
            retired=retire(topics, previous, remote_ids),
            renew_interval=renew_interval,
            clusters=lineage.clusters,
            origins=lineage.origins,
        )
        stands = ours and not self.control.awaits_plan
        if stands and previous is not None and replace(previous, generation=plan.generation) == plan:
            return previous
        return self._write(plan)

    def stop(self) -> None:
        """Order every task to finish its transactions and return, and take back what was only announced.

        Raises ClusterAway, FlowError, Superseded.
        """
        if self._intent is not None:
            self._send({INTENT_KEY: None})
            self._intent = None
        plan = self.control.plan
        if plan is not None and self._is_ours(plan):
            self._write(plan.stopped())

    def _is_ours(self, plan: Plan) -> bool:
        return plan.leader == self._identity and not plan.stop

    def _write(self, plan: Plan) -> Plan:
        self._send({**self._again(plan), PLAN_KEY: plan.encode()})
        self._intent = None
        self._generation, self._recreations = plan.generation, self.control.recreations
        self.control.read_to_end()
        return plan

    def _send(self, records: Mapping[bytes, bytes | None]) -> None:
        if self._writer is None:
            self._commit(records)
        else:  # nobody is fenced: the one whose plan comes last leads, which the other reads
            self._writer.write(records)

    def _again(self, plan: Plan) -> dict[bytes, bytes | None]:
        """What a control topic that was made anew has to have before the plan."""
        if not self.control.awaits_plan:
            return {}
        orders, decisions = self.control.unwritten()
        where = {"flow": self._flow.name, "topic": self._flow.control_topic, "generation": plan.generation}
        told = {
            "orders": len(orders),
            "decisions": len(decisions),
            "ordered_since": _listed(self.control.ordered_since),
        }
        log.warning("plan, orders and decisions are written again: the control topic was deleted", extra=where | told)
        written = {scope.key(): order.encode() if order else None for scope, order in orders.items()}
        return written | {decision.key(): decision.encode() for decision in decisions}

    def _commit(self, records: Mapping[bytes, bytes | None]) -> None:
        if self._producer is None:
            self.take()
        producer = self._producer
        assert producer is not None
        try:
            producer.begin_transaction()
            for key, value in records.items():
                producer.produce(self._flow.control_topic, value, key, 0)
            producer.commit_transaction(TIMEOUT)
        except KafkaException as error:
            self._producer = None
            raise self._judge(error) from error

    def _judge(self, error: KafkaException) -> ClusterAway | FlowError:
        cause = error.args[0]
        if cause.code() in FENCED:
            # That proves nothing: who fenced us may be gone before its first plan. `check` decides, by the plan.
            return FlowError(f"flow {self._flow.name}: fenced by another service")
        if cause.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            return FlowError(
                f"flow {self._flow.name}: transaction_timeout ({self._flow.transaction_timeout:g} s) is longer than "
                f"transaction.max.timeout.ms of the brokers of {self._flow.target.alias}: lower it, or raise theirs"
            )
        return ClusterAway(self._flow.target.alias, cause.str())


def _listed(scopes: list[Scope]) -> str:
    return ", ".join(map(str, scopes)) or "nothing"
