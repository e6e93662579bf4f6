"""Where copies are, once a replication policy of the user's own has changed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mirror.control.orders import Orders
from mirror.control.plan import Plan
from mirror.errors import FlowError
from mirror.groups import remote_names
from mirror.groups.remote_names import RemoteNames
from mirror.model import Topic
from mirror.settings import Flow
from tests.unit.test_naming import OWN, flow, own_name


class Newest:
    """Gives plans, and counts how often it was asked for one."""

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.asked = 0

    def __call__(self, flow: Flow) -> tuple[Plan | None, Orders]:
        self.asked += 1
        return self.plan, {}


@pytest.fixture
def newest(monkeypatch: pytest.MonkeyPatch) -> Newest:
    found = Newest()
    monkeypatch.setattr(remote_names, "newest_plan", found)
    return found


def plan(topics: Mapping[str, str], retired: Mapping[str, str]) -> Plan:
    one, other = ({name: Topic(remote, "id", 1, 1) for name, remote in some.items()} for some in (topics, retired))
    return Plan("leader", 1, one, (), retired=other)


def test_a_copy_has_the_name_of_the_plan_whatever_a_policy_of_the_users_own_says_now(newest: Newest) -> None:
    names = RemoteNames(flow(**OWN, topic_settings={"own": own_name("another")}))
    names.refresh()
    assert names.of("orders") == "primary--orders"
    newest.plan = plan({"orders": "old-orders", "_state": "old-state", "own": "old"}, {"refunds": "old-refunds"})
    names.refresh()
    names.refresh()
    assert newest.asked == 2
    assert [names.of(name) for name in ("orders", "refunds", "_state")] == ["old-orders", "old-refunds", "old-state"]
    assert names.of("payments") == "primary--payments"
    assert names.of("own") == "another", "the configuration says so, and no policy"
    assert names.known("orders") == "old-orders" and names.known("_other") is None
    with pytest.raises(FlowError, match="_other has no remote topic: it is not mirrored"):
        names.of("_other")


def test_without_a_policy_of_the_users_own_no_plan_is_read(newest: Newest) -> None:
    names = RemoteNames(flow())
    names.refresh()
    assert names.of("orders") == "primary.orders" and newest.asked == 0
