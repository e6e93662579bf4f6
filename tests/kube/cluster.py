"""What a cluster has before the chart comes: other projects' kinds, classes, namespaces with the restricted profile."""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.harness import helm, spark_application
from tests.harness.chart import rendered
from tests.harness.waiting import until
from tests.kube.client import Client, Object

_MONITORS = ("servicemonitors", "podmonitors", "prometheusrules")
_LEVEL = "pod-security.kubernetes.io"
# Of deploy/chart/ci/all-values.yaml.
_CLASSES: tuple[Object, ...] = (
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000},
    {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "gvisor"}, "handler": "runsc"},
)


def prepare(client: Client) -> None:
    """Make the kinds that the chart's objects are of, and the classes that the example values name."""
    for definition in (*_of_prometheus(), _spark_application()):
        client.apply(definition).good()
        until(f"{definition['metadata']['name']} is served", partial(_is_served, client, definition))
    for each in _CLASSES:
        client.apply(each).good()


def namespace(client: Client, name: str) -> str:
    """A namespace that admits only restricted pods, with the service account that a controller makes, if one runs."""
    labels = {f"{_LEVEL}/{mode}": "restricted" for mode in ("enforce", "warn")}
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}).good()
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}
    client.apply(account).good()
    return name


def chart(values: Path, namespace: str, *settings: str) -> list[Object]:
    """The chart's objects, each in the release's namespace, as Helm puts it there if it does not say so itself."""
    things = copy.deepcopy(rendered(values, *settings, namespace=namespace))
    for each in things:
        each["metadata"].setdefault("namespace", namespace)
    return list(things)


def _is_served(client: Client, definition: Object) -> bool:
    spec = definition["spec"]
    answer = client.ask("GET", f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}")
    return answer.code == 200


def _of_prometheus() -> list[Object]:
    """The Prometheus operator's own."""
    found = (each for each in helm.operator_resources().iterdir() if each.stem.endswith(_MONITORS))
    return [yaml.safe_load(each.read_text()) for each in found]


def _spark_application() -> Object:
    """A SparkApplication in the form that the operator's documentation gives, as tests/harness/spark_application.py."""
    spec = _structural(spark_application.SCHEMA["properties"]["spec"])
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "sparkapplications", "singular": "sparkapplication", "kind": "SparkApplication"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "sparkapplications.spark.apache.org"},
        "spec": {"group": "spark.apache.org", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def _structural(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema as a definition may have it: each part has a type, and keys that are not there are not forbidden."""
    made = {key: value for key, value in schema.items() if (key, value) != ("additionalProperties", False)}
    if "enum" in made:
        made["type"] = "string"
    if "properties" in made:
        made["properties"] = {key: _structural(value) for key, value in made["properties"].items()}
    elif made == {"type": "object"}:
        made["x-kubernetes-preserve-unknown-fields"] = True
    return made
