"""Offsets of groups as they stand on a cluster."""

from __future__ import annotations

from contextlib import closing

import pytest

from mirror.groups.group_offsets import Committed, GroupOffsets, offsets_of
from mirror.model import Partition
from mirror.settings import Cluster
from mirror.wire.offsets import Offset
from tests.harness.fake_coordinator import FIND_COORDINATOR, FakeCoordinator


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


def test_the_coordinators_of_many_groups_are_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that can't be asked for are left out."""
    groups = [f"g{number}" for number in range(100)]
    with FakeCoordinator(monkeypatch) as broker:
        broker.given = {("orders", 0): Offset(7, "")}
        with closing(GroupOffsets(Cluster("primary", broker.properties, {}, {}))) as reader:
            reader.find_coordinators(["", *groups])
            for each in groups:
                assert reader.of(each, {Partition("orders", 0): ("orders", 0)})[0]
        assert broker.count(FIND_COORDINATOR) == 1
