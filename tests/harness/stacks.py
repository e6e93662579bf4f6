"""Where the threads of a service's processes are: printed when a test fails while the service runs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import psutil

TIMEOUT = 30.0  # seconds for one process
# Of the JVM's hundred threads: those that run tasks and queries, and those that talk with Python.
TELLING = re.compile(r'"(Executor task launch|stream execution|Thread-|stdout writer|Python|Idle Worker|main)')
FRAMES = 25


def shown(found: Iterable[psutil.Process]) -> str:
    """The stacks of each Python process, and of each JVM if there is a JDK. What can't be read says why."""
    return "\n".join(_process(each) for each in found)


def _process(process: psutil.Process) -> str:
    try:
        name, line, parent = process.name(), " ".join(process.cmdline())[:150], process.ppid()
    except psutil.Error as error:
        return f"--- {error}"
    head = f"--- {process.pid}, a child of {parent}: {line}"
    if name == "java":
        found = _said("jstack", str(process.pid))
        threads = [thread for thread in found.split("\n\n") if TELLING.match(thread)]
        return "\n".join([head, *("\n".join(thread.splitlines()[:FRAMES]) for thread in threads)])
    return f"{head}\n{_python(process.pid)}"


def files(pid: int) -> set[str]:
    """The source files, with their whole paths, that the threads of a Python process are in."""
    return set(re.findall(r"\((/[^():]+):\d+\)", _python(pid, "--full-filenames")))


def _python(pid: int, *options: str) -> str:
    return _said(str(Path(sys.executable).with_name("py-spy")), "dump", *options, "--pid", str(pid))


def _said(program: str, *arguments: str) -> str:
    if shutil.which(program) is None:
        return f"there is no {program}"
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return f"{program} has not answered within {TIMEOUT:g} s"
    return done.stdout or done.stderr
