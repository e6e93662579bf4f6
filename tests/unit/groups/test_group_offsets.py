"""Offsets of groups as they stand on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from mirror.errors import ClusterAway, PartitionError
from mirror.groups import offsets_of_librdkafka
from mirror.groups.group_offsets import Committed, GroupOffsets, is_usable_group, offsets_of, shown_group
from mirror.model import Partition
from mirror.settings import Cluster
from mirror.wire.offsets import Offset
from tests.harness.fake_coordinator import FIND_COORDINATOR, FakeCoordinator, Fetch


def test_metadata_is_read_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the NUL of confluent-kafka, which reads up to one; Java's consumer writes none."""
    names = {Partition("orders", number): ("primary.orders", number) for number in range(4)}
    with FakeCoordinator(monkeypatch) as broker:
        broker.given = {
            ("primary.orders", 0): Offset(7, "AgABCQ=="),
            ("primary.orders", 1): Offset(8, "mine\0"),
            ("primary.orders", 2): Offset(9, ""),
            ("primary.orders", 3): Offset(-1, ""),  # it has none
        }
        found, failed = offsets_of(Cluster("primary", broker.properties, {}, {}), "g", names)
    assert found == {
        Partition("orders", 0): Committed(7, "AgABCQ=="),
        Partition("orders", 1): Committed(8, "mine\0"),
        Partition("orders", 2): Committed(9, ""),
    }
    assert [each.text for each in found.values()] == ["AgABCQ==", "mine", ""] and not failed


def test_who_reads_many_groups_names_no_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group has offsets in few of a source's partitions. Those in others than the wanted ones are left out."""
    names = {Partition("orders", number): ("orders", number) for number in range(10_000)}
    with FakeCoordinator(monkeypatch) as broker:
        broker.given = {("orders", 7): Offset(7, "mine"), ("__internal", 0): Offset(8, "")}
        with closing(GroupOffsets(Cluster("primary", broker.properties, {}, {}))) as reader:
            assert reader.all_of("g", names) == ({Partition("orders", 7): Committed(7, "mine")}, {})
    assert broker.fetches == [Fetch("g", None, stable=False)]
    assert max(len(each.body) for each in broker.requests) < 1_000


def test_the_coordinators_of_many_groups_are_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that can't be asked for are left out."""
    groups = [f"g{number}" for number in range(100)]
    with FakeCoordinator(monkeypatch) as broker:
        broker.given = {("orders", 0): Offset(7, "")}
        with closing(GroupOffsets(Cluster("primary", broker.properties, {}, {}))) as reader:
            reader.find_coordinators(["", *("x" * n for n in range(256, 400)), *groups])
            for each in groups:
                assert reader.of(each, {Partition("orders", 0): ("orders", 0)})[0]
        assert broker.count(FIND_COORDINATOR) == 1
        assert max(len(each.body) for each in broker.requests) < 1_000


def test_a_very_long_id_is_not_asked_for_and_shown_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka allows 32,767 bytes, and the metrics have the ids of a thousand groups."""
    with FakeCoordinator(monkeypatch) as broker, pytest.raises(PartitionError, match="more than 255 characters") as it:
        offsets_of(Cluster("primary", broker.properties, {}, {}), "x" * 256, {Partition("orders", 0): ("orders", 0)})
    assert not broker.fetches and len(str(it.value)) < 300
    assert is_usable_group("x" * 255) and shown_group("x" * 255) == "x" * 255
    assert shown_group("x" * 32_767) == f"{'x' * 60}... (32,767 characters)"


NAMES = {Partition("orders", number): ("primary.orders", number) for number in range(2)}
FIRST, SECOND = NAMES
HELD = "an offset of group g is held by an open transaction"


def test_an_offset_that_a_transaction_holds_is_not_known_to_who_would_undo_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever commits to the group before the marker comes would undo what the transaction has committed."""
    with FakeCoordinator(monkeypatch) as broker:
        broker.given = {("primary.orders", number): Offset(7, "") for number in range(2)}
        broker.pending = [("primary.orders", 1)]
        with closing(GroupOffsets(Cluster("backup", broker.properties, {}, {}))) as reader:
            found, failed = reader.of("g", NAMES, stable=True)
            assert found == {FIRST: Committed(7, "")} and list(failed) == [SECOND]
            assert failed[SECOND].startswith(HELD)
            assert reader.of("g", NAMES) == (dict.fromkeys(NAMES, Committed(7, "")), {})
    assert [each.stable for each in broker.fetches] == [True, False]


class Reader:
    """In place of librdkafka's consumer. `asked` are the isolation levels with which it was asked."""

    asked: list[str]
    silent: tuple[str, ...] = ("read_committed",)

    def __init__(self, cluster: Cluster, group: str, isolation: str) -> None:
        self._isolation = isolation

    def committed(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        self.asked.append(self._isolation)
        if self._isolation in self.silent:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return [TopicPartition(each.topic, each.partition, 7) for each in asked]

    def poll(self, timeout: float) -> None:
        """There are no events."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def of_librdkafka(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Reads of a cluster that only librdkafka can log in to."""
    Reader.asked, Reader.silent = [], ("read_committed",)
    monkeypatch.setattr(offsets_of_librdkafka, "group_reader", Reader)
    limited = Cluster("backup", {"bootstrap.servers": "b:1", "broker.address.ttl": "1000"}, {}, {})

    def read(stable: bool) -> Any:
        with closing(GroupOffsets(limited)) as reader:
            return reader.of("g", NAMES, stable=stable)

    return read


def test_librdkafka_tells_of_a_transaction_by_its_silence(of_librdkafka: Callable[..., Any]) -> None:
    found, failed = of_librdkafka(stable=True)
    assert found == {} and failed.keys() == NAMES.keys() and failed[FIRST].startswith(HELD)
    assert Reader.asked == ["read_committed", "read_committed", "read_uncommitted"]
    Reader.asked.clear()
    assert of_librdkafka(stable=False)[0] == dict.fromkeys(NAMES, Committed(7, ""))
    assert Reader.asked == ["read_uncommitted"]


def test_a_target_that_answers_nothing_is_away(of_librdkafka: Callable[..., Any]) -> None:
    Reader.silent = ("read_committed", "read_uncommitted")
    for stable in (True, False):
        with pytest.raises(ClusterAway, match="no offsets of group g"):
            of_librdkafka(stable=stable)
