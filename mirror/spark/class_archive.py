"""Options for an archive of loaded classes (CDS), with which a JVM starts in half the time."""

from __future__ import annotations

import hashlib
from pathlib import Path

from mirror.spark.java import java, java_version

# Silences warnings about classes that can't be archived, and about an archive that does not fit.
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")


def key(jars: str) -> str:
    """A part of the archive's name: a JVM takes only an archive that its own build made, for jars at the same paths."""
    return hashlib.sha256(f"{java_version(java())}|{jars}".encode()).hexdigest()[:12]


def reading(archive: Path) -> tuple[str, ...]:
    """The options of a JVM that starts from the archive."""
    return f"-XX:SharedArchiveFile={archive}", *_QUIET


def writing(archive: Path) -> tuple[str, ...]:
    """The options of a JVM that writes the archive when it ends."""
    return f"-XX:ArchiveClassesAtExit={archive}", *_QUIET
