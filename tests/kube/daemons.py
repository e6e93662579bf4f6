"""The processes that Kubernetes is made of here: they end with the test, however it ends. Containers may not."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from mirror.demo.subprocesses import spawn


class Daemons:
    """Processes that run until `stop`. What they say is in `directory`, in a file for each."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: list[subprocess.Popen[bytes]] = []

    def start(
        self, program: Path, options: Mapping[str, object], *more: str, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start a program with options of the form --key=value."""
        command = [str(program), *(f"--{key}={value}" for key, value in options.items()), *more]
        log = self._directory / f"{program.name}.log"
        self._running.append(spawn(command, log, self._directory, environment))

    def check(self) -> None:
        """Raises AssertionError, with what all of them said last, if one has ended."""
        assert all(each.poll() is None for each in self._running), self.last_words()

    def last_words(self) -> str:
        """The ends of their logs."""
        logs = sorted(self._directory.glob("*.log"))
        return "\n".join(f"{each.name}:\n{each.read_text(errors='replace')[-2000:]}" for each in logs)

    def stop(self, but: int = 0) -> None:
        """The last one first: each may need those that were started before it. The first `but` of them run on."""
        while len(self._running) > but:
            process = self._running.pop()
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
