"""How many arenas of memory the threads of a process get."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

from mirror.malloc import SETTING
from tests.harness.programs import skip

PROGRAM = """
import ctypes, sys, threading
from mirror.malloc import bound_arenas
if sys.argv[1] == "bound":
    bound_arenas()
together = threading.Barrier(7)
def allocates():
    kept = bytearray(50_000)
    together.wait()
threads = [threading.Thread(target=allocates) for _ in range(6)]
for each in threads:
    each.start()
together.wait()
for each in threads:
    each.join()
libc = ctypes.CDLL(None)
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


def arenas(how: str, **environment: str) -> int:
    """How many a program with six threads has."""
    inherited = {name: value for name, value in os.environ.items() if name != SETTING}
    command = [sys.executable, "-c", PROGRAM, how]
    return subprocess.check_output(command, text=True, env={**inherited, **environment}).count("<heap nr=")


@pytest.fixture(autouse=True)
def _glibc() -> None:
    if not hasattr(ctypes.CDLL(None), "malloc_info"):
        skip("the C library is not glibc", could_run=False)


def test_the_threads_share_two() -> None:
    assert arenas("unbound") > 3
    assert arenas("bound") == 2


def test_what_the_environment_says_counts() -> None:
    assert arenas("bound", MALLOC_ARENA_MAX="1") == 1
    assert arenas("bound", MALLOC_ARENA_MAX="4") == 4
