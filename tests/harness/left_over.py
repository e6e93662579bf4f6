"""Processes that the tests have left running: the run fails, and they are ended."""

from __future__ import annotations

import contextlib
import os
import shutil

import psutil
import pytest

from tests.harness.processes import is_alive


class LeftOver:
    """A plugin of pytest's. `temporary` is the run's own directory, which stays if the run fails."""

    def __init__(self, temporary: str) -> None:
        self._temporary = temporary
        self._found: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run if a process that it started still runs, and end that process."""
        _, left = psutil.wait_procs(_running(f"{self._temporary}{os.sep}"), timeout=5)
        alive = [process for process in left if is_alive(process)]
        self._found = [str(process) for process in alive]
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        if alive:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        elif session.exitstatus == pytest.ExitCode.OK:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name the processes that were left over."""
        for process in self._found:
            terminalreporter.write_line(f"left running by the tests, now killed: {process}", red=True)


def _running(temporary: str) -> list[psutil.Process]:
    """Our descendants, and whatever has the run's temporary directory on its command line, with its descendants."""
    me = psutil.Process()
    found = set(me.children(recursive=True))
    for process in psutil.process_iter(["cmdline"]):
        if any(temporary in word for word in process.info["cmdline"] or ()):
            found.add(process)
            with contextlib.suppress(psutil.NoSuchProcess):
                found.update(process.children(recursive=True))
    return list(found - {me, *me.parents()})
