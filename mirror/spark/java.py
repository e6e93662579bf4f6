"""Finds the Java for Spark and local brokers, and the directory for files that mirror prepares once on a machine.

    python -m mirror.spark.java

checks Java. `make` runs it before anything is installed, so this module imports only the standard library.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from mirror.errors import SetupError

_JAVA_NEEDED = 17
_INSTALL_JAVA = (
    f"install Java {_JAVA_NEEDED} or newer (Debian/Ubuntu: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17)"
)


def java() -> str:
    """The java executable: $JAVA_HOME's, else the PATH's. Raises SetupError if there is none or it is too old."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=f"{home}/bin" if home else None)
    if path is None:
        where = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise SetupError(f"no java {where}: {_INSTALL_JAVA}")
    said = java_version(path)
    found = re.search(r'version "(?:1\.)?(\d+)[^"]*"', said)
    if found is None:  # it may not start with the options in $JDK_JAVA_OPTIONS
        lines = [line for line in said.splitlines() if "Picked up" not in line]  # those options may hold a secret
        shown = " ".join(lines)[:300] or "nothing"
        raise SetupError(f"{path} -version names no version, but says: {shown}; mend that, or {_INSTALL_JAVA}")
    if int(found[1]) < _JAVA_NEEDED:
        raise SetupError(f"{path} is Java {found[1]}, too old: {_INSTALL_JAVA}")
    return path


@cache
def java_version(path: str) -> str:
    """The output of `java -version`."""
    return subprocess.run([path, "-version"], capture_output=True, text=True, check=False).stderr


def cache_dir() -> Path:
    """The directory for downloads: $MIRROR_CACHE, else $XDG_CACHE_HOME/mirror, else ~/.cache/mirror."""
    if own := os.environ.get("MIRROR_CACHE"):
        return Path(own).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "mirror"


if __name__ == "__main__":
    try:
        java()
    except SetupError as error:
        sys.exit(str(error))
