"""Which flow back tells what of the target's own records a group has read: there may be several."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from mirror.control.cluster_plans import ClusterPlans
from mirror.control.control_topics import PLAN_KEY
from mirror.control.observed_topics import ControlTopic
from mirror.control.plan import Plan
from mirror.control.statement import Statement
from mirror.groups import flow_back
from mirror.groups.flow_back import FlowsBack
from mirror.model import Topic
from tests.unit.test_naming import flow

OURS = ("source-id", "target-id")
BACK = OURS[::-1]


def plan(group: str, *topics: str, stop: bool = False, clusters: tuple[str, ...] = BACK, **more: Any) -> Plan:
    known = {name: Topic(name, "id", 1, 1) for name in topics}
    return Plan("them", 1, known, (), stop, clusters=clusters, active_active=True, group=group, **more)


def found(monkeypatch: pytest.MonkeyPatch, plans: dict[str, tuple[float, Plan]]) -> list[tuple[str, str, set[str]]]:
    """Alias, group and topics of each flow back; `plans` has its last sign of life and its plan, by alias."""

    def read(self: ClusterPlans) -> None:
        for alias, (written, each) in plans.items():
            statement = Statement.decode(each.encode())
            self.control_topics[alias] = ControlTopic(written=written, statements={PLAN_KEY: statement})

    monkeypatch.setattr(ClusterPlans, "read", read)
    monkeypatch.setattr(flow_back, "newest_plan", lambda _: (plan("ours", "orders", clusters=OURS), {}))
    one = flow(active_active=True)
    with closing(FlowsBack(one)) as finder:
        backs = finder.find()
    assert all(each.flow.source.properties == one.target.properties for each in backs)
    assert all(each.flow.target == one.source for each in backs)
    return [(each.flow.source.alias, each.flow.group, set(each.topics)) for each in backs]


def test_a_flow_back_that_has_ended_does_not_hide_the_one_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """To begin again, it gets another alias and another group. The old plan stays, and says stop."""
    old, new = plan("old", "orders", "clicks", stop=True), plan("new", "orders")
    for written in (5.0, 50.0):  # somebody may have written the old plan again
        both = {"a": (written, old), "b": (10.0, new)}
        assert found(monkeypatch, both) == [("b", "new", {"orders"}), ("a", "old", {"clicks"})]


def test_of_two_that_were_not_stopped_the_one_that_lives_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old one was killed, and wrote no other plan."""
    both = {"a": (5.0, plan("old", "orders")), "b": (10.0, plan("new", "orders"))}
    assert found(monkeypatch, both) == [("b", "new", {"orders"})]


def test_while_all_are_stopped_the_newest_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    both = {"a": (5.0, plan("old", "orders", stop=True)), "b": (10.0, plan("new", "orders", stop=True))}
    assert found(monkeypatch, both) == [("b", "new", {"orders"})]


def test_flows_back_that_share_the_topics_have_their_own_each(monkeypatch: pytest.MonkeyPatch) -> None:
    both = {"a": (5.0, plan("one", "clicks")), "b": (10.0, plan("two", "orders"))}
    assert sorted(found(monkeypatch, both)) == [("a", "one", {"clicks"}), ("b", "two", {"orders"})]


def test_other_flows_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """They copy between other clusters, or their positions' group can't be read."""
    others = {"a": (1.0, plan("one", "orders", clusters=OURS)), "b": (1.0, plan(" theirs", "orders"))}
    assert found(monkeypatch, others) == []
    nothing = {"a": (1.0, plan("one"))}
    assert found(monkeypatch, nothing) == [("a", "one", set())], "mirror check asks for its group"
