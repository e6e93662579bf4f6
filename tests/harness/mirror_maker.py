"""A real MirrorMaker 2 in dedicated mode: several flows in one process."""

from __future__ import annotations

import signal
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from mirror.demo.brokers import LOG4J, free_port
from mirror.demo.jvm import SHORT_LIVED
from mirror.demo.kafka_jars import MIRROR_MAKER, classpath
from mirror.demo.subprocesses import spawn
from mirror.spark.java import java
from tests.harness import processes
from tests.harness.waiting import PATIENCE

MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
# Without what these tests do not need: heartbeats, checkpoints, three replicas, a search for plug-ins.
COMMON: Mapping[str, object] = {
    "plugin.discovery": "service_load",
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.interval.seconds": -1,
    "sync.topic.acls.enabled": "false",
    "sync.topic.configs.enabled": "false",
    "dedicated.mode.enable.internal.rest": "true",
    "replication.factor": 1,
    "checkpoints.topic.replication.factor": 1,
    "heartbeats.topic.replication.factor": 1,
    "offset-syncs.topic.replication.factor": 1,
    "offset.storage.replication.factor": 1,
    "offset.storage.partitions": 3,
    "status.storage.replication.factor": 1,
    "config.storage.replication.factor": 1,
    "tasks.max": 2,
}


class MirrorMaker:
    """A context manager that ends all its processes. `properties` are those of `file`, its mm2.properties."""

    def __init__(self, properties: Mapping[str, object], directory: Path) -> None:
        self._mark = uuid.uuid4().hex
        self.file = directory / f"mm2-{self._mark[:6]}.properties"
        self._log = self.file.with_suffix(".log")
        listeners = {"listeners": f"http://127.0.0.1:{free_port()}"}
        lines = (f"{key} = {value}\n" for key, value in {**COMMON, **listeners, **properties}.items())
        self.file.write_text("".join(lines))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> MirrorMaker:
        """Start, and return at once."""
        log4j = self.file.with_suffix(".log4j2.properties")
        log4j.write_text(LOG4J)
        options = [*SHORT_LIVED, "-Xms256m", "-Xmx768m", f"-Dlog4j2.configurationFile={log4j}"]
        command = [java(), *options, "-cp", classpath(MIRROR_MAKER), MAIN, str(self.file)]
        self._process = spawn(command, self._log, environment={processes.MARK: self._mark})
        return self

    def stop(self) -> None:
        """SIGTERM, after which it commits its positions; returns when it has ended."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE)

    def freeze(self) -> None:
        """SIGSTOP: it sends nothing any more, and ends nothing that it has begun."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """SIGCONT: it goes on where it was frozen."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL."""
        processes.kill_marked(self._mark)
        if self._process is not None:
            self._process.wait()

    def tail(self, lines: int = 60) -> str:
        """The end of its log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> MirrorMaker:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.kill()
        if error is not None:
            print(f"--- log of {self.file.name}\n{self.tail()}")


def flows(bootstraps: Mapping[str, str], pairs: Mapping[tuple[str, str], Mapping[str, object]]) -> dict[str, object]:
    """Properties for flows between clusters; by the aliases of source and target, what each flow has of its own."""
    properties: dict[str, object] = {"clusters": ", ".join(bootstraps)}
    for alias, bootstrap in bootstraps.items():
        properties |= {f"{alias}.bootstrap.servers": bootstrap, f"{alias}.plugin.discovery": "service_load"}
    for (source, target), own in pairs.items():
        prefix = f"{source}->{target}."
        properties |= {f"{prefix}enabled": "true", **{f"{prefix}{key}": value for key, value in own.items()}}
    return properties
