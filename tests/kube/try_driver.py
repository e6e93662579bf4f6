"""Spark's driver on a real API server, with the account that the chart gives it: its role suffices, and allows no more.

The driver is real, with the chart's own configuration, and so are its executors. This machine stands in for the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from mirror.config.load import load
from mirror.service_settings import Log
from mirror.spark.session import SparkDriver
from tests.harness.chart import CLUSTER, one, variants
from tests.harness.waiting import until
from tests.kube import cluster
from tests.kube.client import Client, Object
from tests.kube.control_plane import ControlPlane
from tests.kube.kubelet import ADDRESS, Kubelet

POD = "rel-mirror-0"
EXECUTORS = 2
SMALL = (f"executor.instances={EXECUTORS}", "executor.cores=1")

Right = tuple[str, str, str]  # a group, a resource, a verb


def rights(rules: Iterable[Object]) -> set[Right]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def login(plane: ControlPlane, namespace: str, account: str) -> str:
    """A token of a service account, as its pods get one."""
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    return str(plane.client.ask("POST", path, asked).good()["status"]["token"])


def granted(client: Client, namespace: str) -> set[Right]:
    """What the server says that this client may do in a namespace, but for asking what it may do."""
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    answer = client.ask("POST", path, {**review, "spec": {"namespace": namespace}}).good()["status"]
    found = rights(answer["resourceRules"])
    return {each for each in found if each[0] not in ("authorization.k8s.io", "authentication.k8s.io")}


@variants
def test_an_account_may_do_what_its_role_says_and_no_more(values: Path, control_plane: ControlPlane) -> None:
    admin = control_plane.client
    space = cluster.namespace(admin, f"rights-{values.name.removesuffix('-values.yaml')}")
    things = cluster.chart(values, space)
    for each in things:
        admin.apply(each).good()
    (account,) = {each["spec"]["serviceAccountName"] for each in things if each["kind"] == "Pod"}
    client = control_plane.client_of(login(control_plane, space, account))
    (rules,) = [each["rules"] for each in things if each["kind"] == "Role"] or [[]]
    until("the server knows the role", lambda: granted(client, space) == rights(rules))
    assert granted(client, "default") == set()
    for path in (
        f"/api/v1/namespaces/{space}/secrets",
        f"/apis/apps/v1/namespaces/{space}/deployments",
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{space}/roles",
        "/api/v1/namespaces/default/pods",
        "/api/v1/pods",
        "/api/v1/nodes",
    ):
        assert client.ask("GET", path).code == 403, path


def install(admin: Client, space: str) -> None:
    """The chart, a ConfigMap that its example values name, and the pod that a controller makes of its Deployment."""
    admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "authority"}, "data": {}}, space).good()
    things = cluster.chart(CLUSTER, space, *SMALL)
    for each in things:
        admin.apply(each).good()
    (template,) = [each["spec"]["template"] for each in things if each["kind"] == "Deployment"]
    pod = {**template, "apiVersion": "v1", "kind": "Pod", "metadata": {**template["metadata"], "name": POD}}
    admin.create(pod, space).good()


def driver(plane: ControlPlane, space: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> SparkDriver:
    """The driver that the pod would start, with the chart's files: only the server and its token are elsewhere."""
    found = {each["metadata"]["name"]: each for each in cluster.chart(CLUSTER, space, *SMALL) if "data" in each}
    content = {**found["rel-mirror-chart"]["data"], **found["rel-mirror"]["data"]}
    content["token"] = login(plane, space, "rel-mirror")
    here = {
        "spark.kubernetes.executor.podTemplateFile": str(directory / "executor.yaml"),
        "spark.kubernetes.authenticate.oauthTokenFile": str(directory / "token"),
        "spark.kubernetes.authenticate.caCertFile": str(plane.authority),
    }
    content["here.yaml"] = yaml.safe_dump({"spark": {"master": f"k8s://{plane.url}", "conf": here}})
    for name, text in content.items():
        (directory / name).write_text(text)
    for variable, value in {"POD_IP": ADDRESS, "POD_NAME": POD, "PRIMARY_PASSWORD": "secret"}.items():
        monkeypatch.setenv(variable, value)
    settings = load(tuple(directory / f"{name}.yaml" for name in ("chart", "mirror", "here", "address")))
    return SparkDriver(settings.spark, {}, "leader", Log("info", "text"))


def left(admin: Client, space: str) -> list[str]:
    """What Spark made and has not removed."""
    folders = [f"/api/v1/namespaces/{space}/{kind}" for kind in ("pods", "configmaps")]
    found = [each for folder in folders for each in admin.ask("GET", folder).good()["items"]]
    return [each["metadata"]["name"] for each in found if "spark-app-selector" in each["metadata"].get("labels", {})]


def test_a_driver_starts_replaces_and_ends_its_executors(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, space = control_plane.client, "driver"
    cluster.namespace(admin, space)
    install(admin, space)
    with Kubelet(admin, space, "spark-role=executor", tmp_path) as kubelet:
        spark = driver(control_plane, space, tmp_path, monkeypatch)
        try:
            works(spark)
            first = kubelet.running()
            assert len(first) == EXECUTORS
            kubelet.kill(min(first))
            until("Spark has another executor", lambda: kubelet.running() - first)
            works(spark)
        except BaseException:
            print(kubelet.log())
            raise
        finally:
            spark.stop()
            spark.join(20)
        until("Spark has removed all", lambda: not left(admin, space))
    (owner,) = {each["metadata"]["ownerReferences"][0]["name"] for each in kubelet.pods.values()}
    assert owner == POD
    asked = control_plane.audited(f"system:serviceaccount:{space}:rel-mirror")
    assert [each for each in asked if each["responseStatus"]["code"] in (401, 403)] == []
    used = {("", each["objectRef"]["resource"], each["verb"]) for each in asked if "objectRef" in each}
    print(sorted(used))
    assert {("", "pods", verb) for verb in ("create", "list", "watch", "delete")} <= used
    assert used <= rights(one("Role", CLUSTER)["rules"])


def works(spark: SparkDriver) -> None:
    """All executors are there, and run tasks."""
    until("all executors have joined", lambda: spark.slots() == EXECUTORS)
    assert spark.session.sparkContext.parallelize(range(10), 4).map(lambda each: each * each).sum() == 285
