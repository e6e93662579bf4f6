"""What Spark on Kubernetes says to an executor or a driver, as the command line that starts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.errors import SetupError
from mirror.spark.pod_command import MAIN, driver, executor

HOME = Path("/opt/spark")
SAID = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.1:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "mirror-exec-3",
    "SPARK_EXECUTOR_MEMORY": "512m",
}


def test_everything_that_spark_says_is_passed_on() -> None:
    line = executor(SAID, "/bin/java", HOME)
    before, after = line[: line.index(MAIN)], line[line.index(MAIN) + 1 :]
    assert before[0] == "/bin/java" and {"-Xms512m", "-Xmx512m"} <= set(before)
    assert dict(zip(after[::2], after[1::2], strict=True)) == {
        "--driver-url": "spark://CoarseGrainedScheduler@10.0.0.1:7078",
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.2",
        "--resourceProfileId": "0",
        "--podName": "mirror-exec-3",
    }


def test_java_options_come_in_sparks_order() -> None:
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dn={number}" for number in (10, 2, 0)}
    assert executor({**SAID, **options}, "java", HOME)[1:4] == ["-Dn=0", "-Dn=2", "-Dn=10"]


def test_sparks_configuration_comes_before_its_jars() -> None:
    line = executor({**SAID, "SPARK_CLASSPATH": "/extra/*", "SPARK_CONF_DIR": "/opt/spark/conf"}, "java", HOME)
    assert line[line.index("-cp") + 1] == "/extra/*:/opt/spark/conf:/opt/spark/jars/*"


@pytest.mark.parametrize("name", SAID)
def test_a_person_who_calls_it_is_told(name: str) -> None:
    with pytest.raises(SetupError, match=f"^{name}: not in the environment"):
        executor({**SAID, name: ""}, "java", HOME)


def test_a_driver_is_a_spark_submit_with_what_spark_says() -> None:
    arguments = ["--properties-file", "/opt/spark/conf/spark.properties", "local:///mirror.py", "run", "-c", "a.yaml"]
    line = driver({"SPARK_DRIVER_BIND_ADDRESS": "10.0.0.3"}, "/bin/python", arguments, HOME)
    assert line[0] == "/opt/spark/bin/spark-submit" and line[-len(arguments) :] == arguments
    assert line[1 : -len(arguments)] == [
        "--conf",
        "spark.driver.bindAddress=10.0.0.3",
        "--conf",
        "spark.executorEnv.SPARK_DRIVER_POD_IP=10.0.0.3",
        "--conf",
        "spark.pyspark.driver.python=/bin/python",
        "--deploy-mode",
        "client",
    ]


def test_a_person_who_calls_the_driver_is_told() -> None:
    with pytest.raises(SetupError, match=r"^SPARK_DRIVER_BIND_ADDRESS: not in the environment"):
        driver({}, "python", [], HOME)
