"""The chart on a real node: Helm installs it, its pods run mirror's own image, and records are copied exactly once.

`make node-test` runs this, with every kind of pod that the chart has but those of a SparkApplication, which needs the
Spark operator. Nobody enforces the NetworkPolicy.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mirror.demo.brokers import LocalCluster, start_together
from mirror.spark.java import cache_dir
from tests.harness import helm, oracle
from tests.harness.chart import CHART
from tests.harness.listeners import also_listen
from tests.harness.load import Load
from tests.harness.pair import Pair
from tests.harness.service import PLANNED
from tests.harness.waiting import until
from tests.kube import cluster, node
from tests.kube.client import Client, Object
from tests.kube.control_plane import IN_PODS, ControlPlane

IMAGES = cache_dir() / "node-images.tar"  # tests/kube/images.sh makes it
IMAGE, PAUSE = "mirror-test", "docker.io/library/mirror-pause:latest"
BY_THE_CHART = ("http", "log", "spark")
RESTARTS = {"flow_defaults": {"offset_lag_max": 50}}  # which takes effect at a start only
WRONG = {"flow_defaults": {"offset_lag_max": "many"}}  # what the chart's own schema does not see
FOLLOWED = {"drain_timeout": "9s"}  # without a restart
# By default an executor requests a CPU for each of its cores.
FEW_CPUS = {"spark": {"conf": {"spark.kubernetes.executor.request.cores": "200m"}}}
REPLACED = 3  # mirror's exit code when another service has taken over


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that pods reach, too."""
    place = tmp_path_factory.mktemp("kubernetes")
    with node.bridge(), ControlPlane(place, node.ADDRESS, 443) as plane:
        cluster.prepare(plane.client)
        yield plane


@pytest.fixture(scope="module")
def here(plane: ControlPlane) -> Iterator[node.Node]:
    """A node that takes pods."""
    made = node.Node(plane, IMAGES, PAUSE)
    with made.runs():
        yield made


@pytest.fixture(scope="module")
def addresses(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Two clusters, where pods reach them as we do."""
    directory = tmp_path_factory.mktemp("clusters")
    both = LocalCluster("source", directory), LocalCluster("target", directory)
    found = [also_listen(each.brokers[0], "PLAINTEXT", "PODS", node.ADDRESS) for each in both]
    start_together(*both)
    yield found[0], found[1]
    for each in both:
        each.stop()


class Release:
    """A release in a namespace of its own, which copies what `pair` says."""

    def __init__(self, plane: ControlPlane, space: str, pair: Pair, directory: Path, name: str = "rel") -> None:
        self.pair = pair
        self.name = name
        self._plane = plane
        self._client: Client = plane.client
        self._space = space
        self._file = directory / f"{name}.yaml"

    def helm(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = helm.on_cluster(self._plane.kubeconfig(), *arguments, "--namespace", self._space)
        print(done.stdout, done.stderr)
        return done

    def upgrade(self, config: dict[str, Any], **values: Any) -> subprocess.CompletedProcess[str]:
        """Install it, or upgrade it, and wait as Helm does."""
        own = {key: value for key, value in self.pair.settings().items() if key not in BY_THE_CHART}
        image = {"repository": IMAGE, "tag": "latest", "pullPolicy": "Never"}
        small = {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "3Gi"}}
        self._file.write_text(
            yaml.safe_dump({"image": image, "resources": small, "config": {**own, **config}, **values})
        )
        return self.helm("upgrade", "--install", self.name, str(CHART), "--values", str(self._file), "--wait")

    def good(self, config: dict[str, Any], **values: Any) -> None:
        """The same; Helm has to be content."""
        done = self.upgrade(config, **values)
        assert done.returncode == 0, done.stderr

    def refused(self, config: dict[str, Any], reason: str) -> None:
        """The same; Helm has to stop before it changes anything, and to say why."""
        done = self.upgrade(config)
        assert done.returncode != 0 and reason in done.stdout + done.stderr, done

    def pods(self, component: str = "service") -> list[Object]:
        """The release's pods of this kind, those that come or go included."""
        labels = f"app.kubernetes.io/instance={self.name},app.kubernetes.io/component={component}"
        path = f"/api/v1/namespaces/{self._space}/pods?labelSelector={labels}"
        return list(self._client.ask("GET", path).good()["items"])

    def ready(self, component: str = "service") -> set[str]:
        """The names of these pods that are ready."""
        return {each["metadata"]["name"] for each in self.pods(component) if node.ready(each)}

    def names(self, component: str = "service") -> set[str]:
        """The names of all these pods."""
        return {each["metadata"]["name"] for each in self.pods(component)}

    def pod(self) -> str:
        """The name of the only pod of the service."""
        (found,) = self.names()
        return found

    def restarts(self, pod: str) -> int:
        """How often a pod's container was started again."""
        (found,) = [each for each in self.pods() if each["metadata"]["name"] == pod]
        return int(found["status"]["containerStatuses"][0]["restartCount"])

    def log(self, pod: str) -> str:
        """The log of a pod's only container."""
        return self._client.log(self._space, pod)

    def delete(self, pod: str) -> None:
        """As `kubectl delete pod` does it."""
        self._client.ask("DELETE", f"/api/v1/namespaces/{self._space}/pods/{pod}").good()

    def get(self, path: str) -> Object:
        """What the server has at a path, in which {} is the namespace."""
        return self._client.ask("GET", path.format(self._space)).good()

    def removed(self) -> None:
        """Uninstall it, and wait until none of its pods is left. That of `helm test` stays."""
        assert self.helm("uninstall", self.name, "--wait").returncode == 0
        until("all pods are gone", lambda: not self.pods() and not self.pods("executor"))


def released(plane: ControlPlane, addresses: tuple[str, str], name: str, directory: Path) -> Release:
    space = cluster.namespace(plane.client, name)
    return Release(plane, space, Pair(*addresses, name, f"{name}-", data_path="auto"), directory)


@contextlib.contextmanager
def loaded(release: Release, partitions: int = 3) -> Iterator[Callable[[], None]]:
    """Programs write to a topic meanwhile. Yields a function that waits until what is there is copied.

    In the end the release copies the rest and is removed. Both sides are the same then, and no transaction is open.
    """
    pair, topic = release.pair, release.pair.topic("t", partitions)
    with Load(pair.source, {topic: partitions}, rate=200, transaction=20, abort_every=3) as load:

        def copies() -> None:
            load.wait_for(load.counts.total + 300)
            there = load.counts.total
            until(f"{there} records are copied", lambda: oracle.count(pair.copied(topic)) >= there)

        yield copies
        load.stop()
        pair.await_same(topic)
        release.removed()
    pair.assert_settled(topic)


def test_one_pod(here: node.Node, plane: ControlPlane, addresses: tuple[str, str], tmp_path: Path) -> None:
    """Helm refuses a wrong configuration before anything changes. A killed container and a deleted pod lose nothing."""
    release = released(plane, addresses, "one", tmp_path)
    release.refused(WRONG, "offset_lag_max")
    assert not release.pods()
    with loaded(release) as copies:
        release.good({})
        first = release.pod()
        copies()
        done = release.helm("test", "rel", "--logs")
        assert done.returncode == 0 and "Phase:          Succeeded" in done.stdout, done.stdout
        release.refused(WRONG, "offset_lag_max")
        assert release.pod() == first
        release.good(FOLLOWED)
        assert release.pod() == first
        os.kill(here.process(first), signal.SIGKILL)
        until("the container runs again", lambda: release.restarts(first) == 1)
        copies()
        release.good(RESTARTS)
        second = release.pod()
        assert second != first
        copies()
        release.delete(second)
        until("another pod", lambda: release.ready() - {second})
        copies()


def test_a_standby_takes_over(here: node.Node, plane: ControlPlane, addresses: tuple[str, str], tmp_path: Path) -> None:
    release = released(plane, addresses, "two", tmp_path)
    with loaded(release) as copies:
        release.good({}, standby={"enabled": True, "after": 20})
        copies()
        assert len(release.pods()) == 2
        leads = {each for each in release.names() if PLANNED in release.log(each)}
        (waits,) = release.names() - leads
        release.delete(*leads)
        until("the other one leads", lambda: PLANNED in release.log(waits))
        copies()
        release.good(RESTARTS, standby={"enabled": True, "after": 20})
        copies()


def test_a_driver_and_its_executors(
    here: node.Node, plane: ControlPlane, addresses: tuple[str, str], tmp_path: Path
) -> None:
    """Spark starts pods of the same image; one that is deleted is replaced; nothing is left after the release."""
    release = released(plane, addresses, "many", tmp_path)
    small = {"instances": 2, "cores": 1, "memory": "512m", "memoryOverhead": "1g"}
    names = [{"ip": node.ADDRESS, "hostnames": [IN_PODS]}]  # nothing else tells names of Services here
    tiny = {"requests": {"cpu": "200m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}}
    with loaded(release, partitions=4) as copies:
        release.good(FEW_CPUS, mode="cluster", executor=small, hostAliases=names, resources=tiny)
        executors = until("two executors run", lambda: two if len(two := release.ready("executor")) == 2 else None)
        copies()
        release.delete(min(executors))
        copies()
        until("another executor", lambda: release.ready("executor") - executors)
        copies()


def test_a_job_that_lost_its_flows_stands_still(
    here: node.Node, plane: ControlPlane, addresses: tuple[str, str], tmp_path: Path
) -> None:
    release = released(plane, addresses, "job", tmp_path)
    newer = Release(plane, "job", release.pair, tmp_path, "newer")
    with loaded(newer) as copies:
        release.good({}, workload="Job")
        copies()
        first = release.pod()
        newer.good({})
        copies()

        def failed() -> bool:
            jobs = release.get("/apis/batch/v1/namespaces/{}/jobs")["items"]
            return any(each["type"] == "Failed" for job in jobs for each in job["status"].get("conditions", ()))

        until("the Job has failed", failed)
        (left,) = release.pods()
        assert left["metadata"]["name"] == first
        assert left["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == REPLACED
