"""Whether another flow lives is told by what grows. Timestamps tell it only until one has looked twice."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from mirror.control import cluster_plans, other_flows
from mirror.control.cluster_plans import ClusterPlans
from mirror.control.control_topics import INTENT_KEY, PLAN_KEY
from mirror.control.observed_topics import ControlTopic
from mirror.control.other_flows import OtherFlows
from mirror.control.plan import Plan
from mirror.control.signs import GOODBYE_KEY, SIGN_KEY, Sign
from mirror.model import Partition, Topic
from mirror.settings import Cluster, Flow
from mirror.timing import ALIVE, LIFE_SHOWS
from tests.harness.waiting import PATIENCE
from tests.unit.control.test_control_reader import flow  # noqa: F401

AHEAD = 2 * ALIVE  # seconds by which our clock is ahead of the other flow's
CONTROL = "mirror-control.other.internal"
PLAN = Plan("them", 1, {"t": Topic("primary.t", "id", 1, 1)}, (frozenset({Partition("t", 0)}),), clusters=("c", "b"))
SIGN = Sign(PLAN.service_id, "host")
NEXT = replace(PLAN, service_id="started in their place", generation=2)


class Record:
    """A record of the other flow, which has the time of its clock."""

    def __init__(self, offset: int, key: bytes, value: bytes) -> None:
        self._at = time.time() - AHEAD
        self._offset, self._key, self._value = offset, key, value

    def topic(self) -> str:
        return CONTROL

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes:
        return self._value

    def error(self) -> None: ...

    def timestamp(self) -> tuple[int, int]:
        return 1, round(1000 * self._at)


class Plans(ClusterPlans):
    """The control topics of a cluster: that of the other flow, or none."""

    def __init__(self, cluster: Cluster, *_: str) -> None:
        super().__init__(cluster, "group", "", "")
        self.cluster_id = f"id-{cluster.alias}"
        self.records: list[Record] = []

    def add(self, key: bytes, value: bytes) -> None:
        self.records.append(Record(len(self.records), key, value))

    def _list(self) -> None:
        self.control_topics = self.control_topics or ({"other": ControlTopic()} if self.records else {})

    def _ends(self, topics: Iterable[str]) -> dict[str, int]:
        return dict.fromkeys(topics, len(self.records))

    def _fetch(self, spans: Mapping[str, tuple[int, int]]) -> Iterator[Any]:
        for begin, end in spans.values():
            yield from self.records[begin:end]


class Flood(Plans):
    """The same, read by a consumer for which there is always more."""

    _fetch = ClusterPlans._fetch

    def assign(self, at: list[Any]) -> None:
        self.begin = at[0].offset

    def consume(self, *_: object) -> list[Record]:
        records, self.begin = [Record(self.begin + n, SIGN_KEY, b"") for n in range(10)], self.begin + 10
        return records

    def unassign(self) -> None: ...


def test_a_topic_with_too_many_records_is_given_up_for_a_while(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Whoever may write to the source could hold up every flow that looks for others there."""
    plans: Any = Flood(flow.target)
    monkeypatch.setattr(cluster_plans, "internal_consumer", lambda *_: plans)
    monkeypatch.setattr(cluster_plans, "READING_MAX", 0.1)
    plans.records = range(10**9)
    plans.control_topics = {"other": ControlTopic()}
    plans.read()
    (doubt,) = plans.doubts
    assert "too many records" in doubt.problem
    assert 0 < plans.control_topics["other"].reached < 10**9, "the next reading goes on there"


def test_what_others_write_takes_no_more_memory_than_there_is_for_it(
    flow: Flow,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever may create topics may write plans there. A flow that they leave unchecked is a doubt."""
    monkeypatch.setattr(cluster_plans, "VALUES_MAX", 3 * len(PLAN.encode()))
    plans = Plans(flow.target)
    for key in (PLAN_KEY, INTENT_KEY, INTENT_KEY):
        plans.add(key, PLAN.encode())
    plans.read()
    assert not plans.doubts, "an intent replaces the one before it"
    plans.add(PLAN_KEY, PLAN.encode() + b" " * 2 * len(PLAN.encode()))
    plans.read()
    assert plans.control_topics["other"].statements.keys() == {INTENT_KEY}
    assert [each.problem.partition("(")[2][:17] for each in plans.doubts] == ["too much to check"]
    plans.add(INTENT_KEY, b"")
    plans.add(PLAN_KEY, PLAN.encode())
    plans.read()
    assert plans.control_topics["other"].statements.keys() == {PLAN_KEY}
    plans.records.clear()
    plans.read()
    assert plans._budget.takes("", b"", cluster_plans.VALUES_MAX), "of a topic that was created again nothing is held"


def test_a_consumer_that_does_not_close_holds_no_flow_up(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """librdkafka may wait for itself for ever."""
    closed_by = queue.SimpleQueue[threading.Thread]()
    consumer = Mock(consume=lambda *_: [], close=lambda: closed_by.put(threading.current_thread()))
    monkeypatch.setattr(cluster_plans, "internal_consumer", lambda *_: consumer)
    monkeypatch.setattr(cluster_plans, "READ_TIMEOUT", 0.01)
    plans = Flood(flow.target)
    plans.add(PLAN_KEY, PLAN.encode())
    plans.read()
    assert closed_by.get(timeout=PATIENCE) is not threading.current_thread()
    plans._idle = consumer
    plans.close()
    assert closed_by.get(timeout=PATIENCE) is not threading.current_thread()


@pytest.fixture
def target(flow: Flow) -> Plans:  # noqa: F811
    plans = Plans(flow.target)
    plans.add(PLAN_KEY, PLAN.encode())
    return plans


@pytest.mark.parametrize(
    ("key", "value", "lives", "by_successor"),
    [
        (SIGN_KEY, SIGN.encode(), True, False),
        (SIGN_KEY, b"of a newer mirror", True, False),
        (PLAN_KEY, PLAN.encode(), True, False),
        (INTENT_KEY, NEXT.encode(), True, False),
        (SIGN_KEY, Sign(NEXT.service_id, "host").encode(), True, True),
        (SIGN_KEY, Sign(NEXT.service_id, "host", waits=True).encode(), False, False),
        (GOODBYE_KEY, SIGN.encode(), False, False),
        (b"order/*/*", b'{"paused":true}', False, False),
    ],
)
def test_what_is_new_on_a_control_topic_says_whether_the_flow_of_its_plan_lives(
    target: Plans, key: bytes, value: bytes, lives: bool, by_successor: bool
) -> None:
    """A service that is started in place of a dead one has no plan or intent at first."""
    target.read()
    assert target.silence("other") >= AHEAD - 1, "the timestamp is all that is known"
    target.read()
    assert target.silence("other") >= AHEAD - 1
    target.add(key, value)
    target.read()
    assert (target.silence("other") < ALIVE / 2) == lives
    assert target.lives_by_successor("other") == by_successor


def test_a_successor_that_has_come_to_wait_keeps_no_dead_flow_alive(target: Plans) -> None:
    """It learns only after its first signs that another flow is in its way."""
    target.read()
    target.read()
    for waits in (False, True):
        target.add(SIGN_KEY, Sign(NEXT.service_id, "host", waits=waits).encode())
        target.read()
        assert (target.silence("other") < ALIVE / 2) != waits


def test_a_service_that_has_announced_what_it_will_copy_lives_by_its_own_signs(target: Plans) -> None:
    target.add(INTENT_KEY, NEXT.encode())
    target.read()
    assert target.silence("other") >= AHEAD - 1
    target.add(SIGN_KEY, Sign(NEXT.service_id, "host").encode())
    target.read()
    assert target.silence("other") < ALIVE / 2 and not target.lives_by_successor("other")


def test_a_control_topic_that_can_not_be_read_says_nothing_new(target: Plans) -> None:
    target.add(SIGN_KEY, SIGN.encode())
    target.read()
    target.silence("other")
    target.add(SIGN_KEY, SIGN.encode())
    target.read()
    assert target.silence("other") < 1
    target._unread[CONTROL] = "its records do not arrive"
    target.control_topics["other"].written -= AHEAD
    assert target.silence("other") < 1


@pytest.mark.parametrize("lives", [True, False])
def test_who_looks_silent_at_first_is_heard_for_a_while(
    flow: Flow,  # noqa: F811
    target: Plans,
    monkeypatch: pytest.MonkeyPatch,
    lives: bool,
) -> None:
    """Otherwise both would copy until the next look, if a clock is wrong."""
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if lives:
            target.add(SIGN_KEY, SIGN.encode())

    monkeypatch.setattr(
        other_flows, "ClusterPlans", lambda cluster, *_: {"backup": target}.get(cluster.alias, Plans(cluster))
    )
    monkeypatch.setattr("mirror.control.other_flows.time.sleep", sleep)
    others = OtherFlows(flow, own=False)
    for _ in range(2):
        view = others.look({"t": "primary.t"})
        assert [each.other.alive for each in view.conflicting_flows] == [lives]
        assert bool(view.refusals) == lives
    assert waited == [LIFE_SHOWS], "once is enough"
