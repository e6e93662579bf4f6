"""Processes that share a mark in their environment: a service's JVM and Python workers have sessions of their own."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil

MARK = "MIRROR_TEST_MARK"


def marked(mark: str) -> list[psutil.Process]:
    """Running processes that inherited MARK=`mark`, however they were started."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark:
                found.append(process)
    return found


def command_holds(process: psutil.Process, *words: str) -> bool:
    """True if each of `words` is within a word of the command line."""
    with contextlib.suppress(psutil.Error):
        line = process.cmdline()
        return all(any(word in part for part in line) for word in words)
    return False


def children(parent: psutil.Process, *words: str) -> list[psutil.Process]:
    """The children of a process that run and whose command lines hold `words`; none if the process is gone."""
    with contextlib.suppress(psutil.Error):
        return [child for child in parent.children() if is_alive(child) and command_holds(child, *words)]
    return []


def has_thread(pid: int, name: str) -> bool:
    """True if a process runs a thread of this name. False for a process that is gone."""
    with contextlib.suppress(OSError):
        return any(each.read_text().strip() == name for each in Path(f"/proc/{pid}/task").glob("*/comm"))
    return False


def is_alive(process: psutil.Process) -> bool:
    """A zombie is dead: in a container, perhaps nobody reaps it."""
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def kill_marked(mark: str) -> None:
    """SIGKILL to all of them, until none is left."""
    for _ in range(5):
        found = marked(mark)
        if not found:
            return
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(found, timeout=5)
    raise AssertionError(f"processes survive SIGKILL: {marked(mark)}")
