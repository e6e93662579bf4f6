"""The chart on a real API server: every object is taken without a warning, every pod admitted, every upgrade works.

`make kube-test` runs this. No controller runs, so the pods are made here of the workloads' templates.
"""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.harness import helm
from tests.harness.chart import APPLICATION, CHART, LOCAL, VARIANTS, pods, variants
from tests.kube import cluster
from tests.kube.client import Client, Object
from tests.kube.control_plane import ControlPlane

SET_BY_THE_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
ADDRESSES = ("clusterIP", "clusterIPs")  # each Service has its own
OF_HELM = "meta.helm.sh/"  # annotations; Helm gives them and the label to every object
LABEL_OF_HELM = "app.kubernetes.io/managed-by"


def name(values: Path) -> str:
    return values.name.removesuffix("-values.yaml")


def release(values: Path, namespace: str) -> list[Object]:
    """What an installation or an upgrade makes: all but the pod of `helm test`."""
    things = cluster.chart(values, namespace)
    return [each for each in things if "helm.sh/hook" not in each["metadata"].get("annotations", {})]


def upgrade(client: Client, old: Iterable[Object], new: Iterable[Object]) -> None:
    """Apply the new objects, and delete those of the old ones that are gone, as Helm does."""
    kept = {client.path(each): client.apply(each).good() for each in new}
    for each in old:
        if client.path(each) not in kept:
            client.delete(each).good()


def state(client: Client, things: Iterable[Object]) -> dict[str, Object]:
    """The objects by kind and name as the server has them, without what differs for each one that is made."""
    return {f"{each['kind']} {each['metadata']['name']}": settled(client.get(each).good()) for each in things}


def settled(thing: Object) -> Object:
    # A Job's selector and its pod's labels have its uid.
    found: Object = json.loads(json.dumps(thing).replace(thing["metadata"]["uid"], "uid"))
    found.pop("status", None)
    metadata = found["metadata"]
    for key in SET_BY_THE_SERVER:
        metadata.pop(key, None)
    annotations = metadata.pop("annotations", {})
    metadata["annotations"] = {key: value for key, value in annotations.items() if not key.startswith(OF_HELM)}
    labels = metadata.pop("labels", {})
    metadata["labels"] = {key: value for key, value in labels.items() if key != LABEL_OF_HELM}
    for key in ADDRESSES:
        found.get("spec", {}).pop(key, None)
    return found


def fresh(client: Client, values: Path, namespace: str) -> dict[str, Object]:
    """What a first installation makes. Nothing of it stays."""
    things = release(values, namespace)
    upgrade(client, [], things)
    found = state(client, things)
    upgrade(client, things, [])
    return found


@variants
def test_every_object_is_taken_and_a_second_time_nothing_changes(values: Path, admin: Client) -> None:
    space = cluster.namespace(admin, f"apply-{name(values)}")
    things = cluster.chart(values, space)
    made = [admin.apply(each).good() for each in things]
    again = [admin.apply(each).good() for each in things]
    versions = [[each["metadata"]["resourceVersion"] for each in times] for times in (made, again)]
    assert versions[0] == versions[1]


@variants
def test_every_pod_is_admitted(values: Path, admin: Client) -> None:
    space = cluster.namespace(admin, f"pods-{name(values)}")
    for each in cluster.chart(values, space):
        if each["kind"] == "ServiceAccount":
            admin.apply(each).good()
    made = []
    for number, each in enumerate(pods(values)):
        pod = copy.deepcopy({**each, "apiVersion": "v1", "kind": "Pod"})
        pod["metadata"] |= {"name": f"pod-{number}", "namespace": space}
        made.append(admin.create(pod).good())
    assert len(made) >= 2


def test_what_is_not_restricted_is_refused(admin: Client) -> None:
    """The namespaces of these tests are as strict as they claim, and the client hears warnings."""
    space = cluster.namespace(admin, "not-restricted")
    for each in cluster.chart(LOCAL, space, "securityContext.allowPrivilegeEscalation=true"):
        answer = admin.apply(each)
        if each["kind"] == "Deployment":
            assert answer.code == 201 and "would violate PodSecurity" in "".join(answer.warnings)
        if each["kind"] == "Pod":
            assert answer.code == 403 and "violates PodSecurity" in answer.body["message"]


def test_what_is_unknown_is_refused(admin: Client) -> None:
    space = cluster.namespace(admin, "unknown")
    for each in cluster.chart(APPLICATION, space):
        changed = copy.deepcopy(each)
        changed["spec" if "spec" in each else "metadata"]["other"] = 1
        answer = admin.apply(changed)
        assert answer.code in (400, 500) and "other" in answer.body["message"], answer


@variants
def test_an_upgrade_leaves_what_a_first_installation_makes(values: Path, admin: Client) -> None:
    space = cluster.namespace(admin, f"upgrade-{name(values)}")
    own = fresh(admin, values, space)
    for other in VARIANTS:
        expected = fresh(admin, other, space)
        before, after = release(values, space), release(other, space)
        upgrade(admin, [], before)
        upgrade(admin, before, after)
        assert state(admin, after) == expected, other.name
        upgrade(admin, after, before)
        assert state(admin, before) == own, other.name
        upgrade(admin, before, [])


def test_helm_installs_upgrades_and_removes(control_plane: ControlPlane, admin: Client) -> None:
    space = cluster.namespace(admin, "helm")

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        done = helm.on_cluster(control_plane.kubeconfig(), *arguments, "--namespace", space)
        assert done.returncode == 0 and "warning" not in done.stderr.lower(), done.stderr
        return done

    expected = {values: fresh(admin, values, space) for values in VARIANTS}
    for values in (*VARIANTS, *reversed(VARIANTS)):
        # No controller runs the Job of its hook: Helm would wait for it.
        call("upgrade", "--install", "rel", str(CHART), "--values", str(values), "--no-hooks")
        assert state(admin, release(values, space)) == expected[values], values.name
    call("uninstall", "rel")
    gone = {admin.path(each) for values in VARIANTS for each in release(values, space)}
    assert {admin.ask("GET", path).code for path in gone} == {404}
