"""Kubernetes' control plane as far as it is here: etcd and the API server, as processes of this machine.

Nothing else of Kubernetes runs, unless a test adds it (node.py): no controller makes pods of a Deployment, and no
kubelet starts their containers.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from mirror.demo.brokers import free_port
from tests.harness.certificates import self_signed
from tests.harness.waiting import until
from tests.kube import programs
from tests.kube.client import Client
from tests.kube.daemons import Daemons

IN_PODS = "kubernetes.default.svc"  # the server's name for what runs in pods
_AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}


class ControlPlane:
    """An API server with its etcd. `client` may do everything. `address` and `port` are where pods reach it."""

    def __init__(self, directory: Path, address: str = "127.0.0.1", port: int | None = None) -> None:
        self.directory = directory
        self.daemons = Daemons(directory)
        self._address, self._port = address, port or free_port()
        self._token = secrets.token_hex(16)
        self._audit = directory / "audit.log"
        certificate = self_signed(directory, "kubernetes", names=(f"IP:{address}", f"DNS:{IN_PODS}"))
        self._certificate, self.key = certificate.certificate, certificate.key
        self.authority = certificate.certificate
        self.url = f"https://{address}:{self._port}"
        self.client = self.client_of(self._token)

    def client_of(self, token: str) -> Client:
        """A client that logs in with another token."""
        return Client(self.url, self.authority, token)

    def kubeconfig(self) -> Path:
        """A file with which Kubernetes' own clients reach the server, and may do everything."""
        cluster = {"server": self.url, "certificate-authority": str(self.authority)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "here", "user": {"token": self._token}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}],
            "current-context": "here",
        }
        file = self.directory / "kubeconfig"
        file.touch(0o600)
        file.write_text(yaml.safe_dump(content))
        return file

    def audited(self, user: str) -> list[dict[str, Any]]:
        """What the server's audit log has of this user, from the first request."""
        lines = self._audit.read_text().splitlines() if self._audit.exists() else []
        return [found for found in map(json.loads, lines) if found["user"]["username"] == user]

    def __enter__(self) -> ControlPlane:
        try:
            etcd, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
            own = {"listen-client-urls": etcd, "advertise-client-urls": etcd, "listen-peer-urls": peers}
            own |= {"initial-advertise-peer-urls": peers, "initial-cluster": f"default={peers}"}
            own |= {"data-dir": str(self.directory / "etcd"), "unsafe-no-fsync": "true"}
            self.daemons.start(programs.etcd(), own)
            self.daemons.start(programs.kubernetes("kube-apiserver"), self._options(etcd))
            until("the API server is ready", self._ready)
        except BaseException:
            self.daemons.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.daemons.stop()

    def _options(self, etcd: str) -> dict[str, object]:
        """The server's options. What is not here is as Kubernetes has it, such as most of the admission's plugins."""
        place = self.directory
        (place / "tokens.csv").touch(0o600)
        (place / "tokens.csv").write_text(f"{self._token},admin,admin,system:masters\n")
        (place / "audit.yaml").write_text(yaml.safe_dump(_AUDIT))
        return {
            "etcd-servers": etcd,
            "bind-address": self._address,
            "advertise-address": self._address,
            "secure-port": self._port,
            "kubelet-preferred-address-types": "InternalIP",  # nobody knows nodes by their names
            "tls-cert-file": self._certificate,
            "tls-private-key-file": self.key,
            "cert-dir": place,
            "token-auth-file": place / "tokens.csv",
            "authorization-mode": "RBAC",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": self.key,
            "service-account-signing-key-file": self.key,
            "service-cluster-ip-range": "10.96.0.0/16",
            "audit-policy-file": place / "audit.yaml",
            "audit-log-path": self._audit,
            "audit-log-mode": "blocking-strict",
        }

    def _ready(self) -> bool:
        self.daemons.check()
        try:
            return self.client.ask("GET", "/readyz").code == 200
        except OSError:
            return False
