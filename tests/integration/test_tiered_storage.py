"""A source with tiered storage: its brokers answer from a remote store what is no longer on their disks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mirror.demo.brokers import LocalCluster
from mirror.demo.kafka_jars import TIER, kafka_jars
from mirror.text import BUG
from tests.harness import topics
from tests.harness.configuration import AUTO, together
from tests.harness.load import Load, sized
from tests.harness.pair import Pair
from tests.harness.service import BLOCKED, PASSED_OVER, RETRYING, TAKES_RECORDS, Service
from tests.harness.waiting import until

pytestmark = pytest.mark.slow

# Segments are moved as soon as they are full, and kept nowhere else.
TIERED: dict[str, Any] = {"remote_storage_enable": "true", "local_retention_bytes": 1, "segment_bytes": 2**20}
COUNT = 10_000  # of 500 bytes: five segments


@pytest.fixture
def tiered(tmp_path: Path) -> Iterator[LocalCluster]:
    properties = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "remote.log.storage.manager.class.path": f"{kafka_jars(TIER)}/*",
        "rsm.config.dir": tmp_path / "remote",
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": 1,
        "rlmm.config.remote.log.metadata.topic.num.partitions": 1,
        "remote.log.manager.task.interval.ms": 200,
        "log.retention.check.interval.ms": 200,
        "log.initial.task.delay.ms": 200,
    }
    with LocalCluster("tiered", tmp_path, 1, properties) as cluster:
        yield cluster


def await_moved(log: Path) -> None:
    """Wait until the broker's disk has no segment but the last one."""
    until("all others are moved", lambda: len([*log.glob("*.log")]) == 1)
    assert not (log / f"{0:020}.log").exists()


def test_what_is_in_the_remote_store_is_copied_too(
    tiered: LocalCluster, target_cluster: LocalCluster, prefix: str, tmp_path: Path
) -> None:
    """On both paths, without the records of aborted transactions. The remote topics are no tiered ones."""
    pairs = [Pair(tiered.bootstrap, target_cluster.bootstrap, "tiered", prefix).by(path) for path in ("records", AUTO)]
    names = [pair.topic("t", **TIERED) for pair in pairs]
    with Load(tiered.bootstrap, dict.fromkeys(names, 1), make=sized(500), transaction=200, abort_every=4) as load:
        load.wait_for(2 * COUNT)
    for name in names:
        await_moved(tmp_path / "tiered-1" / "data" / f"{name}-0")
    with Service(together(*(pair.settings({"sync_topic_configs": True}) for pair in pairs)), tmp_path) as service:
        for pair, name in zip(pairs, names, strict=True):
            pair.await_same(name)
            pair.assert_path(service)
            assert topics.configuration(pair.target, pair.remote(name))["remote.storage.enable"] == "false"
        assert service.terminate() == 0, service.tail()
        assert not service.noise, service.tail()
        assert not any(map(service.find, (BUG, RETRYING, BLOCKED, PASSED_OVER, TAKES_RECORDS))), service.tail()
    for pair, name in zip(pairs, names, strict=True):
        pair.assert_settled(name)
