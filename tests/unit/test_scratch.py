"""Temporary directories of services that were killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mirror.scratch import Scratch

HOLD = "from mirror.scratch import Scratch; s = Scratch(); print(s.path, flush=True); input()"


def test_what_a_killed_service_left_is_removed_and_what_runs_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is found through the environment, as services find theirs."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    killed, running = (subprocess.Popen([sys.executable, "-c", HOLD], **pipes) for _ in range(2))  # type: ignore[call-overload]
    try:
        left, used = (Path(process.stdout.readline().strip()) for process in (killed, running))
        assert left.is_dir() and used.is_dir()
        killed.kill()
        killed.wait()
        own = Scratch()
        assert not left.exists() and used.is_dir() and own.path.is_dir()
        own.remove()
        assert not own.path.exists()
    finally:
        for process in (killed, running):
            process.kill()
            process.communicate()
