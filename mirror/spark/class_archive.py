"""An archive of the classes that a JVM has loaded, with which the next one like it starts in half the time."""

from __future__ import annotations

import hashlib
from pathlib import Path

from mirror.spark.java import java, java_version

# About classes that can't be archived, or an archive that does not fit.
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")


def key(jars: str) -> str:
    """For the archive's name: a JVM only takes one that was made by its own build, for the same jars in one place."""
    return hashlib.sha256(f"{java_version(java())}|{jars}".encode()).hexdigest()[:12]


def taking(archive: Path) -> tuple[str, ...]:
    """The options of a JVM that starts with the archive."""
    return f"-XX:SharedArchiveFile={archive}", *_QUIET


def making(archive: Path) -> tuple[str, ...]:
    """The options of a JVM that leaves one when it ends."""
    return f"-XX:ArchiveClassesAtExit={archive}", *_QUIET
