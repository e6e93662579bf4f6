"""Clusters of one broker in a container of the official image, through testcontainers."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import uuid
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

import docker.errors
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient

from mirror.demo.brokers import LocalCluster
from mirror.demo.load import QUIET
from tests.harness.programs import skip
from tests.harness.waiting import TooLate, until
from tests.images.kafka import IMAGE

ROOT = Path(__file__).parent.parent.parent

# In front of Ryuk, testcontainers' helper container: `reaper` does its work without an image of its own.
testcontainers_config.ryuk_disabled = True

_REAPER_SECONDS = 60.0
_CAP_SYS_ADMIN = 21
STATUS = Path("/proc/self/status")
_SHORT_LIVED = {"KAFKA_HEAP_OPTS": "-Xmx512m", "KAFKA_JVM_PERFORMANCE_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


class Containers:
    """The containers of one test run. A context manager; when it ends, or this process does, they are removed."""

    def __init__(self) -> None:
        self.label = f"mirror.tests={uuid.uuid4().hex}"
        self._reaper: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Containers:
        # In a session of its own, so that Ctrl-C ends the tests and not what cleans up after them.
        self._reaper = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.reaper", self.label],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._reaper is not None and self._reaper.stdin is not None
        self._reaper.stdin.close()
        code = self._reaper.wait(_REAPER_SECONDS)
        assert code == 0, f"the reaper ended with {code}: docker ps --filter label={self.label}"

    def start(self, *names: str) -> list[str]:
        """Start a cluster of one broker for each name, at once; returns the bootstrap addresses."""
        with ThreadPoolExecutor(len(names)) as pool:
            return list(pool.map(self._start, names))

    def _start(self, name: str) -> str:
        """The broker has the settings of a local one. It listens on the same port inside and outside the container.

        So its one advertised address holds for clients out here as for the broker itself, which sends the markers of
        transactions there.
        """
        (planned,) = LocalCluster(name, ROOT).brokers  # never started
        settings = {key: value for key, value in planned.properties.items() if key != "log.dirs"}
        settings["listeners"] = str(settings["listeners"]).replace("127.0.0.1", "0.0.0.0", 1)
        environment = {_variable(key): str(value) for key, value in settings.items()}
        environment |= {"CLUSTER_ID": b64encode(uuid.uuid4().bytes, altchars=b"xy")[:22].decode(), **_SHORT_LIVED}
        key, _, run = self.label.partition("=")
        container = DockerContainer(IMAGE, env=environment, labels={key: run})
        # testcontainers would publish the port on all of the machine's addresses.
        container.ports[f"{planned.port}/tcp"] = ("127.0.0.1", planned.port)  # type: ignore[assignment]
        container.start()
        _await_ready(container, planned.bootstrap)
        return planned.bootstrap


def _variable(key: str) -> str:
    """The environment variable that the official image takes for a broker's property."""
    return "KAFKA_" + key.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def _await_ready(container: DockerContainer, bootstrap: str) -> None:
    # Docker accepts connections before the broker listens, and each that fails makes the next one later.
    client = AdminClient({"bootstrap.servers": bootstrap, **QUIET})

    def ready() -> bool:
        container.reload()
        if container.status == "exited":
            raise TooLate("the broker has ended")
        with contextlib.suppress(KafkaException):
            return bool(client.list_topics(timeout=1).brokers)
        return False

    try:
        until(f"a broker in a container at {bootstrap}", ready)
    except TooLate as error:
        log = b"".join(container.get_logs()).decode(errors="replace").splitlines()
        raise TooLate("\n".join([str(error), *log[-20:]])) from None


def require_engine() -> None:
    """Skip the test where no Docker engine answers, or where it has no image and can't get one.

    In CI that fails where an engine could have run.
    """
    try:
        client = DockerClient().client
        client.ping()
    except docker.errors.DockerException as error:
        skip(f"no Docker engine answers ({error}): start dockerd, or set DOCKER_HOST", _dockerd_could_run())
        return
    try:
        with contextlib.suppress(docker.errors.ImageNotFound):
            client.images.get(IMAGE)
            return
        client.images.pull(IMAGE)
    except docker.errors.DockerException as error:
        skip(f"no image {IMAGE} ({error}): make kafka-image makes a stand-in of local files", True)
    finally:
        client.close()


def _dockerd_could_run() -> bool:
    """Root of the machine or of a privileged container: what dockerd needs to mount and to set up networks."""
    with contextlib.suppress(OSError):
        capabilities = int(STATUS.read_text().partition("CapEff:")[2].split()[0], 16)
        return os.geteuid() == 0 and bool(capabilities >> _CAP_SYS_ADMIN & 1)
    return False


@contextlib.contextmanager
def clusters(*names: str) -> Iterator[list[str]]:
    """Bootstrap addresses of new clusters in containers, one broker each. Skips the test where none can run."""
    require_engine()
    with Containers() as containers:
        yield containers.start(*names)
