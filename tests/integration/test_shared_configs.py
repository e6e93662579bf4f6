"""Two services, one for each direction, of which both are to keep topic configurations in step."""

from __future__ import annotations

import json
import uuid
from contextlib import ExitStack
from pathlib import Path

import pytest

from mirror.demo.brokers import LocalCluster
from tests.harness import configuration, topics
from tests.harness.command import answer
from tests.harness.load import Made, produce
from tests.harness.service import Service
from tests.harness.waiting import until
from tests.integration.test_circles import cluster_id

pytestmark = pytest.mark.slow

ROUND = "mirror_topic_config_round_timestamp_seconds"


def test_one_of_two_services_leaves_topic_configurations_alone_and_says_so(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """A change on the side that counts is brought to the other one, and none is taken back there."""
    run = uuid.uuid4().hex[:4]
    topic = f"shared-configs-{run}"
    # The flow from the cluster with the higher id leaves them alone.
    first, last = sorted((source_cluster.bootstrap, target_cluster.bootstrap), key=cluster_id)
    mark = {"replication_policy": "identity", "active_active": True, "sync_topic_configs_interval": "1s"}
    services = []
    with ExitStack() as stack:
        for alias, other, here, there in (("first", "last", first, last), ("last", "first", last, first)):
            topics.create(here, topic, retention_ms=1_000_000)
            names = {"alias": f"{alias}{run}", "target_alias": f"{other}{run}"}
            settings = configuration.one_flow(here, there, [topic], **names, flow=mark)
            (directory := tmp_path / alias).mkdir()
            services.append(stack.enter_context(Service(settings, directory)))
        keeps, leaves = (service.await_plan() for service in services)
        kept_by = f"first{run}->last{run}"

        def told() -> bool:
            (flow,) = json.loads(leaves.get("/status")[1])["flows"]
            return bool(flow["configs"] and flow["configs"]["kept_by"] == kept_by)

        leaves.wait_for("it is told", told)
        (said,) = leaves.find("another flow may conflict")
        assert f"{kept_by} brings them the other way" in said["reason"]
        assert "Topic configurations are left alone" in leaves.get("/")[1]
        leaves.wait_for("it is ready", lambda: leaves.get("/readyz")[0] == 200)
        (found,) = answer("plan", "-c", leaves.file)["flows"]
        assert any("leaves topic configurations alone" in each for each in found["warnings"])
        assert not keeps.find("another flow may conflict")

        topics.configure(first, topic, retention_ms=2_000_000)
        until("it is brought", lambda: topics.configuration(last, topic)["retention.ms"] == "2000000")
        for service in services:  # two rounds
            at = service.metric(ROUND)
            service.wait_for("rounds", lambda s=service, a=at: s.metric(ROUND) > a + 1)  # type: ignore[misc]
        assert topics.configuration(first, topic)["retention.ms"] == "2000000"
        produce(last, topic, [Made(None, b"x")])
        leaves.wait_for("it copies", lambda: leaves.metric("mirror_source_records_total") == 1)

        assert keeps.terminate() == 0, keeps.tail()
        leaves.wait_for("it takes up the configurations", lambda: not told())
        topics.configure(last, topic, retention_ms=4_000_000)
        until("it is brought", lambda: topics.configuration(first, topic)["retention.ms"] == "4000000")
        assert leaves.terminate() == 0, leaves.tail()
