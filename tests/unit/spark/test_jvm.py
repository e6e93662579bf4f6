"""Whose JVM it is, and what each kind does before there is a Spark."""

from __future__ import annotations

import errno
import io
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.spark import jvm
from mirror.spark.home import SparkHome
from mirror.spark.jvm import NOISE, SUBMIT_ARGS, OwnJvm, SubmitJvm
from mirror.spark.submission import GATEWAY_PORT

PID = 5_000_000  # of no process: above the largest that Linux gives


class Java:
    """Stands in for the JVM of a spark-submit: any class that is asked for, and the handlers that it was given."""

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}
        process = SimpleNamespace(current=lambda: SimpleNamespace(pid=lambda: PID))
        self.java = SimpleNamespace(lang=SimpleNamespace(ProcessHandle=process))
        self.sun = SimpleNamespace(misc=SimpleNamespace(Signal=self.signal()))

    def signal(self) -> Any:
        """The class sun.misc.Signal."""

        class Signal(str):
            __slots__ = ()
            handle = self.handlers.__setitem__

        return Signal


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch) -> Java:
    found = Java()
    monkeypatch.setattr(jvm, "launch_gateway", lambda: SimpleNamespace(jvm=found))
    monkeypatch.setattr(jvm, "ensure_callback_server_started", lambda gateway: None)
    monkeypatch.setenv(GATEWAY_PORT, "1")
    return found


def test_without_a_spark_submit_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(GATEWAY_PORT, raising=False)
    assert SubmitJvm.there() is None


def test_a_spark_submit_hands_its_signals_on(java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    assert SubmitJvm.there() is not None
    assert java.handlers.keys() == {"TERM", "INT", "HUP"}
    got: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: got.append((pid, number)))
    for name, handler in java.handlers.items():
        number = signal.Signals[f"SIG{name}"]
        handler.handle(SimpleNamespace(getNumber=lambda number=number: int(number)))
        assert got.pop() == (os.getpid(), number)


@pytest.mark.usefixtures("java")
def test_a_spark_submit_is_killed_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = SubmitJvm.there()
    assert found is not None
    found.hush()
    found.join(60.0)
    found.kill()  # it has ended by itself
    got: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: got.append((pid, number)))
    found.kill()
    assert got == [(PID, signal.SIGKILL)]


@pytest.mark.parametrize("before", [None, "--verbose pyspark-shell"])
def test_the_conf_of_an_own_jvm_is_in_a_file_that_only_we_can_read(
    before: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SPARK_HOME", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "")
    monkeypatch.delenv(SUBMIT_ARGS, raising=False)
    if before is not None:
        monkeypatch.setenv(SUBMIT_ARGS, before)
    seen: dict[str, str] = {}

    def launch(conf: None, how: dict[str, Any]) -> SimpleNamespace:
        file = tmp_path / "spark.properties"
        seen.update(line.partition("=")[::2] for line in file.read_text().splitlines())
        assert file.stat().st_mode & 0o077 == 0
        assert os.environ[SUBMIT_ARGS].startswith(f"--properties-file {file} --load-spark-defaults ")
        assert os.environ[SUBMIT_ARGS].endswith(before or "pyspark-shell")
        assert how["start_new_session"]
        return SimpleNamespace(proc=None)

    monkeypatch.setattr(jvm, "launch_gateway", launch)
    conf = {"spark.master": "local[1]", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.memory": "1g"}
    OwnJvm(conf, tmp_path, SparkHome(tmp_path))
    assert seen["spark.driver.memory"] == "1g" and "log4j2" in seen["spark.driver.extraJavaOptions"]
    assert list(tmp_path.iterdir()) == [] and os.environ.get(SUBMIT_ARGS) == before
    assert (os.environ["SPARK_HOME"], os.environ["SPARK_LOCAL_IP"]) == (str(tmp_path), "127.0.0.1")


@pytest.mark.parametrize(
    ("line", "dropped"),
    [
        (b"WARNING: Using incubator modules: jdk.incubator.vector\n", True),
        (b"WARNING: package sun.security.action not in java.base\n", True),  # Java 25, for an option of Spark's
        (b"WARNING: package com.example not in java.base\n", False),  # for an option of the operator's
        (b"Error occurred during initialization of VM\n", False),
    ],
)
def test_only_what_no_option_can_silence_is_dropped_from_the_output(line: bytes, dropped: bool) -> None:
    assert bool(NOISE.match(line)) is dropped


def test_a_line_that_cannot_be_written_does_not_end_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk may be full for a while. All later lines of the JVM and its tasks would be lost."""

    class Stderr(io.BytesIO):
        def write(self, line: Any) -> int:
            if line == b"lost\n":
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(line)

    written = Stderr()
    monkeypatch.setattr("sys.stderr", SimpleNamespace(buffer=written, flush=lambda: None))
    monkeypatch.setattr(OwnJvm, "_launch", lambda *_: SimpleNamespace(proc=None))
    for name in ("SPARK_HOME", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "")
    OwnJvm({"spark.master": "yarn"}, tmp_path, SparkHome(tmp_path))._relay(io.BytesIO(b"first\nlost\nlast\n"))
    assert written.getvalue() == b"first\nlast\n"
