"""Older releases of Kafka. Targets have no transactions version 2: `data_path: auto` means records there.

Sources need not have it: whole batches are read from them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mirror.demo.brokers import LocalCluster
from mirror.demo.jvm import SHORT_LIVED
from mirror.groups.group_offsets import Committed, GroupOffsets
from mirror.model import Partition
from mirror.settings import Cluster
from tests.harness import oracle, raw_commits, topics
from tests.harness.load import Load
from tests.harness.pair import Pair
from tests.harness.service import TAKES_BATCHES, TAKES_RECORDS
from tests.harness.waiting import until
from tests.integration.test_data_path import AUTO, await_path, partition

pytestmark = pytest.mark.slow

OLD = ["3.9.1", "3.3.2"]
TOO_OLD = "the record path is used: a cluster is too old for the batch path"


@pytest.fixture(scope="module", params=OLD)
def old_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory, version = tmp_path_factory.mktemp("old"), request.param
    with LocalCluster("old", directory, java_options=SHORT_LIVED, version=version) as running:
        yield running


@pytest.fixture
def old(source_cluster: LocalCluster, old_broker: LocalCluster, prefix: str) -> Pair:
    """The old broker is the target."""
    return Pair(source_cluster.bootstrap, old_broker.bootstrap, "old", prefix)


@pytest.fixture
def from_old(old_broker: LocalCluster, target_cluster: LocalCluster, prefix: str) -> Pair:
    """The old broker is the source. Its alias is new: the target has topics of a flow from another release."""
    return Pair(old_broker.bootstrap, target_cluster.bootstrap, f"old{uuid.uuid4().hex[:6]}", prefix)


def test_records_are_copied_once_through_a_kill_and_no_partition_changes_its_path(old: Pair, tmp_path: Path) -> None:
    topic = old.topic("t", 2)
    with Load(old.source, {topic: 2}, rate=300, transaction=20, abort_every=3) as running:
        with old.service(tmp_path, AUTO) as service:
            service.wait_for("something is copied", lambda: oracle.count(old.copied(topic)) > 300)
            service.kill()
        with old.service(tmp_path, AUTO) as service:
            for number in (0, 1):
                assert await_path(service, topic, "records", number)["path_reason"] == "unsupported"
            running.stop()
            old.await_same(topic)
            assert service.terminate() == 0, service.tail()
            assert not service.noise, service.tail()
            said = service.find(TOO_OLD)
            assert len(said) in (1, 2), "once for each task"
            assert all("EndTxn needs version 5" in each["reason"] for each in said)
            assert not service.find(TAKES_BATCHES)
            # A broker that answers late is asked by the batch path, too.
            assert {each["reason"] for each in service.find(TAKES_RECORDS)} <= {"unsupported"}
    old.assert_settled(topic)


def test_the_offsets_of_a_group_are_read_without_naming_its_partitions(old: Pair) -> None:
    """As a source, they give all that it has: also where a group has none, and not those of topics that are deleted."""
    topic, deleted, other = (
        topics.create(old.target, f"{old.prefix}-{name}", 3) for name in ("kept", "deleted", "other")
    )
    for each in (topic, deleted, other):
        raw_commits.commit(old.target, "billing", each, {0: 7, 2: 9}, "mine")
    topics.delete(old.target, deleted)
    there = {Partition(each, number): (each, number) for each in (topic, deleted) for number in range(3)}
    wanted = {Partition(topic, 0): Committed(7, "mine"), Partition(topic, 2): Committed(9, "mine")}
    with closing(GroupOffsets(Cluster("old", {"bootstrap.servers": old.target}, {}, {}))) as reader:
        until("offsets of the deleted topic are gone", lambda: reader.all_of("billing", there) == (wanted, {}))
        assert reader.all_of("absent", there) == ({}, {})
        assert reader.of("billing", there, stable=True) == (wanted, {}) and reader.gives_metadata


def test_whole_batches_of_an_old_source_are_copied_once_through_a_kill(from_old: Pair, tmp_path: Path) -> None:
    """With aborted transactions among them. Transactions are large, or what waits would have too many small batches."""
    topic = from_old.topic("t", 2)
    with Load(from_old.source, {topic: 2}, rate=300, transaction=100, abort_every=3) as running:
        with from_old.service(tmp_path, AUTO) as service:
            for number in (0, 1):
                assert not await_path(service, topic, "batches", number)["path_reason"]
            service.wait_for("something is copied", lambda: oracle.count(from_old.copied(topic)) > 300)
            service.kill()
        with from_old.service(tmp_path, AUTO) as service:
            for number in (0, 1):
                await_path(service, topic, "batches", number)
            running.wait_for(running.counts.total + 500)
            counts = running.stop()
            from_old.await_same(topic)
            assert all(partition(service, topic, number)["path"] == "batches" for number in (0, 1))
            assert service.terminate() == 0, service.tail()
            assert not service.noise, service.tail()
            assert not service.find(TOO_OLD) and not service.find(TAKES_RECORDS), service.tail()
    assert all(counts.aborted[topic, number] > 0 for number in (0, 1))
    from_old.assert_settled(topic)
