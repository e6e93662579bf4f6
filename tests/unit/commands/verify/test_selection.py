"""What is compared of a flow, and what is not, by what two clusters answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import OffsetSpec

from mirror.commands.verify import selection, surviving_syncs
from mirror.commands.verify.command import FlowResult, shown
from mirror.commands.verify.digests import Digester, Stretch
from mirror.commands.verify.ranges import PartitionRanges, Side
from mirror.commands.verify.selection import Selection, select
from mirror.commands.verify.verify import InProcess, verify
from mirror.errors import MirrorError
from mirror.model import Partition, Position
from mirror.records.consumed import Record
from mirror.settings import Cluster
from mirror.topic_selection import TopicSelection
from tests.unit.test_naming import flow

REFUSED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
FLOW = flow(topics=["orders", "bills"])


@dataclass
class FakeCluster:
    """What one cluster answers: the records of each partition."""

    records: dict[Partition, int]
    compacted: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)  # topics whose configuration may not be read
    without_leader: set[Partition] = field(default_factory=set)
    pending: dict[Partition, int] = field(default_factory=dict)  # records of transactions that do not end
    alias: str = ""

    def partitions(self) -> dict[str, int]:
        """The number of partitions of each topic."""
        return {
            each.topic: 1 + max(p.partition for p in self.records if p.topic == each.topic) for each in self.records
        }

    def topic_configs(self, names: Iterable[str], own: bool) -> tuple[dict[str, dict[str, str]], dict[str, KafkaError]]:
        """The policies of these topics."""
        found = {name: {"cleanup.policy": "compact" if name in self.compacted else "delete"} for name in names}
        left = {name: config for name, config in found.items() if name not in self.refused}
        return left, {name: REFUSED for name in found if name not in left}

    def offsets(self, asked: Mapping[Partition, OffsetSpec], stable: bool = True) -> dict[Partition, int]:
        """The first or the last offsets."""
        return {
            p: 0 if spec is OffsetSpec.earliest() else self.records[p] + (0 if stable else self.pending.get(p, 0))
            for p, spec in asked.items()
            if p not in self.without_leader
        }


class Positions:
    """All that the source has is copied."""

    none: frozenset[str] = frozenset()  # remote topics without a position

    def __init__(self, *_: Any) -> None:
        pass

    def hints(self, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Position | None]:
        """The position of each."""
        return {each: None if each[0] in self.none else self.stable(*each) for each in wanted}

    def stable(self, remote: str, partition: int) -> Position:
        """The position of one."""
        return Position(10, "")

    def close(self) -> None:
        """Do nothing."""


@dataclass
class World:
    """Two clusters with the copies of two topics."""

    source: FakeCluster
    target: FakeCluster

    def select(self, **changes: Any) -> Selection:
        """What is selected of a flow."""
        return select(flow(topics=["orders", "bills"], **changes), ())


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    here = {Partition(topic, number): 10 for topic in ("orders", "bills") for number in range(2)}
    made = World(
        FakeCluster(here, alias="primary"),
        FakeCluster({Partition(f"primary.{p.topic}", p.partition): 10 for p in here}, alias="backup"),
    )
    monkeypatch.setattr(
        selection, "ClusterAdmin", lambda cluster: made.source if cluster.alias == "primary" else made.target
    )
    monkeypatch.setattr(selection, "PositionReader", Positions)
    monkeypatch.setattr(surviving_syncs, "read", lambda *_: {})
    monkeypatch.setattr(selection, "STABLE_WITHIN", 0.0)
    remotes = {topic: f"primary.{topic}" for topic in ("orders", "bills")}
    monkeypatch.setattr(selection, "selected", lambda *_: TopicSelection(remotes, {}, {}))
    return made


def compared(found: Selection) -> list[str]:
    return [str(ranges.place) for ranges in found.compared if not ranges.reason]


def reasons(found: Selection) -> dict[str, str]:
    return {str(ranges.place): ranges.reason for ranges in found.compared if ranges.reason}


EVERY = ["bills-0", "bills-1", "orders-0", "orders-1"]


def test_all_partitions_are_compared(world: World) -> None:
    found = world.select()
    assert compared(found) == EVERY and not reasons(found)
    assert not (found.compacted or found.uncopied or found.unmarked or found.surplus)
    assert found.compared[0] == PartitionRanges(
        Side("primary", "bills", 0, 0, 10), Side("backup", "primary.bills", 0, 0, 10), 10, True, (), True
    )


@pytest.mark.parametrize(
    ("here", "there"), [({"orders"}, set()), (set(), {"primary.orders"}), ({"orders"}, {"primary.orders"})]
)
def test_a_topic_that_one_side_compacts_is_not_compared(world: World, here: set[str], there: set[str]) -> None:
    world.source.compacted, world.target.compacted = here, there
    found = world.select()
    assert (found.compacted, compared(found)) == (["orders"], EVERY[:2])


def test_the_targets_policies_need_not_be_known(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.target.refused = {"primary.orders"}
    assert compared(world.select()) == EVERY
    (said,) = caplog.records
    assert "whether remote topics are compacted is not known" in said.message
    world.source.refused, world.target.refused = {"orders"}, set()
    with pytest.raises(MirrorError, match=r"1 topic of primary can't be compared, e.g. orders"):
        world.select()


def test_remote_partitions_that_the_source_does_not_have_are_a_difference(world: World) -> None:
    world.target.records |= {Partition("primary.orders", 2): 0, Partition("primary.orders", 3): 5}
    found = world.select()
    assert found.surplus == [Partition("primary.orders", 3)], "the other one is empty"
    assert compared(found) == EVERY
    result = FlowResult.of(FLOW, equal(found), found, None)
    assert not result.equal and result.as_dict(20)["surplus"] == [{"topic": "primary.orders", "partition": 3}]
    text = shown(result, 20)
    assert "  primary.orders-3 has records on the target, but the source has no such partition\n" in text
    assert text.endswith("\nnot equal")
    # With active_active programs write to the target's topic, too.
    assert not world.select(active_active=True, replication_policy="identity").surplus


def test_what_was_never_copied_is_selected_as_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.source.records |= {Partition("orders", 2): 10, Partition("orders", 3): 0}
    monkeypatch.setattr(Positions, "none", frozenset({"primary.bills"}))
    found = world.select()
    assert compared(found) == EVERY[2:]
    assert [str(ranges.place) for ranges in found.uncopied] == ["bills-0", "bills-1", "orders-2"]
    lost = verify(found.uncopied, Ten(), InProcess(), lambda *_: None)
    assert [each.counts.lost for each in lost] == [10, 10, 10] and not any(each.in_flight for each in lost)
    result = FlowResult.of(FLOW, equal(found), found, None)
    assert not result.equal and "bills-1 has records, but none was ever copied" in shown(result, 20)


@pytest.mark.parametrize("side", ["primary orders-1", "backup primary.orders-1"])
def test_a_partition_without_a_leader_is_left_out_alone(world: World, side: str) -> None:
    alias, _, name = side.partition(" ")
    cluster = world.source if alias == "primary" else world.target
    cluster.without_leader = {Partition(name.removesuffix("-1"), 1)}
    found = world.select()
    assert compared(found) == EVERY[:3]
    reason = f"{name} can't be compared: {alias} gives no offsets of it: check its leader, and that mirror may read it"
    assert reasons(found) == {"orders-1": reason}
    (*others, last) = verify(found.compared, Ten(), InProcess(), lambda *_: None)
    assert all(each.equal for each in others) and last.reason == reason


def test_an_uncopied_partition_without_a_leader_has_a_reason(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Positions, "none", frozenset({"primary.bills"}))
    world.source.without_leader = {Partition("bills", 0)}
    found = world.select()
    assert [*reasons(found)] == ["bills-0"] and [str(each.place) for each in found.uncopied] == ["bills-1"]


def test_a_transaction_that_does_not_end_leaves_out_its_partition_alone(world: World) -> None:
    world.target.pending = {Partition("primary.orders", 0): 3}
    found = world.select()
    assert compared(found) == [*EVERY[:2], "orders-1"]
    assert "primary.orders-0 can't be compared: a transaction on the target has been open" in reasons(found)["orders-0"]


class Ten(Digester):
    """Ten records in each log."""

    def __init__(self) -> None:
        super().__init__({alias: Cluster(alias, {}, {}, {}) for alias in ("primary", "backup")})

    def _all(self, stretch: Stretch, stop: int) -> Iterator[Record]:
        for offset in range(stretch.start, min(10, stop)):
            yield offset, offset, b"%d" % offset


def equal(found: Selection) -> Any:
    """The results of the partitions that are compared."""
    results = verify(found.compared, Ten(), InProcess(), lambda *_: None)
    assert all(each.equal for each in results)
    return results
