"""`mirror demo`, as a user runs it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import processes
from tests.harness.waiting import PATIENCE, until

pytestmark = pytest.mark.long

LONGEST = 240.0  # seconds for all of it on busy cores


class Demo:
    """A demo with a TMPDIR of its own."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.temporary = directory / "t"
        self.temporary.mkdir()
        self.out, self.errors = directory / "out", directory / "err"
        self._mark = uuid.uuid4().hex
        environment = {**os.environ, "TMPDIR": str(self.temporary), processes.MARK: self._mark}
        with self.out.open("wb") as out, self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mirror", "demo", *options],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                env=environment,
                start_new_session=True,
            )

    def await_text(self, text: str) -> None:
        until(text, lambda: text in self.out.read_text() or self.process.poll() is not None, LONGEST)
        assert self.process.poll() is None, self.errors.read_text()

    def end(self, timeout: float) -> int:
        return self.process.wait(timeout)

    def left(self) -> list[str]:
        """Its processes that still run."""
        return [str(process) for process in processes.marked(self._mark)]

    def close(self) -> None:
        processes.kill_marked(self._mark)
        self.process.wait()


@contextlib.contextmanager
def demo(directory: Path, *options: str) -> Iterator[Demo]:
    with contextlib.closing(Demo(directory, *options)) as running:
        yield running


def test_a_killed_service_loses_and_doubles_nothing(tmp_path: Path) -> None:
    with demo(tmp_path, "--seconds", "20", "--json") as running:
        code = running.end(LONGEST)
        progress, result = running.errors.read_text(), json.loads(running.out.read_text())
        assert code == 0, progress
        assert not running.left()
        assert not list(running.temporary.iterdir())
    assert "killed the service with kill -9" in progress
    assert f"{result['source']:,} records: lost 0, duplicated 0, reordered 0, altered 0" in progress
    assert result["equal"] and result["source"] == result["target"] > 40_000 and result["aborted"] > 1_000
    assert set(result["topics"]) == {"orders", "payments", "clicks"}
    assert "Traceback" not in progress and "\x1b" not in progress


@pytest.mark.slow
def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    with demo(tmp_path) as running:
        running.await_text("the service runs")
        os.killpg(running.process.pid, signal.SIGINT)
        assert running.end(PATIENCE) == 130
        assert not running.left()
        assert not list(running.temporary.iterdir())
        assert not running.errors.read_text().strip()
        assert running.out.read_text().rstrip().endswith("stopping everything")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="cannot run here: only Linux tells a child that its parent died")
def test_kill_9_of_the_demo_leaves_no_process(tmp_path: Path) -> None:
    with demo(tmp_path, "--keep") as running:
        running.await_text("everything stays as it is until Ctrl-C")
        for name in ("primary", "backup", "metrics", "config"):
            assert f"       {name} " in running.out.read_text()
        running.process.kill()
        until("no process left", lambda: not running.left())
