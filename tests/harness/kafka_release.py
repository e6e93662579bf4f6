"""Local brokers of another release of Kafka than the one that everything else runs with."""

from __future__ import annotations

import tempfile
from pathlib import Path

from mirror.demo import kafka_jars
from mirror.demo.jvm import SHORT_LIVED, quick_start_options
from mirror.spark.java import cache_dir


def java_options(version: str, lifetime: tuple[str, ...] = SHORT_LIVED) -> tuple[str, ...]:
    """The Java options of brokers of this release: the archive of classes is made for KAFKA_VERSION only."""
    return quick_start_options(lifetime) if version == kafka_jars.KAFKA_VERSION else lifetime


def fetch(version: str) -> None:
    """Fetch the brokers of a release, unless they are there. Those that have no list of hashes come unchecked."""
    jars = cache_dir() / f"{kafka_jars.BROKER}-{version}"
    if (kafka_jars.HASHES / f"{jars.name}.sha256").is_file():
        kafka_jars.kafka_jars(version=version)
    elif not jars.is_dir():
        jars.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=jars.parent) as directory:
            kafka_jars._fetch(kafka_jars.BROKER, version, Path(directory))
            (Path(directory) / "jars").rename(jars)
