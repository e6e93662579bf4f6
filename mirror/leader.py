"""Leadership of a flow: one service at a time may write plans (KIP-618's way of fencing)."""

from __future__ import annotations

import logging

from confluent_kafka import KafkaError, KafkaException, Producer

from mirror.channel import PLAN_KEY, ChannelWriter
from mirror.clients import DEFAULTS, INTERNAL_MAX, LIBRDKAFKA, transactional_properties
from mirror.control import ControlReader
from mirror.errors import ClusterAway, FlowError, Superseded
from mirror.plan import Partition, Plan, Topic, assign, merge_initial, slice_count
from mirror.producer import FENCED, leader_id
from mirror.settings import Flow

log = logging.getLogger(__name__)

TIMEOUT = 10.0  # seconds for each step of a transaction


class Leader:
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
        self.control = ControlReader(flow)
        self._writer = None if flow.exactly_once else ChannelWriter(flow)

    def take(self) -> None:
        """Fence whoever led before, then read the newest plan. Raises ClusterAway, FlowError, Superseded."""
        self.check()
        if self._writer is None:
            self._producer = self._fence()
            self.control.read_to_end()
        self._generation = self.control.plan.generation if self.control.plan else 0

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
        if plan.generation > self._generation:
            raise Superseded(f"flow {self._flow.name}: another service leads it now (generation {plan.generation})")

    def publish(self, topics: dict[str, Topic], slots: int, weight: dict[Partition, float]) -> Plan:
        """Write a plan for `topics` on `slots` cores, unless the newest says the same; returns the newest."""
        previous = self.control.plan
        ours = previous is not None and previous.leader == self._identity and not previous.stop
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
        )
        if ours and previous is not None and (previous.topics, previous.slices) == (plan.topics, plan.slices):
            return previous
        return self._write(plan)

    def stop(self) -> None:
        """Order every task to finish its transactions and return. Raises ClusterAway, FlowError, Superseded."""
        plan = self.control.plan
        if plan is not None and plan.leader == self._identity and not plan.stop:
            self._write(plan.stopped())

    def _write(self, plan: Plan) -> Plan:
        if self._writer is None:
            self._commit(plan)
        else:  # nobody is fenced: the one whose plan comes last leads, which the other reads
            self._writer.plan(plan)
        self._generation = plan.generation
        self.control.read_to_end()
        return plan

    def _commit(self, plan: Plan) -> None:
        if self._producer is None:
            self.take()
        producer = self._producer
        assert producer is not None
        try:
            producer.begin_transaction()
            producer.produce(self._flow.control_topic, plan.encode(), PLAN_KEY, 0)
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
