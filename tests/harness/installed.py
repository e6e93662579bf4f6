"""Which `mirror` is run: the one of this tree, or one that is installed elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.harness.waiting import PATIENCE

Ended = subprocess.CompletedProcess[str]


@dataclass(frozen=True, slots=True)
class Program:
    """A command that is `mirror`, with its whole environment.

    `cwd` matters: the Python workers that Spark starts look for modules in the current directory first.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    cwd: Path | None = None

    def ended(self, *arguments: str | Path | int, timeout: float = PATIENCE) -> Ended:
        """Run a subcommand to its end."""
        return subprocess.run(
            [*self.command, *map(str, arguments)],
            cwd=self.cwd,
            env=dict(self.environment),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def run(self, *arguments: str | Path, timeout: float = PATIENCE) -> str:
        """The output of a subcommand, which has to succeed."""
        ended = self.ended(*arguments, timeout=timeout)
        assert ended.returncode == 0, f"{ended.args} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
        return ended.stdout


HERE = Program((sys.executable, "-m", "mirror"), os.environ)


def from_wheel(wheel: Path, directory: Path) -> Program:
    """The mirror of a wheel, installed into a folder of its own; what it needs is that of this Python."""
    folder = directory / wheel.stem
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--no-compile", "--target", str(folder), str(wheel)], check=True)
    elsewhere = directory / f"{wheel.stem}-cwd"
    elsewhere.mkdir()
    return Program((sys.executable, "-m", "mirror"), {**os.environ, "PYTHONPATH": str(folder)}, elsewhere)
