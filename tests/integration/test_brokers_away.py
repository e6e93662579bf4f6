"""Brokers that stop, are killed, hang or are not there yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mirror.demo.brokers import LocalCluster, start_together
from tests.harness.load import Load, Made
from tests.harness.pair import Pair
from tests.harness.service import FLOW_RETRYING, Service

ALIAS = "away"
TRANSACTION_TIMEOUT = 5  # seconds
PARTITIONS = 4
REACHABLE = "mirror_cluster_reachable"
FLOOD = 8 + 3 * PARTITIONS  # lines that an incident may be worth


class Both:
    """Two clusters of these tests' own, and the service between them."""

    def __init__(self, data_path: str, directory: Path) -> None:
        self.source, self.target = LocalCluster("source", directory), LocalCluster("target", directory)
        start_together(self.source, self.target)
        self.flow = Pair(self.source.bootstrap, self.target.bootstrap, ALIAS, f"{ALIAS}-").by(data_path)
        self.service = self.flow.service(directory, {"transaction_timeout": f"{TRANSACTION_TIMEOUT}s"})

    def cluster(self, role: str) -> LocalCluster:
        return self.source if role == "source" else self.target


@pytest.fixture(scope="module")
def both(data_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    running = Both(data_path, tmp_path_factory.mktemp("both"))
    try:
        with running.service as service:
            running.flow.topic("first")
            service.await_plan()
            yield running
            running.flow.assert_path(service)
            assert service.terminate() == 0, service.tail()
            assert not service.noise, service.tail()
    finally:
        running.source.kill()
        running.target.kill()


def survives(both: Both, name: str, incident: Callable[[], None]) -> None:
    """Check that everything goes on after `incident` under load, and that little is logged."""
    topic = both.flow.topic(name, PARTITIONS)
    said = len(both.service.lines)
    try:
        with Load(both.flow.source, {topic: PARTITIONS}, rate=150) as load:
            load.wait_for(150)
            incident()
            load.wait_for(load.counts.total + 300)
            load.stop()
            both.flow.await_same(topic)
        both.flow.assert_settled(topic)
        both.service.wait_for("ready", lambda: both.service.get("/readyz")[0] == 200)
        assert len(both.service.lines) - said <= FLOOD, "a flood of log lines"
    finally:
        print("\n".join(both.service.lines[said:]))


@pytest.mark.parametrize("role", ["target", "source"])
def test_a_broker_is_killed_and_comes_back(both: Both, role: str) -> None:
    def incident() -> None:
        both.cluster(role).kill()
        both.cluster(role).start()

    survives(both, f"{role}-killed", incident)


@pytest.mark.parametrize("role", ["target", "source"])
def test_a_broker_restarts_in_order(both: Both, role: str) -> None:
    def restart() -> None:
        both.cluster(role).stop()
        both.cluster(role).start()

    survives(both, f"{role}-restarted", restart)


def test_the_target_hangs_for_longer_than_a_transaction_may_take(both: Both) -> None:
    def incident() -> None:
        both.target.pause()
        time.sleep(TRANSACTION_TIMEOUT + 3)  # nothing answers that could be waited for
        both.target.resume()

    survives(both, "hanging", incident)


def test_both_clusters_come_late(prefix: str, data_path: str, tmp_path: Path) -> None:
    """A service that is started before them says so once for each, and goes on by itself."""
    source, target = LocalCluster("source", tmp_path), LocalCluster("target", tmp_path)
    flow = Pair(source.bootstrap, target.bootstrap, "late", prefix).by(data_path)

    both = ("backup", flow.alias)

    def waits_for(service: Service, clusters: int) -> None:
        """A cluster more than before, and it says nothing else meanwhile."""
        service.wait_for("it says so", lambda: len(service.find(FLOW_RETRYING)) >= clusters)
        assert service.get("/livez")[0] == 200
        assert service.get("/readyz")[0] == 503
        said = len(service.lines)
        time.sleep(5)  # a flood would need time, too
        assert len(service.lines) <= said + 1, service.tail()

    try:
        with flow.service(tmp_path) as service:
            waits_for(service, 1)
            service.wait_for("no answer", lambda: [service.metric(REACHABLE, cluster=c) for c in both] == [0, 0])
            target.start()
            waits_for(service, 2)
            service.wait_for("the target answers", lambda: service.metric(REACHABLE, cluster="backup") == 1)
            assert service.metric(REACHABLE, cluster=flow.alias) == 0
            source.start()
            topic = flow.topic("early")
            flow.produce(topic, *(Made(None, b"%d" % number) for number in range(100)))
            flow.await_same(topic)
            flow.assert_settled(topic)
            assert len(service.find("flow recovered")) == 1, service.tail()
            service.wait_for("ready", lambda: service.get("/readyz")[0] == 200)
            service.wait_for("the source answers", lambda: service.metric(REACHABLE, cluster=flow.alias) == 1)
            assert service.terminate() == 0
            assert not service.noise
    finally:
        target.kill()
        source.kill()
