"""Targets of older releases of Kafka, which have no transactions version 2: `data_path: auto` means records there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mirror.demo.brokers import LocalCluster
from mirror.demo.jvm import SHORT_LIVED
from tests.harness import oracle
from tests.harness.load import Load
from tests.harness.pair import Pair
from tests.harness.service import TAKES_BATCHES, TAKES_RECORDS
from tests.integration.test_data_path import AUTO, await_path

pytestmark = pytest.mark.slow

OLD = ["3.9.1", "3.3.2"]
TOO_OLD = "the record path is used: a cluster is too old for the batch path"


@pytest.fixture(params=OLD)
def old(request: pytest.FixtureRequest, source_cluster: LocalCluster, tmp_path: Path, prefix: str) -> Iterator[Pair]:
    with LocalCluster("old", tmp_path, java_options=SHORT_LIVED, version=request.param) as target:
        yield Pair(source_cluster.bootstrap, target.bootstrap, "old", prefix)


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
            assert not [each for name in (TAKES_BATCHES, TAKES_RECORDS) for each in service.find(name)]
    old.assert_settled(topic)
