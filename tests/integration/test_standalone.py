"""On a Spark standalone cluster, slices run on all workers, and strangers learn nothing of what they are told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import files
from pathlib import Path

import psutil
import pytest

from mirror.demo.brokers import free_port
from tests.harness import eavesdropper
from tests.harness.eavesdropper import Eavesdropper
from tests.harness.installed import HERE
from tests.harness.load import Load, Made
from tests.harness.pair import Pair
from tests.harness.service import Service
from tests.harness.spark_cluster import SparkCluster
from tests.harness.spark_stranger import given_away, listening
from tests.harness.waiting import PATIENCE

TRANSFORMS = Path(__file__).parents[1] / "transforms"
PASSWORD = "password-of-nobody-else"
NEEDED = ("confluent-kafka", "crc32c", "pyarrow")  # what tasks import, apart from Spark's and mirror's own

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
            counted = "mirror_source_records_total"
            service.wait_for(
                "every partition copied",
                lambda: all(service.metric(counted, partition=number) > 100 for number in range(4)),
            )
            before = set(cluster.executors())
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


def environment(folder: Path) -> Path:
    """Make an environment with what tasks need, as `python -m venv` and `pip install` would; returns its packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in NEEDED:
        for each in files(name) or ():
            if {"include", "tests", "__pycache__"}.isdisjoint(each.parts) and ".." not in each.parts:
                place = packages / each
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(each.locate()), place)
    return packages


def test_executors_get_their_python_from_an_archive(pair: Pair, tmp_path: Path) -> None:
    """The workers' machines have Java, a Python and Spark, and no package that mirror needs."""
    topic, here = pair.topic("archive"), tmp_path / "here"
    packages = environment(here / "environment")
    with tarfile.open(tmp_path / "packed.tar.gz", "w:gz", compresslevel=0) as archive:
        archive.add(here / "environment", ".")
    # The service's own machine has all the rest, too.
    (packages / "all.pth").write_text(f"{sysconfig.get_path('purelib')}\n{Path(__file__).parents[2]}\n")
    with SparkCluster(tmp_path, workers=1) as cluster:
        settings = pair.settings(spark=cluster.settings)
        settings["spark"]["conf"] |= {
            "spark.archives": f"{tmp_path / 'packed.tar.gz'}#environment",
            "spark.pyspark.python": "./environment/bin/python",
        }
        with Service(settings, tmp_path, program=replace(HERE, cwd=here)) as service:
            pair.produce(topic, *[Made(None, b"x")] * 10)
            service.wait_for("a copy", lambda: pair.copied(topic).get(0))
            pair.await_same(topic)
            (worker,) = [psutil.Process(pid) for workers in cluster.executors().values() for pid in workers]
            mapped = [Path(each.path) for each in worker.memory_maps() if "confluent_kafka" in each.path]
            assert mapped and all(each.is_relative_to(Path(worker.cwd(), "environment")) for each in mapped), mapped
            assert service.terminate() == 0, service.tail()
    pair.assert_settled(topic)
