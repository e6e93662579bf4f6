"""Clusters that are reached with TLS, and without: one broker on the source, three on the target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mirror.demo.brokers import Broker, LocalCluster, start_together
from tests.bench.clusters import cluster
from tests.harness.certificates import Certificate, self_signed
from tests.harness.listeners import also_listen


@dataclass(frozen=True, slots=True)
class Encrypted:
    """The clusters, with listeners of both kinds, and what clients need for those with TLS."""

    source: LocalCluster
    target: LocalCluster
    addresses: dict[str, str] = field(default_factory=dict)  # with TLS, by the cluster's name
    security: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def encrypted(directory: Path) -> Iterator[Encrypted]:
    """They run meanwhile."""
    shown = self_signed(directory, "server")
    source = cluster("plain-source", directory)
    target = cluster("plain-three", directory, 3, {"min.insync.replicas": 2})
    security = {"security.protocol": "SSL", "ssl.ca.location": str(shown.certificate)}
    both = Encrypted(
        source, target, {each.name: _listening(each.brokers, shown) for each in (source, target)}, security
    )
    try:
        start_together(source, target)
        yield both
    finally:
        source.kill()
        target.kill()


def _listening(brokers: Sequence[Broker], shown: Certificate) -> str:
    addresses = [also_listen(broker, "SSL") for broker in brokers]
    for broker in brokers:
        broker.properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": shown.both}
    return ",".join(addresses)
