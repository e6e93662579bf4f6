"""The JVM that runs Spark: one that mirror starts, or the one of the spark-submit that has started mirror."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Protocol

from py4j.java_gateway import JavaGateway, JavaObject
from pyspark import SparkConf
from pyspark.java_gateway import ensure_callback_server_started, launch_gateway

from mirror.spark import security
from mirror.spark.fixed import MASTER
from mirror.spark.home import SparkHome, spark_home
from mirror.spark.submission import is_submitted

SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"  # the arguments with which PySpark starts its gateway
JAVA_OPTIONS = "SPARK_SUBMIT_OPTS"  # Java options of a spark-submit that is a driver
# A JVM of ours runs this one only to look for data sources in installed packages, and skips that if it is missing.
DRIVER_PYTHON = "PYSPARK_DRIVER_PYTHON"

# Warnings that a JVM prints at its start under any options, and Spark before it reads a log configuration. Spark's own
# options open the package sun.security.action, which Java 25 no longer has.
NOISE = re.compile(
    rb"WARNING: (Using incubator modules|.*sun\.misc\.Unsafe|.*restricted method|Please consider|Use --enable"
    rb"|package sun\.security\.action not in)"
)

# The driver moves no records: a small heap and the serial collector keep its memory low.
DRIVER_MEMORY = "512m"
_JAVA_OPTIONS = "-XX:+UseSerialGC -XX:-UsePerfData -XX:TieredStopAtLevel=1 -Xss512k -XX:+IgnoreUnrecognizedVMOptions"


def java_options(home: SparkHome) -> str:
    """The Java options that a driver's JVM should start with."""
    log4j = Path(__file__).with_name("log4j2.properties").as_uri()
    return f"{_JAVA_OPTIONS} {home.java_options} -Dlog4j2.configurationFile={log4j}"


class Jvm(Protocol):
    """What a SparkDriver asks of its JVM."""

    gateway: JavaGateway

    def hush(self) -> None:
        """Drop what it prints from now on, because it is about to end."""

    def join(self, timeout: float) -> bool:
        """Wait until it has ended, at most `timeout` seconds; to be called after the session's stop. True if it has."""

    def kill(self) -> None:
        """Kill it, and with it every local task."""


class OwnJvm:
    """A JVM that is started with `conf`, which wins over its defaults."""

    def __init__(self, conf: Mapping[str, str], directory: Path, home: SparkHome | None) -> None:
        self._hushed = False
        home = home or spark_home(directory)
        os.environ["SPARK_HOME"] = str(home.path)
        os.environ[DRIVER_PYTHON] = "none"
        if security.is_local(conf[MASTER]):  # only this variable decides where Spark's own pages listen
            os.environ[security.LOCAL_IP] = conf[security.BIND]
        options = f"{java_options(home)} -Djava.io.tmpdir={directory}"
        start = {"spark.driver.memory": DRIVER_MEMORY, "spark.driver.extraJavaOptions": options}
        self.gateway = self._launch({**start, **conf}, directory / "spark.properties")
        self._process: subprocess.Popen[bytes] = self.gateway.proc

    def _launch(self, conf: Mapping[str, str], file: Path) -> JavaGateway:
        """Start it in a session of its own: a signal to our process group must not end it before the drain."""
        lines, stderr = os.pipe()  # read from the start, since a JVM that can't start prints the reason
        threading.Thread(target=self._relay, args=(os.fdopen(lines, "rb"),), daemon=True, name="jvm stderr").start()
        try:
            with _submitted(conf, file):
                how = {"stderr": stderr, "start_new_session": True}
                return launch_gateway(None, how)  # type: ignore[no-untyped-call]
        finally:
            os.close(stderr)

    def _relay(self, lines: IO[bytes]) -> None:
        """Copy the output of the JVM and the Python workers to stderr, without NOISE."""
        for line in lines:
            if not self._hushed and not NOISE.match(line):
                with contextlib.suppress(OSError, ValueError):  # a disk may be full for a while, or stderr be closed
                    sys.stderr.buffer.write(line)
                    sys.stderr.flush()

    def hush(self) -> None:
        """Drop what it prints from now on, because it is about to end."""
        self._hushed = True

    def join(self, timeout: float) -> bool:
        """End it by the end of its input, and wait at most `timeout` seconds. True if it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
        return self._process.returncode is not None

    def kill(self) -> None:
        """Kill it. PySpark's daemon is in another process group. It ends with its input, and then ends the workers."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # the leader of its own session
        self._process.wait()


@contextlib.contextmanager
def _submitted(conf: Mapping[str, str], file: Path) -> Iterator[None]:
    """Make PySpark's gateway read `conf` from a file of ours, since a command line is visible to everybody."""
    file.touch(0o600, exist_ok=False)
    file.write_text(security.properties_file(conf))
    before = os.environ.get(SUBMIT_ARGS)
    ours = f"--properties-file {shlex.quote(str(file))} --load-spark-defaults"
    os.environ[SUBMIT_ARGS] = f"{ours} {before or 'pyspark-shell'}"
    try:
        yield
    finally:
        file.unlink()
        if before is None:
            del os.environ[SUBMIT_ARGS]
        else:
            os.environ[SUBMIT_ARGS] = before


class SubmitJvm:
    """The JVM of a spark-submit whose application this process is.

    It waits for the end of this process, and then ends with the same exit code. So it must outlive a signal: a JVM that
    ends at SIGTERM takes Spark away before the tasks have drained. It hands its signals on to this process instead.
    """

    def __init__(self) -> None:
        self.gateway: JavaGateway = launch_gateway()  # type: ignore[no-untyped-call]
        ensure_callback_server_started(self.gateway)  # type: ignore[no-untyped-call]
        java = self.gateway.jvm
        self._pid = int(java.java.lang.ProcessHandle.current().pid())
        for name in ("TERM", "INT", "HUP"):
            java.sun.misc.Signal.handle(java.sun.misc.Signal(name), _HandOn())

    @classmethod
    def there(cls) -> SubmitJvm | None:
        """The one that has started this process, if there is one."""
        return cls() if is_submitted(os.environ) else None

    def conf(self) -> dict[str, str]:
        """What spark-submit was told by its arguments and its properties files."""
        return dict(SparkConf(_jvm=self.gateway.jvm).getAll())

    def hush(self) -> None:
        """Do nothing: its output is not ours."""

    def join(self, timeout: float) -> bool:
        """Return False at once: it ends after this process."""
        return False

    def kill(self) -> None:
        """Kill it. Nobody learns our exit code then: spark-submit ends with 137."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)


class _HandOn:
    """A signal handler of the JVM that gives this process the same signal."""

    def handle(self, received: JavaObject) -> None:
        """Called by the JVM."""
        os.kill(os.getpid(), received.getNumber())

    class Java:
        """Read by Py4J."""

        implements = ("sun.misc.SignalHandler",)
