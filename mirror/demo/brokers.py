"""Real Kafka brokers on this machine, for the demo, the benchmark and the tests.

They listen only on the loopback address, keep all files in a given directory, and never outlive the process that
started them.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import logging
import os
import random
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from mirror.demo.jvm import quick_start_options
from mirror.demo.kafka_jars import BROKER, KAFKA_VERSION, classpath
from mirror.demo.subprocesses import spawn
from mirror.errors import SetupError
from mirror.spark.java import java

_START_SECONDS, _STOP_SECONDS = 180.0, 15.0

LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
"""

# Below the ephemeral range. Otherwise, while a broker is down, a client's connection could get the broker's port as its
# own, connect to itself, and keep the broker from starting again.
PORTS = range(20_000, 32_000)

_ports_taken: set[int] = set()
_log = logging.getLogger(__name__)


def free_port() -> int:
    """A free loopback port of PORTS that this function has not returned before."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as client:
            if port not in _ports_taken and client.connect_ex(("127.0.0.1", port)) != 0:
                _ports_taken.add(port)
                return port


class Broker:
    """One broker process. All its files are in `directory`: data, configuration and broker.log.

    Its `properties` may be changed until it starts.
    """

    def __init__(
        self,
        node: int,
        directory: Path,
        port: int,
        cluster_id: str,
        properties: Mapping[str, object],
        java_options: Sequence[str] | None,
        version: str,
    ) -> None:
        self.node = node
        self.port = port
        self.log = directory / "broker.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._directory = directory
        self._cluster_id = cluster_id
        self._java_options = java_options
        self._version = version
        self.properties: dict[str, object] = {"node.id": node, "log.dirs": directory / "data", **properties}

    @property
    def bootstrap(self) -> str:
        """This broker's host:port."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start with the data in the directory, if there is any, and return when the broker answers requests.

        Raises SetupError, with the end of the broker's log, if that takes more than three minutes.
        """
        (self._directory / "tmp").mkdir(parents=True, exist_ok=True)
        (self._directory / "log4j2.properties").write_text(LOG4J)
        settings = self._directory / "server.properties"
        settings.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()))
        atexit.register(self.kill)
        options = quick_start_options() if self._java_options is None else self._java_options
        if not (self._directory / "data" / "meta.properties").exists():
            tool = ("kafka.tools.StorageTool", "format", "-t", self._cluster_id, "-c", str(settings))
            self.process = self._run(*options, *tool)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_START_SECONDS)
            if self.process.poll() != 0:
                self.kill()
                raise SetupError(f"could not format {self._directory}:\n{self._log_tail()}")
        self.process = self._run("-Xmx512m", *options, "kafka.Kafka", str(settings))
        self._await_ready()

    def _run(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Run Java with Kafka's classes, in a process that ends with ours and that Ctrl-C does not reach."""
        files = {"log4j2.configurationFile": "log4j2.properties", "java.io.tmpdir": "tmp"}
        command = [java(), "-XX:-UsePerfData", f"-XX:ErrorFile={self._directory}/crash.log"]
        command += [f"-D{key}={self._directory}/{name}" for key, name in files.items()]
        command += ["-cp", classpath(BROKER, self._version), *arguments]
        return spawn(command, self.log, self._directory)

    def _await_ready(self) -> None:
        assert self.process is not None
        quick = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 50, "log_level": 0}
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **quick})
        deadline = time.monotonic() + _START_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(KafkaException):
                if self.node in admin.list_topics(timeout=1).brokers:
                    return
            time.sleep(0.02)
        self.kill()
        raise SetupError(f"the broker in {self._directory} did not start:\n{self._log_tail()}")

    def _log_tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])

    def stop(self) -> None:
        """Shut down in order; kill the broker if that takes 15 seconds."""
        self._signal(signal.SIGCONT, signal.SIGTERM)
        if self.process:
            try:
                self.process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                _log.warning("the broker in %s did not stop and was killed", self._directory)
        self.kill()

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process has ended."""
        self._signal(signal.SIGKILL)
        if self.process:
            self.process.wait()
            self.process = None
        atexit.unregister(self.kill)

    def pause(self) -> None:
        """Send SIGSTOP, and wait until all its threads stand still: connections stay open, but it answers nothing."""
        self._signal(signal.SIGSTOP)
        if self.process:
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Continue after `pause`."""
        self._signal(signal.SIGCONT)

    def _signal(self, *signals: signal.Signals) -> None:
        for each in signals:
            if self.process:
                self.process.send_signal(each)


class LocalCluster:
    """A cluster of combined KRaft brokers under `directory`, on loopback ports that stay the same over restarts.

    A context manager. `properties` add to the brokers' server.properties or override them; `java_options` replace
    those that make a JVM start quickly, which are only for KAFKA_VERSION. A single broker is `brokers[i]`, with the
    same methods.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        brokers: int = 1,
        properties: Mapping[str, object] | None = None,
        java_options: Sequence[str] | None = None,
        version: str = KAFKA_VERSION,
    ) -> None:
        self.name = name
        cluster_id = base64.b64encode(uuid.uuid4().bytes, altchars=b"xy")[:22].decode()
        ports = {node: (free_port(), free_port()) for node in range(1, brokers + 1)}
        voters = ",".join(f"{node}@127.0.0.1:{controller}" for node, (_, controller) in ports.items())
        self.brokers = []
        for node, (port, controller) in ports.items():
            listeners = {
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            }
            together = {**_common_properties(brokers), **listeners, **(properties or {})}
            place = directory.absolute() / f"{name}-{node}"
            self.brokers.append(Broker(node, place, port, cluster_id, together, java_options, version))

    @property
    def bootstrap(self) -> str:
        """The value for bootstrap.servers."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    def start(self) -> LocalCluster:
        """Start all brokers at once, and return when all of them answer. Raises SetupError, with none left running."""
        start_together(self)
        return self

    def stop(self) -> None:
        """Shut down all brokers in order; kill those that do not stop."""
        self._each(Broker.stop)

    def kill(self) -> None:
        """Send SIGKILL to all brokers."""
        self._each(Broker.kill)

    def pause(self) -> None:
        """Send SIGSTOP to all brokers: connections stay open, but no broker answers."""
        self._each(Broker.pause)

    def resume(self) -> None:
        """Continue after `pause`."""
        self._each(Broker.resume)

    def _each(self, action: Callable[[Broker], None]) -> None:
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(action, self.brokers))

    def __enter__(self) -> LocalCluster:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_together(*clusters: LocalCluster) -> None:
    """Start several clusters at once. Raises SetupError if one does not come up, with none left running."""
    brokers = [broker for cluster in clusters for broker in cluster.brokers]
    try:
        with ThreadPoolExecutor(len(brokers)) as pool:
            list(pool.map(Broker.start, brokers))
    except BaseException:
        for broker in brokers:
            broker.kill()
        raise


def _common_properties(brokers: int) -> dict[str, object]:
    """The properties that all brokers of a cluster share.

    The internal topics have few partitions, since each costs start-up time. The session is short, since a killed broker
    can join again only after it has expired.
    """
    replicas, in_sync = (1, 1) if brokers < 3 else (3, 2)
    return {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "broker.heartbeat.interval.ms": 500,
        "broker.session.timeout.ms": 3000,
        "metadata.max.idle.interval.ms": 0,  # a broker without work would write two records a second
        "auto.create.topics.enable": "false",
        "default.replication.factor": replicas,
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 8,
        "offsets.topic.replication.factor": replicas,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "transaction.state.log.num.partitions": 8,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
    }
