"""Kubernetes' API server and etcd, built once into the cache of the modules that Go's proxy has.

    python -m tests.kube.programs

builds both. The first time it takes ten minutes of CPU, and 3 GB in Go's caches.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mirror.errors import SetupError
from tests.harness.fetched import go_program_with_parts

VERSION = "1.36.3"
_API_SERVER = ("k8s.io/kubernetes", f"v{VERSION}", "h1:qDQdoMiluAE2Eab6Fa52YV+WjiGz9mZFFoagEA6cI+o=")
_ETCD = ("go.etcd.io/etcd/server/v3", "v3.6.16", "h1:sLkpvz3RFtiNd/yPrZBKz5kT+XO1ZJkhmuUJeqc7OmA=")

# What Kubernetes' own build tells it of its version, for clients that ask.
_TOLD = {"gitVersion": f"v{VERSION}", "gitMajor": "1", "gitMinor": VERSION.split(".")[1]}


def api_server() -> Path:
    """The program kube-apiserver. Raises SetupError if it can't be built."""
    told = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in _TOLD.items())
    options = ("-ldflags", f"-s -w {told}")
    return go_program_with_parts("kube-apiserver", _API_SERVER, "cmd/kube-apiserver", f"v0{VERSION[1:]}", options)


def etcd() -> Path:
    """The program etcd. Raises SetupError if it can't be built."""
    return go_program_with_parts("etcd", _ETCD, "", "", ("-ldflags", "-s -w"))


if __name__ == "__main__":
    try:
        print(etcd())
        print(api_server())
    except SetupError as error:
        sys.exit(str(error))
