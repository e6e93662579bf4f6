"""One cluster of Strimzi's resource: address, TLS, authentication and configuration. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mirror.commands.convert import scopes
from mirror.commands.convert.connectors import mapping, scalar
from mirror.commands.convert.entries import ClusterScope, FlowName, InputEntry, Item, Judged, Kind
from mirror.commands.convert.table import STRIMZI

Path = tuple[str | int, ...]
Lines = Mapping[Path, int]

MECHANISMS = {
    "plain": "PLAIN",
    "scram-sha-256": "SCRAM-SHA-256",
    "scram-sha-512": "SCRAM-SHA-512",
    "oauth": "OAUTHBEARER",
}
# Keys of authentication that hold a value, and librdkafka's property.
VALUES = {
    "username": "sasl.username",
    "clientId": "sasl.oauthbearer.client.id",
    "tokenEndpointUri": "sasl.oauthbearer.token.endpoint.url",
    "scope": "sasl.oauthbearer.scope",
}
# Keys that name a key of a Kubernetes secret; with the property that takes its value.
SECRETS = {
    "passwordSecret.password": "sasl.password",
    "clientSecret.key": "sasl.oauthbearer.client.secret",
    "certificateAndKey.certificate": "ssl.certificate.pem",
    "certificateAndKey.key": "ssl.key.pem",
}
UNKNOWN = "unknown key: Strimzi's resource has none of this name here"
EMPTY = "it is empty"
IN_VARIABLE = "an environment variable holds what it names; let the pod have it from the secret"


def leaves(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """The single values in a value, each with its key; a mapping or list without any counts as one, empty."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from leaves(inner, f"{key}.{name}")
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from leaves(inner, f"{key}[{index}]")
    else:
        yield key, "" if isinstance(value, dict | list) else scalar(value, key)


def cluster(
    value: Any, alias: str, path: Path, lines: Lines, flows: Sequence[FlowName] = ()
) -> Iterator[Item | Judged]:
    """What each key of a cluster is about. `flows` are those of the resource. Raises Unreadable."""
    return _Cluster(value, alias, path, lines, flows).all()


class _Cluster:
    def __init__(self, tree: Any, alias: str, path: Path, lines: Lines, flows: Sequence[FlowName]) -> None:
        self._key = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)[1:]
        self._tree = mapping(tree, self._key, lines.get(path))
        self._alias = alias
        self._path = path
        self._lines = lines
        self._flows = flows

    def all(self) -> Iterator[Item | Judged]:
        for name, value in self._tree.items():
            if name == "alias":
                yield Judged(self._entry("alias", self._alias), name, "", "same", "clusters")
            elif name == "bootstrapServers":
                yield self._ours(self._entry(name, scalar(value, f"{self._key}.{name}")), "bootstrap.servers")
            elif name in ("config", "authentication") and value == {}:
                yield Judged(self._entry(name, ""), name, EMPTY, "not needed")
            elif name == "config":
                yield from self._config(value)
            elif name == "tls":
                yield from self._tls(value)
            elif name == "authentication":
                yield from self._authentication(value)
            else:
                yield self._of_target(name, value)

    def _of_target(self, name: str, value: Any) -> Judged:
        """A key that only the cluster of the workers has, or none."""
        full = f"spec.target.{name}"
        if self._path != ("spec", "target") or full not in STRIMZI:
            return Judged(self._entry(name, ""), full, UNKNOWN, "not possible")
        entry = self._entry(name, scalar(value, full))
        return scopes.for_adopt(entry, full, self._flows) if full in scopes.ADOPT else Judged(entry, full)

    def _entry(self, name: str, value: str) -> InputEntry:
        first = name.partition(".")[0].partition("[")[0]
        line = self._lines.get((*self._path, *name.split("."))) or self._lines.get((*self._path, first))
        return InputEntry(f"{self._key}.{name}", value, line)

    def _ours(self, entry: InputEntry, name: str, kind: Kind = "ours") -> Item:
        return Item(entry, name, ClusterScope(self._alias), scopes.CLUSTER, kind=kind)

    def _config(self, value: Any) -> Iterator[Item | Judged]:
        tree = mapping(value, f"{self._key}.config", self._lines.get((*self._path, "config")))
        for name, inner in tree.items():
            entry = InputEntry(
                f"{self._key}.config.{name}",
                scalar(inner, f"{self._key}.config.{name}"),
                self._lines.get((*self._path, "config", name)),
            )
            yield from scopes.of_cluster(entry, name, self._alias, self._flows)

    def _tls(self, value: Any) -> Iterator[Item | Judged]:
        certificates = value.get("trustedCertificates") if isinstance(value, dict) else None
        named = (
            [each for each in certificates or [] if isinstance(each, dict)] if isinstance(certificates, list) else []
        )
        secrets = ", ".join(dict.fromkeys(str(each.get("secretName")) for each in named))
        first = True
        for key, _ in leaves(value, "tls"):
            entry = self._entry(key, f"all certificates of the Kubernetes secrets {secrets}, one after the other")
            if first and not self._has_login():
                yield self._ours(InputEntry(entry.key, "SSL", entry.line), "security.protocol")
            if not re.match(r"tls(\.trustedCertificates\b|$)", key):
                yield Judged(entry, key, UNKNOWN, "not possible")
                continue
            if first and named:
                yield self._ours(entry, "ssl.ca.pem", "secret")
            elif named or not first:
                yield Judged(entry, key, IN_VARIABLE, "renamed", f"clusters.{self._alias}.ssl.ca.pem")
            elif self._has_login():
                yield Judged(entry, key, "", "renamed", f"clusters.{self._alias}.security.protocol")
            first = False

    def _has_login(self) -> bool:
        login = self._tree.get("authentication")
        return isinstance(login, dict) and bool(login.get("type"))

    def _authentication(self, value: Any) -> Iterator[Item | Judged]:
        value = mapping(value, f"{self._key}.authentication")
        kind = str(value.get("type") or "")
        known = kind in (*MECHANISMS, "tls")
        if kind == "custom":
            yield from self._custom(value)
            return
        for key, text in leaves(value, "authentication"):
            entry = self._entry(key, text)
            name = key.removeprefix("authentication.")
            group, _, part = name.partition(".")
            if not known:
                said = "mirror knows tls, plain, scram-sha-256, scram-sha-512 and oauth; write the properties yourself"
                yield Judged(entry, key, said, "not possible")
            elif name == "type":
                yield from self._type(entry, kind)
            elif name in VALUES:
                yield self._ours(entry, VALUES[name])
            elif name in SECRETS:
                secret = value[group].get("secretName") if isinstance(value[group], dict) else ""
                place = InputEntry(entry.key, f"the key {text} of the Kubernetes secret {secret}", entry.line)
                yield self._ours(place, SECRETS[name], "secret")
            elif part == "secretName" and any(f"{group}." in each for each in SECRETS):
                yield Judged(entry, key, IN_VARIABLE, "renamed", f"clusters.{self._alias}")
            else:
                yield Judged(entry, key, "no property of librdkafka is known for it", "not possible")

    def _custom(self, value: Mapping[str, Any]) -> Iterator[Item | Judged]:
        """The properties of Java's clients under `config`; `sasl` says that there is a login."""
        for key, text in leaves(value, "authentication"):
            entry, name = self._entry(key, text), key.removeprefix("authentication.")
            if name == "type":
                protocol = self._protocol(login=str(value.get("sasl")).lower() == "true")
                yield self._ours(InputEntry(entry.key, protocol, entry.line), "security.protocol")
            elif name.startswith("config."):
                yield Item(entry, name.removeprefix("config."), ClusterScope(self._alias), scopes.CLUSTER)
            elif name == "sasl":
                yield Judged(entry, key, "security.protocol says it", "not needed")
            else:
                yield Judged(entry, key, UNKNOWN, "not possible")

    def _type(self, entry: InputEntry, kind: str) -> Iterator[Item]:
        if kind == "tls":
            yield self._ours(InputEntry(entry.key, "SSL", entry.line), "security.protocol")
            return
        yield self._ours(InputEntry(entry.key, self._protocol(login=True), entry.line), "security.protocol")
        yield self._ours(InputEntry(entry.key, MECHANISMS[kind], entry.line), "sasl.mechanisms")
        if kind == "oauth":
            yield self._ours(InputEntry(entry.key, "oidc", entry.line), "sasl.oauthbearer.method")

    def _protocol(self, login: bool) -> str:
        below = "SSL" if "tls" in self._tree else "PLAINTEXT"
        return f"SASL_{below}" if login else below
