"""`mirror executor` as Spark calls it in a pod: it joins the driver, authenticated and encrypted, and runs its tasks.

No Kubernetes is there. A standalone master without workers stands in for it, because it starts no executor itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from mirror.service_settings import Log, Spark
from mirror.spark.security import AUTHENTICATE, ENCRYPT, SECRET
from mirror.spark.session import SparkDriver
from tests.harness.spark_cluster import SparkCluster
from tests.harness.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[SparkDriver]:
    with SparkCluster(tmp_path, 0) as cluster:
        spark = Spark(cluster.url, cluster.settings["conf"], frozenset())
        found = SparkDriver(spark, {}, "leader", Log("info", "text"))
        try:
            yield found
        finally:
            found.stop()
            found.join(20)


def environment(driver: SparkDriver) -> dict[str, str]:
    """What Spark sets in an executor's pod: BasicExecutorFeatureStep has it."""
    context = driver.session.sparkContext
    conf = dict(context.getConf().getAll())
    options = ["-XX:+UseSerialGC", *(f"-D{key}={conf[key]}" for key in (AUTHENTICATE, ENCRYPT, "spark.driver.port"))]
    return {
        **os.environ,
        **{f"SPARK_JAVA_OPT_{number}": option for number, option in enumerate(options)},
        "_SPARK_AUTH_SECRET": cast(str, context.getConf().get(SECRET)),
        "SPARK_DRIVER_URL": f"spark://CoarseGrainedScheduler@127.0.0.1:{conf['spark.driver.port']}",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_APPLICATION_ID": context.applicationId,
        "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
        "SPARK_EXECUTOR_POD_NAME": "mirror-exec-1",
        "SPARK_RESOURCE_PROFILE_ID": "0",
    }


def test_an_executor_runs_tasks_and_ends_with_the_driver(driver: SparkDriver, tmp_path: Path) -> None:
    with (
        (tmp_path / "executor.log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, "-m", "mirror", "executor"],
            env=environment(driver),
            cwd=tmp_path,
            stdout=log,
            stderr=log,
        ) as executor,
    ):
        try:
            until("the executor has joined", lambda: executor.poll() is not None or driver.slots() == 2, 60)
            assert executor.poll() is None, (tmp_path / "executor.log").read_text()
            squares = driver.session.sparkContext.parallelize(range(10), 2).map(lambda each: each * each)
            assert squares.sum() == 285
            driver.session.stop()
            assert executor.wait(30) == 0, (tmp_path / "executor.log").read_text()
        finally:
            executor.kill()
