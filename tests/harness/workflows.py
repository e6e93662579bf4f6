"""actionlint and zizmor, which look at the workflows of GitHub Actions.

    python -m tests.harness.workflows

fetches both.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mirror.errors import SetupError
from tests.harness.fetched import cached, go_program, pip_install

ACTIONLINT = ("github.com/rhysd/actionlint", "v1.7.12", "h1:vQ4GeJN86C0QH+gTUQcs8McmK62OLT3kmakPMtEWYnY=")
ZIZMOR = ("zizmor==1.32.0", "84a6acb975accc13408786a2bd274b572537ca19c933ebbc13e78f3988562071")


def programs() -> tuple[Path, Path]:
    """actionlint and zizmor. Raises SetupError if they can't be had."""
    zizmor = cached(ZIZMOR[0].replace("==", "-"), lambda into: pip_install(ZIZMOR, into)) / "bin" / "zizmor"
    return go_program("actionlint", ACTIONLINT, "cmd/actionlint"), zizmor


def actionlint(*files: Path) -> subprocess.CompletedProcess[str]:
    """What actionlint says of workflows: their syntax, expressions, and names of jobs, steps and inputs."""
    return _run(programs()[0], "-no-color", "-shellcheck=", "-pyflakes=", *map(str, files))


def zizmor(*files: Path) -> subprocess.CompletedProcess[str]:
    """What zizmor says of their security, without asking anybody: rights, secrets, injection, actions by commit."""
    return _run(programs()[1], "--offline", "--no-progress", "--color=never", "--persona=pedantic", *map(str, files))


def _run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=60, check=False)


if __name__ == "__main__":
    try:
        programs()
    except SetupError as error:
        sys.exit(str(error))
