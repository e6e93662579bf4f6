"""A target that commits one part of a transaction and aborts the other: nothing is lost or doubled, on either path.

So does a broker that is killed while it commits, and starts again before the others miss it: see Unconfirmed.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from mirror.demo.brokers import LocalCluster
from tests.failpoints.arm import Failpoints
from tests.harness import configuration, markers, syncs
from tests.harness.configuration import DATA_PATHS
from tests.harness.load import Made, producer
from tests.harness.pair import Pair
from tests.harness.service import DECIDED, PLANNED, Service
from tests.harness.waiting import PATIENCE

pytestmark = pytest.mark.slow


def test_the_position_is_set_to_what_belongs_to_the_records(
    source_cluster: LocalCluster, target_cluster: LocalCluster, prefix: str, tmp_path: Path, failpoints: Failpoints
) -> None:
    plain = Pair(source_cluster.bootstrap, target_cluster.bootstrap, f"t{prefix[-7:-1]}", prefix)
    pairs = [plain.by(path) for path in DATA_PATHS]
    settings = configuration.together(*(pair.settings() for pair in pairs))
    with Service(settings, tmp_path, failpoints.environment) as service:
        for pair in pairs:
            pair.topic("first")
            service.wait_for_event(PLANNED, flow=pair.flow)
        for pair in pairs:
            for only in ("records", "position"):
                only_one_part_is_committed(pair, service, failpoints, only, "next")
            only_one_part_is_committed(pair, service, failpoints, "records", "first")
            only_one_part_is_committed(pair, service, failpoints, "position", "last")
        assert service.terminate() == 0, service.tail()
        assert not service.noise, service.tail()


def only_one_part_is_committed(pair: Pair, service: Service, failpoints: Failpoints, only: str, place: str) -> None:
    """It is the partition's first transaction, or its last one, or another one comes next."""
    topic = pair.topic(f"{only}-{place}")
    begins = 0 if place == "first" else 1
    if begins:
        pair.produce(topic, Made(None, b"0"))
        await_settled(pair, service, topic, 0)
        pair.assert_path(service)
    failpoints.arm("SIGSTOP", "after-offsets")
    pair.produce(topic, *(Made(None, b"%d" % number) for number in range(begins, 6)))
    worker = failpoints.wait("after-offsets")
    name = f"{pair.group}/{pair.remote(topic)}/0"
    if only == "records":
        markers.commit_records(pair.target, pair.remote(topic), name)
    else:
        markers.commit_position(pair.target, pair.remote(topic), name, pair.group)
    stranger = producer(pair.target, transactional_id=name, message_timeout_ms=30_000)
    stranger.init_transactions(PATIENCE)  # it has the coordinator abort the transaction, which knows of no commit
    os.kill(worker, signal.SIGCONT)
    if place != "last":
        pair.produce(topic, Made(None, b"6"))
    await_settled(pair, service, topic, 5 if place == "last" else 6)
    pair.assert_settled(topic)
    (said,) = service.find(DECIDED, topic=topic)
    assert said["offset"] == (6 if only == "records" else begins) and said["reason"].startswith("the target has torn")


def await_settled(pair: Pair, service: Service, topic: str, last: int) -> None:
    """Wait until all is copied and the last record has its offset sync: then no transaction follows by itself."""
    pair.await_same(topic)
    service.wait_for(f"{topic} is settled", lambda: syncs.read(pair.target, pair.alias)[topic, 0][-1].upstream == last)
