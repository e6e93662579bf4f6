"""The ids of the source's topics in the plan: a broker that is cut off from the controller reports old ones."""

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

    def partitions(self) -> dict[str, int]:
        return dict.fromkeys(self.ids, 1)

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
