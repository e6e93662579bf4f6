"""Which of two services leads a flow, while one of them stops and the other one takes over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from confluent_kafka import KafkaError, KafkaException

from mirror.control import flow_leader
from mirror.control.control_topics import PLAN_KEY
from mirror.control.flow_leader import FlowLeader
from mirror.control.plan import Lineage, Plan
from mirror.control.slices import Capacity, Slice
from mirror.control.throttle_shares import Load
from mirror.errors import FlowError, Superseded
from mirror.model import Partition, Topic
from mirror.settings import Flow
from tests.unit.control.test_control_reader import Entry, Log, flow, topic  # noqa: F401  # fixtures

TOPICS = {"t": Topic("primary.t", "id", 2, 0)}


@dataclass
class Coordinator:
    """What a broker knows of the flow leader's transactional id. `before_next` happens before it fences once more."""

    log: Log
    epoch: int = 0
    before_next: list[Callable[[], object]] = field(default_factory=list)


class Producer:
    """The flow leader's producer: the newest one fences all others."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._epoch = 0
        self._records: list[Entry] = []

    def init_transactions(self, _: float) -> None:
        if self._coordinator.before_next:
            self._coordinator.before_next.pop()()
        self._coordinator.epoch += 1
        self._epoch = self._coordinator.epoch

    def begin_transaction(self) -> None:
        self._records.clear()

    def produce(self, _topic: str, value: bytes | None, key: bytes, _partition: int) -> None:
        self._records.append((key, value))

    def commit_transaction(self, _: float) -> None:
        if self._epoch != self._coordinator.epoch:
            raise KafkaException(KafkaError(KafkaError._FENCED))
        self._coordinator.log.entries += self._records


@pytest.fixture
def coordinator(topic: Log, monkeypatch: pytest.MonkeyPatch) -> Coordinator:  # noqa: F811
    found = Coordinator(topic)
    monkeypatch.setattr(flow_leader, "target_producer", lambda *_: Producer(found))
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
