"""Leadership of a flow: one service at a time writes plans.

A service that takes the lead fences the other one, as in KIP-618. With `exactly_once: false` nobody is fenced: a
service stops when it reads a newer plan of another service.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from confluent_kafka import KafkaException, Producer

from mirror.control.control_reader import ControlReader
from mirror.control.control_topics import INTENT_KEY, PLAN_KEY, ControlWriter
from mirror.control.next_plan import next_generation, next_plan, unmarked
from mirror.control.plan import Lineage, Plan
from mirror.control.plan_size import as_record
from mirror.control.slices import Capacity, Dealer
from mirror.control.task_settings import TaskSettings
from mirror.control.throttle_shares import Load
from mirror.control.transaction_errors import judged
from mirror.errors import FlowError, Superseded
from mirror.kafka.clients import DEFAULTS, INTERNAL_MAX, LIBRDKAFKA
from mirror.kafka.credentials import FileChanges
from mirror.kafka.own_topic_producer import queued
from mirror.kafka.producers import target_producer, transactional_properties
from mirror.kafka.transactional_ids import flow_leader_id
from mirror.model import Topic
from mirror.settings import Flow
from mirror.timing import LEADER_STEP, LEADER_TRANSACTION

log = logging.getLogger(__name__)


class FlowLeader:
    """Leads one flow.

    Call `take_lead`, ConflictGuard.agree (it may call `announce`) and `publish`. Then call `check_still_leading`
    regularly.

    Of two competing services, the one that published its plan last wins. Opening the producer fences the other service.
    So a service reads the control topic first. If it led before and another service has published a newer plan, it
    raises Superseded and fences nobody.
    """

    def __init__(self, flow: Flow, service_id: str) -> None:
        self._flow = flow
        self._service_id = service_id
        self._producer: Producer | None = None
        self._changes = FileChanges(flow.target)  # since the producer was opened
        self._generation: int | None = None  # of the newest plan while we led; None if we have never led
        self._former = ""  # the service whose plan was in force when we took the lead, until our first plan
        self._replaced = "", -1  # the service and the generation of the plan that our first one has replaced
        self._dealer = Dealer()
        self._intent: bytes | None = None  # our announcement, until a plan follows it
        self._log_level = "info"  # of the tasks
        self._recreations = 0  # how often the control topic had been recreated when we last led
        self.control = ControlReader(flow)
        self._writer = None if flow.exactly_once else ControlWriter(flow)

    def reconfigure(self, flow: Flow, log_level: str) -> None:
        """Use new settings. They never change the control topic or the producer.

        Tasks get new settings, and a new log level, with the next plan.
        """
        self._flow, self._log_level = flow, log_level

    def take_lead(self) -> None:
        """Fence the producer of the previous flow leader, then read the newest plan.

        With `exactly_once: false` nobody is fenced. Raises ClusterAway, FlowError, Superseded.
        """
        self.check_still_leading()
        if self._writer is None:
            producer = self._open_producer()
            self.check_still_leading()  # another service may have published until it was fenced
            self._producer = producer
        plan = self.control.plan
        if self._generation is None and plan is not None:
            self._former, self._replaced = plan.service_id, (plan.service_id, plan.generation)
        self._generation = plan.generation if plan else 0
        self._recreations = self.control.recreations

    def _open_producer(self) -> Producer:
        """Open the flow leader's producer, which fences every earlier one.

        Its transactions end sooner than those of tasks. If the target does not allow the tasks' time-out, another
        service may lead with one that it allows, and must not be fenced: so theirs is tried first.
        """
        producer = self._producer_with(self._flow)
        if self._flow.transaction_timeout <= LEADER_TRANSACTION:
            return producer
        return self._producer_with(replace(self._flow, transaction_timeout=LEADER_TRANSACTION))

    def _producer_with(self, flow: Flow) -> Producer:
        properties = transactional_properties(flow, flow_leader_id(flow))
        # A plan lists every partition, so it is compressed and may be large. The log level is librdkafka's own: a task
        # has to notice lost connections, but the flow leader reads the control topic again before it publishes.
        own = {"compression.type": "gzip", "message.max.bytes": INTERNAL_MAX, "log_level": DEFAULTS["log_level"]}
        self._changes.note()
        producer = target_producer(flow.target, {**properties, **own}, LIBRDKAFKA)
        try:
            producer.init_transactions(LEADER_STEP)
        except KafkaException as error:
            raise judged(self._flow, error) from error
        return producer

    def check_still_leading(self) -> None:
        """Read the control topic to its end. Raises Superseded if another service leads now, ClusterAway, FlowError.

        A service that we have taken the lead from may be stopping: its plan that says stop leaves the flow to us. And
        if the plan that ours has replaced is the newest again, the topic has lost ours.
        """
        self.control.read_to_end()
        plan = self.control.plan
        if plan is None or self._generation is None or plan.service_id == self._service_id:
            return
        if plan.stop and plan.service_id == self._former:
            return
        if plan.service_id == self._replaced[0] and plan.generation <= self._replaced[1]:
            return
        # A recreated topic may count generations from 1 again, so a lower one may be newer.
        was_recreated = self.control.recreations != self._recreations and not self.control.awaits_plan
        if plan.generation > self._generation or was_recreated:
            raise Superseded(f"flow {self._flow.name}: another service leads it now (generation {plan.generation})")

    @property
    def lacks_plan(self) -> bool:
        """True if our plan is not in force, or not the newest: the topic has lost it, or somebody wrote over it.

        That may be a wrong plan, or that of a stopping service. The latter needs `exactly_once: false`, where a service
        that reads and then writes is not fenced in between.
        """
        plan, replaced = self.control.plan, self.control.awaits_plan or self.control.has_wrong_plan
        return replaced or plan is None or not self._is_ours_and_runs(plan)

    def lost_tasks(self) -> list[int]:
        """The slice of each task of this service that was replaced since the last call. A slice may appear twice.

        It reads nothing: it returns what earlier reads of the control topic have found. The first tasks of a Spark
        epoch do not count, whatever ended the previous epoch.
        """
        taken, replaced = [], self.control.kept_claims.replaced
        while replaced:
            taken.append(replaced.popleft())
        return [claim.slice for claim in taken if claim.service_id == self._service_id]

    @property
    def service_id(self) -> str:
        """The id of this service, a random one."""
        return self._service_id

    def has_planned(self, remotes: Mapping[str, str], lineage: Lineage) -> bool:
        """True if our current plan copies all of `remotes`, and names every origin in `lineage`.

        `remotes` has the remote topics by source topic.
        """
        plan = self.control.plan
        if plan is None or not self._is_ours_and_runs(plan) or plan.clusters != lineage.clusters:
            return False
        known = {name: topic.remote for name, topic in plan.topics.items()}
        return remotes.items() <= known.items() and plan.lineage.covers(lineage)

    def announce(self, topics: dict[str, Topic], lineage: Lineage) -> None:
        """Announce what the next plan is going to copy, and wait until everybody can read it.

        The wait is needed because a commit returns before its marker is written, and read_committed readers see the
        record only after the marker. Raises ClusterAway, FlowError, Superseded.
        """
        plan = self.control.plan
        active_active = self._flow.active_active
        remote_ids = {topic.remote: topic.remote_id for topic in topics.values()}
        intent = Plan(
            self._service_id,
            next_generation(plan),
            topics,
            (),
            clusters=lineage.clusters,
            origins=lineage.origins,
            active_active=active_active,
            unmarked=unmarked(plan, remote_ids) if active_active else {},
        )
        self._intent = as_record(self._flow, intent)
        self._send({INTENT_KEY: self._intent})
        deadline = time.monotonic() + LEADER_STEP
        while self.control.intent != self._intent:
            if time.monotonic() > deadline:
                reason = "its announcement cannot be read back, or another service has announced something since"
                raise FlowError(f"flow {self._flow.name}: {reason}")
            self.control.read_to_end()

    def publish(
        self,
        topics: dict[str, Topic],
        capacity: Capacity,
        load: Load,
        lineage: Lineage,
        remote_ids: Mapping[str, str],
        renew_interval: float,
    ) -> Plan:
        """Write a plan for `topics` and `capacity`, unless our newest plan says the same. Returns the newest plan.

        On a control topic that was recreated or has lost records, or over a wrong plan, the plan is always written. If
        the topic lacks orders or decisions that were in force, these come before it.
        `remote_ids` has the ids of the target's topics by name, `renew_interval` is in seconds. Raises ClusterAway,
        FlowError, Superseded.
        """
        # Checked again, because the look at both clusters may have taken long. Without this, a plan on a recreated
        # topic would also replace what another service has written there.
        self.check_still_leading()
        previous = self.control.plan
        ours = previous is not None and self._is_ours_and_runs(previous)
        before = previous.slices if previous else ()
        dealt = self._dealer.deal(topics, capacity, self._flow.tasks_max, before, ours, load.rates)
        settings = TaskSettings.of(self._flow, self._log_level)
        mark_group = self._flow.group if self._flow.active_active else None
        leader, restarts = self._service_id, self._dealer.restarts
        plan = next_plan(
            previous, leader, topics, dealt, restarts, load, lineage, remote_ids, renew_interval, settings, mark_group
        )
        if not self.lacks_plan and previous is not None and replace(previous, generation=plan.generation) == plan:
            return previous
        return self._write(plan)

    def stop_own_tasks(self) -> None:
        """Tell our tasks to finish their transactions and end. Withdraw an announcement that no plan has followed.

        Raises ClusterAway, FlowError, Superseded.
        """
        self.check_still_leading()  # otherwise, without transactions, our plan would replace another service's
        if self._intent is not None:
            self._send({INTENT_KEY: None})
            self._intent = None
        plan = self.control.plan
        if plan is not None and self._is_ours_and_runs(plan):
            self._write(plan.stopped())

    def stop_all_tasks(self) -> Plan | None:
        """Take the lead, and tell the tasks of every service to end. Returns the plan that was in force, if any.

        Raises ClusterAway, FlowError.
        """
        self.take_lead()
        plan = self.control.plan
        if plan is not None and not plan.stop:
            self._write(replace(plan, service_id=self._service_id, generation=next_generation(plan)).stopped())
        return plan

    def _is_ours_and_runs(self, plan: Plan) -> bool:
        return plan.service_id == self._service_id and not plan.stop

    def _write(self, plan: Plan) -> Plan:
        before = self.control.plan
        self._send({**self._records_to_rewrite(plan), PLAN_KEY: as_record(self._flow, plan)})
        if self._former and before is not None:
            self._replaced = before.service_id, before.generation
        self._intent, self._former = None, ""
        self._generation, self._recreations = plan.generation, self.control.recreations
        self.control.read_to_end()
        return plan

    def _send(self, records: Mapping[bytes, bytes | None]) -> None:
        if self._writer is None:
            self._commit(records)
        else:  # without transactions nobody is fenced: the other service stops once it reads our plan
            self._writer.write(records)

    def _records_to_rewrite(self, plan: Plan) -> dict[bytes, bytes | None]:
        """The orders and decisions to write before the plan if the control topic has lost records, else nothing."""
        if not self.control.awaits_plan:
            return {}
        orders, decisions = self.control.unwritten()
        where = {"flow": self._flow.name, "topic": self._flow.control_topic, "generation": plan.generation}
        counts = {
            "orders": len(orders),
            "decisions": len(decisions),
            "orders_since_recreation": ", ".join(map(str, self.control.orders_since_recreation)) or "nothing",
        }
        log.warning("control topic lost records: plan, orders and decisions are written again", extra=where | counts)
        written = {scope.key(): order.encode() if order else None for scope, order in orders.items()}
        return written | {decision.key(): decision.encode() for decision in decisions}

    def _commit(self, records: Mapping[bytes, bytes | None]) -> None:
        if self._producer is None or self._changes.any():
            self.take_lead()
        producer = self._producer
        assert producer is not None
        try:
            producer.begin_transaction()
            for key, value in records.items():
                queued(partial(producer.produce, self._flow.control_topic, value, key, 0), producer.flush, LEADER_STEP)
            producer.commit_transaction(LEADER_STEP)
        except KafkaException as error:
            self._producer = None
            raise judged(self._flow, error) from error
