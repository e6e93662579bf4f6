"""The brokers between which is measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mirror.demo.brokers import LocalCluster

HEAP = "-Xmx4g"  # with half a gigabyte a broker of 10,000 partitions does nothing but collect garbage


def cluster(
    name: str, directory: Path, brokers: int = 1, properties: Mapping[str, object] | None = None
) -> LocalCluster:
    """A cluster whose brokers run as in production: with the JVM's own compilers, and enough memory."""
    return LocalCluster(name, directory, brokers, properties, java_options=(HEAP,))
