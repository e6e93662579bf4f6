"""The ids and partitions of the source's topics: a broker that is cut off from the controller reports old ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.control.plan import Plan
from mirror.kafka import clients
from mirror.model import Topic
from mirror.service.topic_monitor import TopicMonitor
from mirror.settings import Flow
from tests.unit.control.test_control_reader import flow  # noqa: F401

PLAN = Plan("us", 7, {"t": Topic("primary.t", "old", 1, 1, "copy")}, ())


@dataclass
class Admin:
    """A cluster as the broker that is asked sees it."""

    ids: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)  # without those that have one partition
    listed: bool = True

    def partitions(self) -> dict[str, int]:
        return {name: self.counts.get(name, 1) for name in self.ids if self.listed}

    def topic_ids(self, names: Iterable[str], _refused: object = None) -> dict[str, str]:
        return {name: self.ids[name] for name in names if name in self.ids}

    def create_partitions(self, _: object) -> dict[str, object]:
        return {}


def seen(monitor: Any, topic_id: str, plan: Plan | None) -> str:
    """The id in the next plan, if the source answers this one."""
    monitor._source.ids = {"t": topic_id}
    return str(monitor.mirrored(plan)["t"].topic_id)


@pytest.fixture
def monitor(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: F811
    monkeypatch.setattr(clients, "admin", lambda *_: None)
    found: Any = TopicMonitor(flow)
    found._source, found._target = Admin(), Admin({"primary.t": "copy"})
    found._remote_topics._target = found._target
    found.timestamps = SimpleNamespace(look=lambda _: None, refused=(), compacted=(), largest={})
    return found


def test_the_id_of_a_topic_that_was_created_again_does_not_go_back(monitor: Any) -> None:
    """Otherwise the position would look like one of a deleted topic, and the live one be copied from its start."""
    assert seen(monitor, "old", None) == "old" and not monitor.awaits_confirmation
    assert seen(monitor, "new", PLAN) == "old" and monitor.awaits_confirmation, "the next look has to confirm it"
    assert seen(monitor, "new", PLAN) == "new" and not monitor.awaits_confirmation
    plan = replace(PLAN, topics={"t": replace(PLAN.topics["t"], topic_id="new")})
    for _ in range(3):
        assert seen(monitor, "old", plan) == "new" and not monitor.awaits_confirmation


def test_a_new_flow_leader_knows_the_id_of_the_plan(monitor: Any) -> None:
    assert [seen(monitor, each, PLAN) for each in ("older", "old")] == ["old", "old"], "one look proves nothing"
    assert [seen(monitor, each, PLAN) for each in ("new", "new", "old", "old")] == ["old", "new", "new", "new"]


GROWN = replace(PLAN, topics={"t": replace(PLAN.topics["t"], partitions=3)})


def looks(monitor: Any, *source: Admin, plan: Plan = GROWN) -> list[dict[str, tuple[str, int]]]:
    """The topics in the plans that follow from these looks at the source, and what awaits confirmation."""
    found = []
    for monitor._source in source:
        topics = monitor.mirrored(plan)
        found.append({name: (topic.topic_id, topic.partitions) for name, topic in topics.items()})
        assert monitor.awaits_confirmation == (found[-1] == {"t": ("old", 3)} and monitor._source is not WHOLE)
    return found


WHOLE = Admin({"t": "old"}, {"t": 3})
SMALLER, GONE, UNLISTED = Admin({"t": "old"}, {"t": 2}), Admin(), Admin({"t": "old"}, listed=False)


@pytest.mark.parametrize(("missing", "left"), [(SMALLER, {"t": ("old", 2)}), (GONE, {}), (UNLISTED, {})])
def test_what_a_single_look_misses_stays_in_the_plan(monitor: Any, missing: Admin, left: dict[str, Any]) -> None:
    """A broker that has just started may not know it. Without it the plan would end the copying of its partitions."""
    monitor._target.counts = {"primary.t": 3}
    kept = {"t": ("old", 3)}
    assert looks(monitor, missing, WHOLE, missing, missing, missing) == [kept, kept, kept, left, left]


def test_what_two_looks_miss_in_different_ways_stays(monitor: Any) -> None:
    monitor._target.counts = {"primary.t": 3}
    assert looks(monitor, SMALLER, GONE, SMALLER) == [{"t": ("old", 3)}] * 3


def test_a_topic_that_was_created_again_with_fewer_partitions_has_fewer(monitor: Any) -> None:
    monitor._target.counts = {"primary.t": 3}
    again = Admin({"t": "new"}, {"t": 2})
    assert looks(monitor, again, again) == [{"t": ("old", 3)}, {"t": ("new", 2)}]


def test_a_topic_that_the_configuration_leaves_out_leaves_the_plan_at_once(monitor: Any, flow: Flow) -> None:  # noqa: F811
    monitor._follow(replace(flow, exclude=("t",)))
    assert monitor.mirrored(PLAN) == {} and not monitor.awaits_confirmation
