"""The command lines of what Spark starts in pods of their own: executors, and a driver that an operator submits.

Spark starts the image with the argument `executor` or `driver`, and says everything else in environment variables and
further arguments. Spark's own images have a shell script for that; ours has no more than PySpark, so this module does
it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mirror.errors import SetupError

MAIN = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"

# Spark's names, and the arguments that they become.
_ARGUMENTS = {
    "SPARK_DRIVER_URL": "--driver-url",
    "SPARK_EXECUTOR_ID": "--executor-id",
    "SPARK_EXECUTOR_CORES": "--cores",
    "SPARK_APPLICATION_ID": "--app-id",
    "SPARK_EXECUTOR_POD_IP": "--hostname",
    "SPARK_RESOURCE_PROFILE_ID": "--resourceProfileId",
    "SPARK_EXECUTOR_POD_NAME": "--podName",
}
_MEMORY = "SPARK_EXECUTOR_MEMORY"
_BIND = "SPARK_DRIVER_BIND_ADDRESS"
_OPTION = re.compile(r"SPARK_JAVA_OPT_(\d+)")


def executor(environment: Mapping[str, str], java: str, home: Path) -> list[str]:
    """The command line of the executor that `environment` describes, with the Spark in `home`.

    Raises SetupError if Spark did not set the variables: then nobody but a person has called this.
    """
    _check(environment, *_ARGUMENTS, _MEMORY)
    numbered = {int(found[1]): value for name, value in environment.items() if (found := _OPTION.fullmatch(name))}
    options = [numbered[number] for number in sorted(numbered)]
    options.append(f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}")
    memory = [f"-Xms{environment[_MEMORY]}", f"-Xmx{environment[_MEMORY]}"]
    places = (environment.get("SPARK_CLASSPATH"), environment.get("SPARK_CONF_DIR"), f"{home}/jars/*")
    arguments = [part for name, flag in _ARGUMENTS.items() for part in (flag, environment[name])]
    return [java, *options, *memory, "-cp", ":".join(filter(None, places)), MAIN, *arguments]


def driver(environment: Mapping[str, str], python: str, arguments: Sequence[str], home: Path) -> list[str]:
    """The command line of a driver: the spark-submit that Spark's `arguments` are for, with the Spark in `home`.

    It runs the application with `python`.

    Raises SetupError if Spark did not set the variable.
    """
    _check(environment, _BIND)
    address = environment[_BIND]
    conf = {
        "spark.driver.bindAddress": address,
        "spark.executorEnv.SPARK_DRIVER_POD_IP": address,
        "spark.pyspark.driver.python": python,
    }
    settings = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    return [str(home / "bin" / "spark-submit"), *settings, "--deploy-mode", "client", *arguments]


def _check(environment: Mapping[str, str], *needed: str) -> None:
    missing = [name for name in needed if not environment.get(name)]
    if missing:
        raise SetupError(
            f"{', '.join(missing)}: not in the environment. Spark sets them when it starts a pod on Kubernetes; "
            "nobody else has to call this command"
        )
