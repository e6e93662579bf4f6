"""Kubernetes' programs, etcd and containerd, built once into the cache of the modules that Go's proxy has.

    python -m tests.kube.programs [node]

builds the API server and etcd, and with `node` what a node needs, too. The first time the two take ten minutes of CPU,
and 3 GB in Go's caches; a node's programs take another ten.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mirror.errors import SetupError
from tests.harness.fetched import go_program_with_parts

Module = tuple[str, str, str]

VERSION = "1.36.3"
_KUBERNETES = ("k8s.io/kubernetes", f"v{VERSION}", "h1:qDQdoMiluAE2Eab6Fa52YV+WjiGz9mZFFoagEA6cI+o=")
_ETCD = ("go.etcd.io/etcd/server/v3", "v3.6.16", "h1:sLkpvz3RFtiNd/yPrZBKz5kT+XO1ZJkhmuUJeqc7OmA=")
_CONTAINERD = ("github.com/containerd/containerd/v2", "v2.4.2", "h1:p6Qg+xbEz8lvwdhHDx0U469xENvp4LgGBx+E7djXkGw=")
_PLUGINS = ("github.com/containernetworking/plugins", "v1.10.0", "h1:4lwzpgsn5NdIneXrag/EEfKzhNSriJc1zTxZxfdfPLQ=")

# What Kubernetes' own build tells it of its version, for clients that ask.
_TOLD = {"gitVersion": f"v{VERSION}", "gitMajor": "1", "gitMinor": VERSION.split(".")[1]}


def etcd() -> Path:
    """The program etcd. Raises SetupError if it can't be built, as all functions here do."""
    return _built("etcd", _ETCD, "")


def kubernetes(name: str) -> Path:
    """A program of Kubernetes: kube-apiserver, kube-controller-manager, kube-scheduler or kubelet."""
    told = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in _TOLD.items())
    return _built(name, _KUBERNETES, f"cmd/{name}", told)


def containerd(name: str = "containerd") -> Path:
    """A program of containerd: itself, its client ctr, or containerd-shim-runc-v2, which it has to find in its PATH."""
    return _built(name, _CONTAINERD, f"cmd/{name}")


def network_plugins() -> list[Path]:
    """The folders of the programs that give a pod its network."""
    kinds = {"bridge": "main", "loopback": "main", "host-local": "ipam"}
    return [_built(name, _PLUGINS, f"plugins/{kind}/{name}").parent for name, kind in kinds.items()]


def _built(name: str, module: Module, package: str, told: str = "") -> Path:
    options = ("-ldflags", f"-s -w {told}".rstrip())
    return go_program_with_parts(name, module, package, f"v0{VERSION[1:]}", options)


if __name__ == "__main__":
    try:
        print(etcd())
        print(kubernetes("kube-apiserver"))
        if sys.argv[1:] == ["node"]:
            for each in ("kube-controller-manager", "kube-scheduler", "kubelet"):
                print(kubernetes(each))
            for each in ("containerd", "containerd-shim-runc-v2", "ctr"):
                print(containerd(each))
            print(*network_plugins(), sep="\n")
    except SetupError as error:
        sys.exit(str(error))
