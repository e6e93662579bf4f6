"""The Helm chart as Helm renders it, with the values that it brings for tests."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness import helm, spark_application

CHART = Path(__file__).parents[2] / "deploy" / "chart"
VARIANTS = sorted((CHART / "ci").glob("*-values.yaml"))
LOCAL = CHART / "ci" / "local-values.yaml"
CLUSTER = CHART / "ci" / "cluster-values.yaml"
APPLICATION = CHART / "ci" / "sparkapplication-values.yaml"
JOB = CHART / "ci" / "job-values.yaml"
ALL = CHART / "ci" / "all-values.yaml"

Object = dict[str, Any]

variants = pytest.mark.parametrize("values", VARIANTS, ids=lambda each: each.name.removesuffix("-values.yaml"))


@cache
def rendered(values: Path, *settings: str, namespace: str = "ns") -> tuple[Object, ...]:
    """The objects of a release `rel`. Each of `settings` is a value as Helm's --set takes it."""
    chosen = [part for each in settings for part in ("--set", each)]
    done = helm.render(CHART, "--values", str(values), "--namespace", namespace, *chosen)
    assert done.returncode == 0, done.stderr
    return tuple(each for each in yaml.safe_load_all(done.stdout) if each)


def one(kind: str, values: Path, *settings: str, name: str | None = None) -> Object:
    """A copy of the one object of this kind, or of this kind and name."""
    (found,) = [
        each
        for each in rendered(values, *settings)
        if each["kind"] == kind and name in (None, each["metadata"]["name"])
    ]
    return copy.deepcopy(found)


def files(values: Path, *settings: str) -> Object:
    """The files that the chart itself writes."""
    data: Object = one("ConfigMap", values, *settings, name="rel-mirror-chart")["data"]
    return data


def pods(values: Path) -> Iterator[Object]:
    """Each pod that a release has: the service's, the test's and the executors'."""
    for each in rendered(values):
        if each["kind"] == "Pod":
            yield each
        elif each["kind"] == "SparkApplication":
            yield from (each["spec"][key]["podTemplateSpec"] for key in spark_application.POD_TEMPLATES)
        elif "template" in each.get("spec", {}):
            yield each["spec"]["template"]
    if "executor.yaml" in files(values):
        yield yaml.safe_load(files(values)["executor.yaml"])
