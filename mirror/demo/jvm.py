"""The Java options with which a local broker starts quickly, among them an archive of its classes (see prepare.py)."""

from __future__ import annotations

from pathlib import Path

from mirror.demo.kafka_jars import KAFKA_VERSION, classpath
from mirror.spark import class_archive
from mirror.spark.java import cache_dir

LONG_LIVED = ("-XX:+UseSerialGC",)

# For a JVM that lives for minutes at most: the second compiler would cost more than it saves.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", *LONG_LIVED)


def quick_start_options(lifetime: tuple[str, ...] = SHORT_LIVED) -> tuple[str, ...]:
    """The options of a broker, SHORT_LIVED or LONG_LIVED, with the archive if there is one."""
    archive = broker_archive()
    return (*lifetime, *class_archive.reading(archive)) if archive.is_file() else lifetime


def broker_archive() -> Path:
    """The archive of the broker's classes for this Java and this Kafka. It need not exist."""
    return cache_dir() / f"kafka-{KAFKA_VERSION}-{class_archive.key(classpath())}.jsa"
