"""Starts processes that never outlive this one: on Linux however it ends, elsewhere unless it is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# A small Python process asks the kernel for the signal and then becomes the command, since a preexec_fn is not safe in
# a program with threads. It also checks its parent, which may have died before the request.
_DIE_WITH_PARENT = """\
import ctypes, os, sys
if sys.platform == "linux":
    PR_SET_PDEATHSIG, SIGKILL = 1, 9
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the parent process is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""

# Linux sends the death signal when the *thread* that forked ends. So one thread, which lasts as long as the process,
# starts them all.
_starter = ThreadPoolExecutor(1, thread_name_prefix="process-starter")


def spawn(
    command: Sequence[str], log: Path, directory: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start `command`, whose first part is an absolute path, in a session of its own, which Ctrl-C does not reach.

    Its output is appended to `log`. `environment` is added to ours.
    """
    shim = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid())]
    with log.open("ab") as output:
        return _starter.submit(
            subprocess.Popen,
            [*shim, *command],
            cwd=directory,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ).result()
