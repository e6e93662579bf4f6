"""What .ci/run makes: all of it, at the same time or one after the other, and a failure of any target is told.

And that the Makefile's targets find their packages on a machine that has none.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ".venv/ready"
TARGETS = {"jars", ENVIRONMENT, "tools", "unit", "lint", "docs", "kafka-image", "prepare", "test"}
LOTS = {"test-1"}  # another one of `make test`
LAST = "=== passed: ", "=== FAILED: "


def run(directory: Path, fails: str) -> subprocess.CompletedProcess[str]:
    """The script, with a `make` that only says what it was called for, and fails for one. Nothing is installed."""
    stand_ins = {"make": f'echo "made <$1>"; [ "$1" != "{fails}" ]', "apt-get": 'echo "made <apt-get>"; exit 1'}
    stand_ins |= dict.fromkeys(("docker", "promtool", "chromedriver", "docker-compose", "iptables"), "")
    for name, does in stand_ins.items():
        file = directory / name
        file.write_text(f"#!/bin/sh\n{does}\n")
        file.chmod(0o755)
    environment = {**os.environ, "PATH": f"{directory}{os.pathsep}{os.environ['PATH']}"}
    command = [str(ROOT / ".ci" / "run"), "with-engine"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_all_targets_are_made_and_what_they_say_is_shown(tmp_path: Path) -> None:
    ended = run(tmp_path, "none")
    *said, last = ended.stdout.splitlines()
    assert ended.returncode == 0, ended
    made = sorted(line for line in said if line.startswith("made"))
    assert made == sorted(f"made <{each}>" for each in (*TARGETS, *["test"] * len(LOTS)))
    assert last.startswith(LAST[0]) and set(last.removeprefix(LAST[0]).split()) == TARGETS | LOTS


@pytest.mark.parametrize("target", sorted(TARGETS - {ENVIRONMENT}))
def test_one_that_fails_is_named_and_the_others_go_on(tmp_path: Path, target: str) -> None:
    ended = run(tmp_path, target)
    assert ended.returncode == 1
    failed = set(ended.stdout.splitlines()[-1].removeprefix(LAST[1]).split())
    assert failed == ({target} | LOTS if target == "test" else {target})
    assert ended.stdout.count("made <") == len(TARGETS) + len(LOTS)


def test_without_an_environment_nothing_else_is_tried(tmp_path: Path) -> None:
    ended = run(tmp_path, ENVIRONMENT)
    assert ended.returncode == 1
    assert ended.stdout.splitlines()[-1] == f"{LAST[1]}{ENVIRONMENT}"
    assert ended.stdout.count("made <") == 1, ended.stdout


def test_only_the_look_for_java_runs_in_a_python_that_may_have_no_packages() -> None:
    """The Python that the Makefile finds on the machine makes the environment; all else runs in the environment."""
    modules = set(re.findall(r"\$\$python -m (\S+)", (ROOT / "Makefile").read_text()))
    assert modules == {"mirror.spark.java", "venv"}
    subprocess.run([sys.executable, "-S", "-c", "import mirror.spark.java"], cwd=ROOT, check=True, timeout=60)
