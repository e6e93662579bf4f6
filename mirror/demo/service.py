"""Runs the service for the demo: a real `mirror run` in a process of its own, with its state and latency."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from mirror.demo.brokers import free_port
from mirror.demo.subprocesses import spawn
from mirror.errors import MirrorError
from mirror.status.rates import quantile as estimated_quantile
from mirror.text import duration

LATENCY = "mirror_source_replication_latency_seconds"
WINDOW = 10.0  # seconds over which the latency is measured
ORPHANS_END_WITHIN = 5.0  # seconds

CONFIG = """\
clusters:
  primary: {{bootstrap.servers: "{primary}"}}
  backup: {{bootstrap.servers: "{backup}"}}
flows:
  - source: primary
    target: backup
http: {{host: 127.0.0.1, port: {port}}}
"""

Buckets = list[tuple[float, float]]  # upper bound in seconds, and the number of records up to it


class DemoService:
    """Starts, kills and stops the service. It ends with this process, however that ends (on Linux)."""

    def __init__(self, directory: Path, primary: str, backup: str) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.config = directory / "mirror.yaml"
        self.config.write_text(CONFIG.format(primary=primary, backup=backup, port=port))
        self.log = directory / "mirror.log"
        self.state = "stopped"
        self._temporary = directory / "tmp"
        self._temporary.mkdir()
        self._process: subprocess.Popen[bytes] | None = None
        self._history: deque[tuple[float, dict[str, Buckets]]] = deque()

    def start(self) -> None:
        """Start the service. `refresh` finds out when it runs."""
        here = {"TMPDIR": str(self._temporary), "SPARK_LOCAL_DIRS": str(self._temporary)}
        command = [sys.executable, "-m", "mirror", "run", "-c", str(self.config)]
        self._process = spawn(command, self.log, environment=here)
        self._history.clear()
        self.state = "starting"

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process has ended."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self.state = "killed"

    def stop(self, timeout: float, check: Callable[[], None]) -> int:
        """Send SIGTERM, and return the exit code. `check` is called while waiting.

        Raises MirrorError if the process does not end in time.
        """
        assert self._process is not None
        self._process.terminate()
        deadline = time.monotonic() + timeout
        while self._process.poll() is None:
            check()
            if time.monotonic() > deadline:
                raise MirrorError(f"the service did not stop within {duration(timeout)} of SIGTERM")
            time.sleep(0.05)
        code = self._process.returncode
        self._process, self.state = None, "stopped"
        return code

    def refresh(self) -> None:
        """Fetch the service's metrics and health. Raises MirrorError if it has ended by itself."""
        if self._process is None:
            return
        code = self._process.poll()
        if code is not None:
            lines = self.log.read_text(errors="replace").splitlines() or ["its log is empty"]
            raise MirrorError(f"the service ended by itself with exit code {code}: {lines[-1]}")
        with contextlib.suppress(OSError, ValueError):
            self._remember(_get(f"{self.url}/metrics"))
            problem = _get(f"{self.url}/readyz").splitlines()[0]
            if problem != "ok":
                # At its start the service always waits for something: that is not worth showing.
                self.state = "starting" if self.state == "starting" else problem
            elif any(buckets[-1][1] for buckets in self._history[-1][1].values()):
                self.state = "running"

    def latency(self, topics: Sequence[str], quantile: float) -> float | None:
        """A quantile of the last seconds' replication latency: from record timestamp to commit on the target."""
        if not self._history or self.state in ("killed", "stopped"):
            return None
        oldest, newest = self._history[0][1], self._history[-1][1]
        present = [topic for topic in topics if topic in newest]
        if not present:
            return None
        differences = [_difference(newest[topic], oldest.get(topic)) for topic in present]
        summed = [(row[0][0], sum(count for _, count in row)) for row in zip(*differences, strict=True)]
        return estimated_quantile(_counts(summed), quantile, [bound for bound, _ in summed[:-1]])

    def _remember(self, metrics: str) -> None:
        found: dict[str, Buckets] = {}
        for family in text_string_to_metric_families(metrics):
            if family.name == LATENCY:
                for sample in family.samples:
                    if sample.name.endswith("_bucket"):
                        bucket = (float(sample.labels["le"]), sample.value)
                        found.setdefault(sample.labels["topic"], []).append(bucket)
        now = time.monotonic()
        self._history.append((now, found))
        while now - self._history[0][0] > WINDOW:
            self._history.popleft()


def _get(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:  # 503 has a body
        with error:
            return error.read().decode()


def _difference(newer: Buckets, older: Buckets | None) -> Buckets:
    if older is None:
        return newer
    return [(bound, count - before) for (bound, count), (_, before) in zip(newer, older, strict=True)]


def _counts(cumulative: Buckets) -> list[float]:
    """The count of each bucket by itself."""
    totals = [total for _, total in cumulative]
    return [total - before for total, before in zip(totals, [0.0, *totals], strict=False)]


def adopt_orphans() -> None:
    """On Linux, become the parent of the processes that a killed service leaves, for `end_orphans`."""
    if sys.platform == "linux":
        PR_SET_CHILD_SUBREAPER = 36  # noqa: N806  # prctl(2)'s name
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans() -> None:
    """Wait a little until all our child processes have ended, then kill them.

    Only to be called when nothing else waits for a child process.
    """
    deadline = time.monotonic() + ORPHANS_END_WITHIN
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                time.sleep(0.05)
                if time.monotonic() > deadline:
                    for process in _child_processes():
                        os.kill(process, signal.SIGKILL)


def _child_processes() -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # State and parent follow the command's name, which is in parentheses and may hold any character.
            if int(status.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(status.parent.name))
    return found
