"""Which of two services leads a flow, while one of them stops and the other one takes over."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from mirror.control import flow_leader, plan_size
from mirror.control.control_topics import PLAN_KEY
from mirror.control.flow_leader import FlowLeader
from mirror.control.orders import Order, Scope
from mirror.control.plan import Lineage, Plan
from mirror.control.slices import Capacity, Slice
from mirror.control.throttle_shares import Load
from mirror.errors import FlowError, Superseded
from mirror.model import Partition, Topic
from mirror.settings import Flow
from mirror.timing import LEADER_TRANSACTION
from tests.unit.control.test_control_reader import Entry, Log, flow, topic  # noqa: F401  # fixtures

TOPICS = {"t": Topic("primary.t", "id", 2, 0)}


@dataclass
class Coordinator:
    """What a broker knows of the flow leader's transactional id. `before_next` happens before it fences once more."""

    log: Log
    epoch: int = 0
    longest: int = 900_000  # milliseconds that a transaction may last
    asked: list[int] = field(default_factory=list)  # how long each producer's transactions may last
    before_next: list[Callable[[], object]] = field(default_factory=list)
    refusal: int | None = None  # the code with which a broker refuses all records


class Producer:
    """The flow leader's producer: the newest one fences all others."""

    def __init__(self, coordinator: Coordinator, config: Mapping[str, Any]) -> None:
        self._coordinator = coordinator
        self._timeout = config["transaction.timeout.ms"]
        self._epoch = 0
        self._records: list[Entry] = []

    def init_transactions(self, _: float) -> None:
        if self._coordinator.before_next:
            self._coordinator.before_next.pop()()
        self._coordinator.asked.append(self._timeout)
        if self._timeout > self._coordinator.longest:
            raise KafkaException(KafkaError(KafkaError.INVALID_TRANSACTION_TIMEOUT))
        self._coordinator.epoch += 1
        self._epoch = self._coordinator.epoch

    def begin_transaction(self) -> None:
        self._records.clear()

    def produce(self, _topic: str, value: bytes | None, key: bytes, _partition: int) -> None:
        self._records.append((key, value))

    def flush(self, _: float) -> int:
        return 0

    def commit_transaction(self, _: float) -> None:
        if self._epoch != self._coordinator.epoch:
            raise KafkaException(KafkaError(KafkaError._FENCED))
        if self._coordinator.refusal is not None:
            raise KafkaException(KafkaError(self._coordinator.refusal))
        self._coordinator.log.entries += self._records


@pytest.fixture
def coordinator(topic: Log, monkeypatch: pytest.MonkeyPatch) -> Coordinator:  # noqa: F811
    found = Coordinator(topic)
    monkeypatch.setattr(flow_leader, "target_producer", lambda _, config, __: Producer(found, config))
    return found


def publish(leader: FlowLeader, renew_interval: float = 3600.0) -> Plan:
    return leader.publish(TOPICS, Capacity(2), Load(), Lineage(), {}, renew_interval)


def newest(log: Log) -> Plan:
    return Plan.decode(next(value for key, value in reversed(log.entries) if key == PLAN_KEY and value is not None))


def leading(flow: Flow) -> FlowLeader:  # noqa: F811
    """A service that leads, with its plan."""
    leader = FlowLeader(flow, "old")
    leader.take_lead()
    publish(leader)
    return leader


def stops(leader: FlowLeader) -> None:
    """Have the leader stop its own tasks. It tries several times, like FlowRunner._order_stop."""
    for _ in range(3):
        try:
            return leader.stop_own_tasks()
        except Superseded:
            return None
        except FlowError:
            continue
    raise AssertionError("it can't stop")


def test_a_stopping_service_does_not_end_the_one_that_has_taken_over(flow: Flow, coordinator: Coordinator) -> None:  # noqa: F811
    """The new one has no plan of its own yet. It is fenced once more, and goes on."""
    old, new = leading(flow), FlowLeader(flow, "new")
    new.take_lead()
    with pytest.raises(FlowError, match="fenced"):
        publish(old, renew_interval=60.0)  # its loop has not noticed yet
    old.take_lead()
    publish(old, renew_interval=60.0)
    stops(old)
    assert newest(coordinator.log).stop and newest(coordinator.log).generation == 2
    with pytest.raises(FlowError, match="fenced"):
        publish(new)
    new.take_lead()
    plan = publish(new)
    assert (plan.service_id, plan.generation, plan.stop) == ("new", 3, False)
    assert newest(coordinator.log) == plan
    with pytest.raises(Superseded):
        old.check_still_leading()


def test_an_order_to_stop_does_not_replace_a_plan_that_came_before_it(flow: Flow, coordinator: Coordinator) -> None:  # noqa: F811
    """The new service publishes after the old one has looked, and before it fences once more."""
    old, new = leading(flow), FlowLeader(flow, "new")
    new.take_lead()
    coordinator.before_next.append(lambda: publish(new))
    stops(old)
    plan = newest(coordinator.log)
    assert (plan.service_id, plan.generation, plan.stop) == ("new", 2, False)
    new.check_still_leading()
    assert not new.lacks_plan


def test_any_other_newer_plan_ends_a_service_that_has_none_yet(flow: Flow, coordinator: Coordinator) -> None:  # noqa: F811
    """A third service's order to stop is a command's, and the old one's plan comes last, so that it leads."""
    old, new = leading(flow), FlowLeader(flow, "new")
    new.take_lead()
    old.take_lead()
    publish(old, renew_interval=60.0)
    with pytest.raises(Superseded):
        new.check_still_leading()
    another = FlowLeader(flow, "another")
    another.take_lead()
    FlowLeader(flow, "hand-back").stop_all_tasks()
    with pytest.raises(Superseded):
        another.check_still_leading()


def test_a_plan_that_was_written_over_is_missed(flow: Flow, coordinator: Coordinator) -> None:  # noqa: F811
    """Without transactions an order to stop can come just after a plan that its writer has not seen."""
    old, new = leading(flow), FlowLeader(flow, "new")
    stop = newest(coordinator.log).stopped()
    new.take_lead()
    publish(new)
    assert not new.lacks_plan
    coordinator.log.entries.append((PLAN_KEY, stop.encode()))
    new.check_still_leading()
    assert new.lacks_plan
    assert publish(new).service_id == "new" and not new.lacks_plan
    with pytest.raises(Superseded):
        old.check_still_leading()


@pytest.mark.parametrize(
    "slices", [lambda dealt: (dealt[0] | dealt[1], dealt[1]), lambda _: (frozenset({Partition("u", 0)}),)]
)
def test_a_plan_that_contradicts_itself_is_written_over(
    flow: Flow,  # noqa: F811
    coordinator: Coordinator,
    slices: Callable[[tuple[Slice, ...]], tuple[Slice, ...]],
) -> None:
    """Whoever has written it: it ends no task, and the leader leads on."""
    leader = leading(flow)
    good = newest(coordinator.log)
    for service_id in ("old", "somebody"):
        wrong = replace(good, service_id=service_id, generation=70, slices=slices(good.slices))
        coordinator.log.entries.append((PLAN_KEY, wrong.encode()))
        leader.check_still_leading()
        assert leader.lacks_plan
        assert publish(leader) == newest(coordinator.log)
        assert not leader.lacks_plan
    assert replace(newest(coordinator.log), generation=good.generation) == good
    assert newest(coordinator.log).generation == good.generation + 2


def assert_written_again(leader: FlowLeader, log: Log, pause: tuple[bytes, bytes], before: Plan) -> None:
    """The leader notices that the plan is gone, and writes the order and the plan again, and nothing else."""
    size = len(log.entries)
    leader.check_still_leading()
    assert leader.lacks_plan
    plan = publish(leader)
    assert log.entries[size:] == [pause, (PLAN_KEY, plan.encode())]
    assert plan == replace(before, generation=before.generation + 1)
    assert not leader.lacks_plan and publish(leader) == plan


def test_a_plan_that_retention_has_deleted_is_written_again_with_the_orders(
    flow: Flow,  # noqa: F811
    coordinator: Coordinator,
) -> None:
    """The topic has the same id, and nothing that follows the plan says that it is gone."""
    leader, log = leading(flow), coordinator.log
    before, pause = newest(log), (Scope("t").key(), Order(True).encode())
    log.entries.append(pause)
    leader.check_still_leading()
    assert not leader.lacks_plan and publish(leader) == before
    log.begin = len(log.entries)
    assert_written_again(leader, log, pause, before)


def test_a_plan_that_somebody_has_deleted_is_written_again_with_the_orders(
    flow: Flow,  # noqa: F811
    coordinator: Coordinator,
) -> None:
    """Compaction removes it some time after the tombstone, and a task that starts later would find none."""
    leader, log = leading(flow), coordinator.log
    before, pause = newest(log), (Scope("t").key(), Order(True).encode())
    log.entries += [pause, (PLAN_KEY, None)]
    assert_written_again(leader, log, pause, before)


def test_a_leader_ends_if_another_has_published_on_a_topic_that_became_shorter(
    flow: Flow,  # noqa: F811
    coordinator: Coordinator,
) -> None:
    leader = leading(flow)
    coordinator.log.entries += [(Scope("t").key(), Order(True).encode())] * 9
    leader.check_still_leading()
    coordinator.log.shorten(0)
    leader.check_still_leading()
    assert leader.lacks_plan
    publish(FlowLeader(flow, "new"))
    with pytest.raises(Superseded):
        leader.check_still_leading()


@pytest.mark.parametrize("stopped", ["before", "after", "never"])
def test_a_leader_is_not_ended_by_the_plan_that_its_own_has_replaced(
    flow: Flow,  # noqa: F811
    coordinator: Coordinator,
    stopped: str,
) -> None:
    """The topic loses its end, as after an unclean election, and the plan of a dead service is the newest again."""
    old, log = leading(flow), coordinator.log
    if stopped == "before":
        old.stop_own_tasks()
    new = FlowLeader(flow, "new")
    new.take_lead()
    if stopped == "after":
        stops(old)
        new.take_lead()
    left = len(log.entries)
    publish(new)
    log.entries += [(Scope("t").key(), Order(True).encode())] * 5
    new.check_still_leading()
    log.shorten(left)
    new.check_still_leading()
    assert newest(log).service_id == "old" and new.lacks_plan
    assert publish(new) == newest(log) and not new.lacks_plan


@pytest.mark.parametrize("ask", [lambda leader: leader.announce(TOPICS, Lineage()), publish])
def test_a_plan_that_fits_into_no_record_blocks_the_flow_and_says_what_to_do(
    flow: Flow,  # noqa: F811
    coordinator: Coordinator,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[FlowLeader], object],
) -> None:
    """librdkafka would refuse it, too, but that would look as if the cluster did not answer."""
    leader = FlowLeader(flow, "new")
    leader.take_lead()
    monkeypatch.setattr(plan_size, "WARN_FROM", 100)
    monkeypatch.setattr(plan_size, "INTERNAL_MAX", 200)
    with pytest.raises(FlowError, match=r"1 topics that are copied, .* can't have more than 200: delete") as raised:
        ask(leader)
    assert raised.value.blocked and not coordinator.log.entries


def test_a_plan_that_the_topic_does_not_take_blocks_the_flow_too(flow: Flow, coordinator: Coordinator) -> None:  # noqa: F811
    """Somebody has made the topic with the brokers' default of 1 MiB."""
    coordinator.refusal = KafkaError.MSG_SIZE_TOO_LARGE
    with pytest.raises(FlowError, match=r"set max.message.bytes=8388608 on mirror-control.primary.internal") as raised:
        leading(flow)
    assert raised.value.blocked


def test_a_clock_that_is_too_far_ahead_is_named(flow: Flow, coordinator: Coordinator) -> None:  # noqa: F811
    """Kafka 4 refuses what is an hour ahead, on a topic that was not made to take every time."""
    coordinator.refusal = KafkaError.INVALID_TIMESTAMP
    with pytest.raises(FlowError, match=r"clock.* message.timestamp.after.max.ms=\d+ on mirror-control.pri") as raised:
        leading(flow)
    assert raised.value.blocked


def test_a_plan_that_is_nearly_too_large_is_written_and_told(
    flow: Flow,  # noqa: F811
    coordinator: Coordinator,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(plan_size, "WARN_FROM", 100)
    leading(flow)
    assert newest(coordinator.log).service_id == "old"
    (said,) = [vars(record) for record in caplog.records if record.levelno == logging.WARNING]
    assert said["bytes"] > 100 and "delete remote topics" in said["remedy"]


def test_most_plans_are_written_without_a_word(
    flow: Flow,  # noqa: F811
    coordinator: Coordinator,
    caplog: pytest.LogCaptureFixture,
) -> None:
    leading(flow)
    assert coordinator.log.entries and not caplog.records


def test_after_the_highest_generation_the_leader_goes_on(flow: Flow, coordinator: Coordinator) -> None:  # noqa: F811
    leader = leading(flow)
    coordinator.log.entries.append((PLAN_KEY, replace(newest(coordinator.log), generation=2**63 - 1).encode()))
    leader.check_still_leading()
    assert publish(leader, renew_interval=60.0).generation == 1 and not leader.lacks_plan
    new = FlowLeader(flow, "new")
    new.take_lead()
    assert publish(new).generation == 2
    with pytest.raises(Superseded):
        leader.check_still_leading()


@pytest.mark.parametrize(("timeout", "asked"), [(5.0, [5.0]), (60.0, [60.0, LEADER_TRANSACTION])])
def test_a_leader_that_dies_in_a_transaction_hides_nothing_for_long(
    flow: Flow,  # noqa: F811
    coordinator: Coordinator,
    timeout: float,
    asked: list[float],
) -> None:
    FlowLeader(replace(flow, transaction_timeout=timeout), "new").take_lead()
    assert coordinator.asked == [1000 * each for each in asked], "the newest producer's counts"


def test_a_service_whose_tasks_could_not_run_fences_nobody(flow: Flow, coordinator: Coordinator) -> None:  # noqa: F811
    old = leading(replace(flow, transaction_timeout=20.0))
    coordinator.longest = 20_000
    with pytest.raises(FlowError, match=r"transaction_timeout \(60 s\) is longer") as caught:
        FlowLeader(flow, "new").take_lead()
    assert caught.value.blocked
    publish(old, 1.0)
