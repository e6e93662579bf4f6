"""What can't be read of a flow back concerns its topics, and ends no round."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from mirror.errors import ClusterAway, PartitionError
from mirror.groups import own_records
from mirror.groups.flow_back import FlowBack, FlowsBack
from mirror.groups.own_records import OwnRecords
from mirror.groups.partition_map import PartitionMap
from mirror.groups.seen import Seen
from mirror.model import MapEnd, Partition, Position
from mirror.settings import Flow
from mirror.target.offset_map import Entry
from tests.unit.test_naming import flow

OURS = flow(active_active=True)
ORDERS, CLICKS, OTHERS = (Partition(name, 0) for name in ("orders", "clicks", "others"))
READ = PartitionMap()
READ.add(Entry(70, 41, (1,), MapEnd()))
AT = Position(75, "id", remote_id="remote", map_end=MapEnd(41))


def back(alias: str, *topics: str) -> FlowBack:
    one = replace(OURS, source=replace(OURS.target, alias=alias), target=OURS.source, group=f"group-{alias}")
    return FlowBack(one, frozenset(topics))


class Flows:
    """The flows back, in place of their plans and of translators."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *found: FlowBack) -> None:
        self.found = list(found)
        self.refreshed: list[tuple[str, list[Partition]]] = []  # group, partitions
        self.closed: list[str] = []  # groups
        self.fails: dict[str, Exception] = {}  # by group
        self.refused: dict[str, KafkaError] = {}  # by topic
        monkeypatch.setattr(FlowsBack, "find", lambda _: self.found)
        monkeypatch.setattr(own_records, "Translator", lambda one: Stub(self, one))
        monkeypatch.setattr(own_records, "ClusterAdmin", lambda _: self)
        self.own = OwnRecords(OURS)

    def ids_now(self, names: Collection[str]) -> tuple[dict[str, str], dict[str, KafkaError]]:
        return {}, {name: self.refused[name] for name in names if name in self.refused}

    def read_before(self, partition: Partition) -> int | str:
        self.own.refresh([ORDERS, CLICKS, OTHERS])
        return self.own.read_before(partition, 42)


class Stub:
    def __init__(self, flows: Flows, one: Flow) -> None:
        self.flows, self.group = flows, one.group

    def refresh(self, partitions: Iterable[Partition]) -> None:
        self.flows.refreshed.append((self.group, list(partitions)))
        if self.group in self.flows.fails:
            raise self.flows.fails[self.group]

    def seen(self, _: Partition) -> Seen:
        return Seen(AT, 0, 300, False)

    def entries(self, *_: object) -> PartitionMap:
        return READ

    def close(self) -> None:
        self.flows.closed.append(self.group)


def test_each_topic_is_read_in_the_map_of_its_flow_back(monkeypatch: pytest.MonkeyPatch) -> None:
    flows = Flows(monkeypatch, back("a", "orders"), back("b", "clicks", "elsewhere"))
    assert [flows.read_before(each) for each in (ORDERS, CLICKS)] == [75, 75]
    assert flows.refreshed[:2] == [("group-a", [ORDERS]), ("group-b", [CLICKS])]
    assert flows.read_before(OTHERS) == "", "there is no flow back"
    flows.own.close()
    assert flows.closed == ["group-a", "group-b"]


def test_a_flow_back_that_has_ended_or_is_another_one_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    flows = Flows(monkeypatch, back("a", "orders"), back("b", "clicks"))
    flows.read_before(ORDERS)
    other = back("b", "clicks")
    flows.found = [replace(other, flow=replace(other.flow, group="another"))]
    assert flows.read_before(ORDERS) == "" and flows.read_before(CLICKS) == 75
    assert flows.closed == ["group-a", "group-b"] and flows.refreshed[-1] == ("another", [CLICKS])


@pytest.mark.parametrize("error", [ClusterAway("backup", "no answer in time"), PartitionError("Read is refused")])
def test_what_can_not_be_read_of_a_flow_back_is_the_reason_for_its_topics(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    flows = Flows(monkeypatch, back("a", "orders"), back("b", "clicks"))
    flows.fails = {"group-a": error}
    assert [flows.read_before(each) for each in (ORDERS, CLICKS)] == [str(error), 75]
    flows.fails = {}
    assert flows.read_before(ORDERS) == 75


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED])
def test_nobody_waits_for_a_map_that_does_not_exist(monkeypatch: pytest.MonkeyPatch, code: Any) -> None:
    """With `exactly_once: false` a flow has none."""
    flows = Flows(monkeypatch, back("a", "orders"))
    flows.refused = {"mirror-offset-map.a.internal": KafkaError(code)}
    said = f"mirror-offset-map.a.internal can't be read: {KafkaError(code).str()}"
    assert flows.read_before(ORDERS) == said and flows.refreshed == []
