"""Programs that are no Python packages: Prometheus and a browser, from the distribution."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest

CANNOT_RUN = "cannot run here:"  # begins the reason of a skip that CI lets pass


def program(name: str, package: str) -> str:
    """The path of a program. Skips the test without it; in CI that fails where the package could be installed."""
    found = shutil.which(name)
    if found is None:
        installable = shutil.which("apt-get") is not None and os.geteuid() == 0
        skip(f"no {name}: apt-get install {package}", installable)
    return found


def skip(reason: str, could_run: bool) -> NoReturn:
    """Skip the test. In CI that fails if the test could run on this machine, once something is installed or started."""
    pytest.skip(reason if could_run else f"{CANNOT_RUN} {reason}")
