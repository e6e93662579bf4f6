"""Brokers in containers: nothing of them is left after a run, and nothing skips them where they could run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import docker
import pytest

from tests.harness import containers, topics
from tests.harness.containers import require_engine
from tests.harness.programs import CANNOT_RUN
from tests.harness.waiting import until

RUN = """\
import sys
from tests.harness.containers import Containers

with Containers() as containers:
    print(containers.label, *containers.start("crashes"), flush=True)
    sys.stdin.read()
"""


def left(label: str) -> list[str]:
    client = docker.from_env()
    try:
        return [each.name for each in client.containers.list(all=True, filters={"label": label}, ignore_removed=True)]
    finally:
        client.close()


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "ended"])
def test_a_run_leaves_no_container(kill: bool) -> None:
    require_engine()
    command = [sys.executable, "-c", RUN]
    with subprocess.Popen(
        command, cwd=containers.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdin is not None and run.stdout is not None
        label, bootstrap = next(line for line in run.stdout if line.startswith("mirror.tests=")).split()
        assert len(left(label)) == 1 and topics.create(bootstrap, "t")
        if kill:
            run.kill()
        run.stdin.close()
    assert run.returncode == (-signal.SIGKILL if kill else 0)
    until("the container is removed", lambda: not left(label))


def reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, uid: int, capabilities: str) -> str:
    """What a test is skipped with where no engine answers."""
    status = tmp_path / "status"
    status.write_text(f"Name:\tpython\nCapEff:\t{capabilities}\nCapBnd:\t000001ffffffffff\n")
    monkeypatch.setattr(containers, "STATUS", status)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(pytest.skip.Exception) as skipped:
        require_engine()
    return str(skipped.value)


def test_an_engine_that_could_run_is_no_reason_to_skip_in_ci(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert reason(monkeypatch, tmp_path, 0, "000001ffffffffff").startswith("no Docker engine answers")


@pytest.mark.parametrize(("uid", "capabilities"), [(1000, "000001ffffffffff"), (0, "00000000a80425fb")])
def test_one_that_could_not_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, uid: int, capabilities: str) -> None:
    """A user without rights, and the root of a container that is not privileged."""
    assert reason(monkeypatch, tmp_path, uid, capabilities).startswith(f"{CANNOT_RUN} no Docker engine answers")
