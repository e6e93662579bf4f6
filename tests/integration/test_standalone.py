"""On a Spark standalone cluster, slices run on all workers, and strangers learn nothing of what they are told."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from mirror.demo.brokers import free_port
from tests.harness import eavesdropper
from tests.harness.eavesdropper import Eavesdropper
from tests.harness.load import Load
from tests.harness.pair import Pair
from tests.harness.service import Service
from tests.harness.spark_cluster import SparkCluster
from tests.harness.spark_stranger import given_away, listening
from tests.harness.waiting import PATIENCE

TRANSFORMS = Path(__file__).parents[1] / "transforms"
PASSWORD = "password-of-nobody-else"

pytestmark = pytest.mark.slow


def through_eavesdropper(ports: Sequence[int]) -> dict[str, str]:
    """Spark's settings with which executors reach the driver through it, and nothing is hidden by compression."""
    return {
        "spark.driver.host": eavesdropper.HOST,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.port": str(ports[0]),
        "spark.driver.blockManager.port": str(ports[1]),
        "spark.broadcast.compress": "false",
    }


def test_tasks_spread_and_what_they_are_told_is_hidden(pair: Pair, tmp_path: Path) -> None:
    topic, ports = pair.topic("spread", 4), [free_port(), free_port()]
    with SparkCluster(tmp_path, workers=2) as cluster, Eavesdropper(ports) as between:
        settings = pair.settings(spark=cluster.settings)
        settings["clusters"][pair.alias]["sasl.password"] = PASSWORD
        settings["spark"]["conf"] |= through_eavesdropper(ports)
        # Executors do not have this module: the service has to ship it. Without it, its topics would be blocked.
        settings["flows"][0]["transform"] = "shop_transforms.same"
        python_path = os.pathsep.join(filter(None, [str(TRANSFORMS), os.environ.get("PYTHONPATH")]))
        service = Service(settings, tmp_path, {"PYTHONPATH": python_path})
        with Load(pair.source, {topic: 4}, rate=300) as load, service:

            def spread() -> bool:
                return sorted(len(workers) for workers in cluster.executors().values()) == [1, 1]

            service.wait_for("a Python worker on each of two executors", spread, 2 * PATIENCE)
            before = set(cluster.executors())
            counted = "mirror_source_records_total"
            service.wait_for(
                "every partition copied",
                lambda: all(service.metric(counted, partition=number) > 100 for number in range(4)),
                60,
            )
            sockets = listening(service.processes()) + cluster.sockets()
            assert before | {service.jvm_pid} <= {socket.pid for socket in sockets}
            assert given_away(sockets, PASSWORD) == (False, False), "who does not know the secret gets nothing"
            assert len(between.heard) > 100_000, "the tasks and what they need to know"
            assert PASSWORD.encode() not in between.heard, "what executors are told is encrypted on its way"
            assert not cluster.shows(service.processes()), "who lists the machine's processes does not learn it"
            load.stop()
            pair.await_same(topic)
            assert service.terminate() == 0, service.tail()
    pair.assert_settled(topic)
