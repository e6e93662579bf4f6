"""A Spark standalone cluster of local processes, from PySpark's own jars."""

from __future__ import annotations

import contextlib
import os
import subprocess
import uuid
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from mirror.demo.brokers import free_port
from mirror.demo.jvm import SHORT_LIVED
from mirror.spark.java import java
from mirror.spark.security import properties_file, protection
from tests.harness import processes
from tests.harness.spark_stranger import Socket, listening
from tests.harness.waiting import until


class SparkCluster:
    """A master and workers of one core each, all their files in `directory`. Who connects has to know their secret."""

    def __init__(self, directory: Path, workers: int) -> None:
        self.url = f"spark://127.0.0.1:{free_port()}"
        self._directory = directory
        self._workers = workers
        self._mark = uuid.uuid4().hex
        self._suspended: frozenset[psutil.Process] = frozenset()
        self._log = directory / "spark.log"
        self._secret = {"spark.authenticate.secret": f"secret-{uuid.uuid4().hex}"}
        self._properties = directory / "spark.properties"

    @property
    def settings(self) -> dict[str, Any]:
        """Spark's settings for a service whose executors run here."""
        conf = {
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.executor.extraJavaOptions": " ".join(SHORT_LIVED),
            **self._secret,
        }
        return {"master": self.url, "conf": conf}

    def executors(self) -> dict[int, list[int]]:
        """The Python workers of each executor that is not suspended, both by process id."""
        found = set(processes.marked(self._mark)) - self._suspended
        executors = [p for p in found if processes.command_holds(p, "CoarseGrainedExecutorBackend")]
        return {
            executor.pid: [
                worker.pid
                for daemon in processes.children(executor, "pyspark.daemon", "pyspark.worker")
                for worker in processes.children(daemon)
            ]
            for executor in executors
        }

    def sockets(self) -> list[Socket]:
        """All that the processes of the cluster listen on, its executors' among them."""
        return listening(processes.marked(self._mark))

    def shows(self, found: Iterable[psutil.Process]) -> list[str]:
        """The command lines, of these processes and the cluster's own, that have the secret."""
        secret = self._secret["spark.authenticate.secret"]
        running = (process for process in (*found, *processes.marked(self._mark)) if processes.is_alive(process))
        return [str(process) for process in running if processes.command_holds(process, secret)]

    def kill(self, pid: int) -> None:
        """SIGKILL to one executor. Its worker starts another one."""
        psutil.Process(pid).kill()

    def kill_worker(self, executor: int) -> None:
        """SIGKILL to the worker of an executor, and to all that it has started. The worker is the first to die."""
        worker = _parent(executor)
        for process in (worker, *worker.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def add_worker(self) -> None:
        """Start one more worker."""
        self._start_worker(self._workers)
        self._workers += 1
        self._await("Registering worker", self._workers)

    @contextlib.contextmanager
    def suspended(self, executor: int) -> Iterator[frozenset[psutil.Process]]:
        """SIGSTOP meanwhile to the worker of an executor, and to all that it has started. Yields these processes."""
        worker = _parent(executor)
        try:
            while more := {worker, *worker.children(recursive=True)} - self._suspended:  # it may start some meanwhile
                for process in more:
                    process.suspend()
                self._suspended |= more
            yield self._suspended
        finally:
            for process in self._suspended:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.resume()
            self._suspended = frozenset()

    def __enter__(self) -> SparkCluster:
        self._properties.touch(0o600)
        self._properties.write_text(properties_file({**protection(self.url, {}), **self._secret}))
        try:
            host, port = self.url.removeprefix("spark://").split(":")
            self._start("master.Master", "--host", host, "--port", port, "--webui-port", "0")
            self._await("I have been elected leader", 1)
            for number in range(self._workers):
                self._start_worker(number)
            self._await("Registering worker", self._workers)
        except BaseException:
            processes.kill_marked(self._mark)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        processes.kill_marked(self._mark)

    def _start_worker(self, number: int) -> None:
        place = ["--work-dir", str(self._directory / f"work-{number}"), "--webui-port", "0"]
        self._start("worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g", *place, self.url)

    def _start(self, name: str, *arguments: str) -> None:
        spark = find_spec("pyspark")
        assert spark is not None and spark.origin is not None
        home = Path(spark.origin).parent
        environment = {
            **os.environ,
            processes.MARK: self._mark,
            "SPARK_HOME": str(home),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_DIRS": str(self._directory / "local"),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        # What the tasks need of mirror, the service has to ship.
        environment.pop("PYTHONPATH", None)
        options = [f"-Djava.io.tmpdir={self._directory}", "-Xmx256m", "-XX:-UsePerfData", *SHORT_LIVED]
        # Spark's own options for newer Javas, without its launcher.
        options += ["--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED"]
        with self._log.open("ab") as log:
            subprocess.Popen(
                [
                    *(java(), *options, "-cp", f"{home}/jars/*", f"org.apache.spark.deploy.{name}"),
                    *("--properties-file", str(self._properties), *arguments),
                ],
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def _await(self, words: str, times: int) -> None:
        try:
            until(f"{words!r} in the log", lambda: self._log.read_text(errors="replace").count(words) >= times)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._log.read_text(errors='replace')[-3000:]}") from None


def _parent(pid: int) -> psutil.Process:
    found = psutil.Process(pid).parent()
    assert found is not None
    return found
