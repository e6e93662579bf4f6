"""What becomes of a process whose user code keeps every Python thread from running."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import re, time
from mirror.task.interpreter_watch import interpreter_watch

def masks(text):
    return re.match("(a+)+$", text)

with interpreter_watch(2.0):
    {first}
{then}
print("goes on")
"""
HOLDS = 'masks("a" * 40 + "b")'  # for hours


def run(first: str, then: str = "") -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(first=first, then=then)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)


def test_a_process_whose_interpreter_is_held_ends_and_says_where() -> None:
    ended = run(HOLDS)
    assert ended.returncode == 1 and "goes on" not in ended.stdout
    assert "in masks" in ended.stderr


def test_one_that_only_waits_goes_on() -> None:
    ended = run("time.sleep(5)", "time.sleep(3)")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "goes on\n", "")
