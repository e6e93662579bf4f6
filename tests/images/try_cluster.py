"""Check that a Spark cluster of containers of the project's image copies: executors have nothing but what it has."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import yaml

from mirror.demo.brokers import free_port
from mirror.spark.security import SECRET, properties_file, protection
from tests.harness.load import Load
from tests.harness.pair import Pair
from tests.harness.waiting import until
from tests.images.containers import USERS, docker, ends, running, strict

FILE = "/etc/mirror/spark.properties"
HOST = "127.0.0.1"
WORKER = ("org.apache.spark.deploy.worker.Worker", "--work-dir", "/tmp/work", "--cores", "1", "--memory", "1g")


@contextlib.contextmanager
def spark(image: str, url: str, secret: dict[str, str], directory: Path) -> Iterator[tuple[str, str]]:
    """A master at `url` and two workers meanwhile; yields the workers' names."""
    file = directory / "spark.properties"
    file.write_text(properties_file({**protection(url, {}), **secret}))
    file.chmod(0o644)
    options = [*strict(USERS[0], file, FILE), "--env", "SPARK_DAEMON_MEMORY=256m", "--entrypoint", "spark-class"]
    told = ("--properties-file", FILE, "--host", HOST, "--webui-port", "0")
    master = ("org.apache.spark.deploy.master.Master", "--port", url.rpartition(":")[2])
    with (
        running(image, options, *master, *told),
        running(image, options, *WORKER, *told, url) as one,
        running(image, options, *WORKER, *told, url) as other,
    ):
        yield one, other


def copies_on_a_cluster(image: str, pair: Pair, directory: Path) -> None:
    """A worker is killed, so that its partitions have no slot, and started again."""
    url, secret, file = f"spark://{HOST}:{free_port()}", {SECRET: uuid.uuid4().hex}, directory / "mirror.yaml"
    conf = {"spark.driver.host": HOST, "spark.executor.cores": "1", "spark.executor.memory": "512m", **secret}
    settings = pair.settings(spark={"master": url, "conf": conf})
    file.write_text(yaml.safe_dump({**settings, "http": {"host": HOST}}))
    file.chmod(0o644)
    topic = pair.topic("t", 4)

    def copied() -> dict[int, int]:
        return {number: len(records) for number, records in pair.copied(topic).items()}

    with (
        spark(image, url, secret, directory) as workers,
        Load(pair.source, {topic: 4}, rate=300) as load,
        running(image, strict(USERS[0], file)) as service,
    ):

        def spread() -> bool:
            return all("pyspark.daemon" in docker("top", each) for each in workers)

        until("a Python worker in both", spread)
        until("all partitions are copied", lambda: len(copied()) == 4 and all(copied().values()))
        docker("kill", "--signal", "KILL", workers[0])
        began, before = time.monotonic(), copied()
        until("all go on", lambda: all(count > before[number] + 100 for number, count in copied().items()))
        print(f"100 records more of each partition {time.monotonic() - began:.1f} s after the kill of a worker")
        docker("start", workers[0])
        until("a Python worker in both again", spread)
        load.stop()
        pair.await_same(topic)
        ends(service)
        pair.assert_settled(topic)
