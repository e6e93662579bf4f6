"""`mirror executor` as Spark calls it in a pod: it joins the driver, authenticated and encrypted, and runs its tasks.

No Kubernetes is there. A standalone master without workers stands in for it, because it starts no executor itself. And
what Spark would start as the driver's pod: Spark's own builder makes it of the chart's SparkApplication.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from mirror.service_settings import Log, Spark
from mirror.spark.jvm import OwnJvm
from mirror.spark.security import AUTHENTICATE, BIND, ENCRYPT, SECRET
from mirror.spark.session import SparkDriver
from tests.harness import helm
from tests.harness.spark_cluster import SparkCluster
from tests.harness.waiting import PATIENCE, until

CHART = Path(__file__).parents[2] / "deploy" / "chart"

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
            until("the executor has joined", lambda: executor.poll() is not None or driver.slots() == 2)
            assert executor.poll() is None, (tmp_path / "executor.log").read_text()
            squares = driver.session.sparkContext.parallelize(range(10), 2).map(lambda each: each * each)
            assert squares.sum() == 285
            driver.session.stop()
            assert executor.wait(PATIENCE) == 0, (tmp_path / "executor.log").read_text()
        finally:
            executor.kill()


@pytest.fixture
def jvm(tmp_path: Path) -> Iterator[OwnJvm]:
    found = OwnJvm({"spark.master": "local", BIND: "127.0.0.1"}, tmp_path, None)
    try:
        yield found
    finally:
        found.kill()


def application() -> dict[str, Any]:
    """The spec of the chart's SparkApplication."""
    rendered = helm.render(CHART, "--values", str(CHART / "ci" / "sparkapplication-values.yaml"))
    (spec,) = [each["spec"] for each in yaml.safe_load_all(rendered.stdout) if each["kind"] == "SparkApplication"]
    return cast(dict[str, Any], spec)


def driver_pod(jvm: OwnJvm, spec: dict[str, Any], directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The driver's pod and its container, as Spark makes them of what the operator hands to it."""
    gateway, java = jvm.gateway, jvm.gateway.jvm
    conf = java.org.apache.spark.SparkConf(False)
    settings = {**spec["sparkConf"], "spark.master": "k8s://https://kubernetes.default.svc", "spark.app.id": "mirror-0"}
    for role in ("driver", "executor"):
        template = directory / f"{role}.yaml"
        template.write_text(
            yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", **spec[f"{role}Spec"]["podTemplateSpec"]})
        )
        settings[f"spark.kubernetes.{role}.podTemplateFile"] = str(template)
    for key, value in settings.items():
        conf.set(key, value)
    arguments = gateway.new_array(java.java.lang.String, len(spec["driverArgs"]))
    for number, each in enumerate(spec["driverArgs"]):
        arguments[number] = each
    submit = java.org.apache.spark.deploy.k8s.submit
    resource = submit.PythonMainAppResource(spec["pyFiles"])
    nobody = java.scala.Option.apply(None)
    kubernetes = java.org.apache.spark.deploy.k8s.KubernetesDriverConf
    asked = kubernetes(conf, "mirror-0", resource, spec["mainClass"], arguments, nobody, None)
    client = java.io.fabric8.kubernetes.client.KubernetesClientBuilder().build()  # it asks nothing
    made = submit.KubernetesDriverBuilder().buildFromFeatures(asked, client).pod()
    write = java.io.fabric8.kubernetes.client.utils.Serialization.asYaml
    return yaml.safe_load(write(made.pod())), yaml.safe_load(write(made.container()))


def test_spark_makes_the_drivers_pod_of_the_charts_application(jvm: OwnJvm, tmp_path: Path) -> None:
    spec = application()
    template = spec["driverSpec"]["podTemplateSpec"]
    (given, *beside) = template["spec"]["containers"]
    pod, container = driver_pod(jvm, spec, tmp_path)
    assert container["args"] == [
        "driver",
        "--properties-file",
        "/opt/spark/conf/spark.properties",
        "--class",
        spec["mainClass"],
        spec["pyFiles"],
        *spec["driverArgs"],
    ]
    assert "SPARK_DRIVER_BIND_ADDRESS" in {each["name"] for each in container["env"]}
    assert container["resources"] == {
        "requests": {"cpu": "500m", "memory": "2048Mi"},
        "limits": {"cpu": "2", "memory": "2048Mi"},
    }
    kept = ("name", "image", "envFrom", "securityContext", "startupProbe", "livenessProbe", "readinessProbe")
    assert {key: container[key] for key in kept} == {key: given[key] for key in kept}
    assert container["ports"][0] == given["ports"][0]
    assert all(each in container["volumeMounts"] for each in given["volumeMounts"])
    assert template["metadata"]["labels"].items() <= pod["metadata"]["labels"].items()
    assert pod["spec"]["containers"] == beside
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    of_pod = ("securityContext", "serviceAccountName", "automountServiceAccountToken", "terminationGracePeriodSeconds")
    assert {key: pod["spec"][key] for key in of_pod} == {key: template["spec"][key] for key in of_pod}
