"""What is compared: each system copies topics from one cluster to `<alias>.<topic>` on the other."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import yaml

from mirror.demo.brokers import free_port
from mirror.demo.kafka_jars import MIRROR_MAKER, classpath
from mirror.demo.subprocesses import spawn
from mirror.spark.java import java
from tests.bench.job import Job
from tests.harness import processes, topics
from tests.harness.service import TAKES_RECORDS

STOP_SECONDS = 60.0
PATH = re.compile(r'mirror_data_path_partitions\{.*path="(\w+)".*\} (\S+)')


class System(ABC):
    """A system that copies from `start` to `stop`; a context manager."""

    name: str
    environment: Mapping[str, str] = {}  # of its processes, beside ours

    def __init__(self, job: Job) -> None:
        self.job = job
        self._mark = uuid.uuid4().hex
        self._started: list[subprocess.Popen[bytes]] = []
        self.log = job.directory / f"{self.name.replace(' ', '-')}-{job.alias}.log"

    @abstractmethod
    def start(self) -> None:
        """Start it, or one more of it."""

    def stop(self) -> None:
        """SIGTERM, and SIGKILL to what is left after a minute."""
        for process in self._started:
            process.send_signal(signal.SIGTERM)
        for process in self._started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
        self.kill()

    def kill(self) -> None:
        """SIGKILL to all its processes."""
        processes.kill_marked(self._mark)
        for process in self._started:
            process.wait()
        self._started = []

    def unfit(self) -> str:
        """Before it is stopped: why this run does not count; "" if it does."""
        return ""

    def processes(self) -> list[psutil.Process]:
        """All that run for it."""
        return processes.marked(self._mark)

    def _run(self, command: Sequence[str]) -> None:
        self._started.append(spawn(command, self.log, environment={**self.environment, processes.MARK: self._mark}))

    def __enter__(self) -> System:
        self.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                assert not (reason := self.unfit()), reason
        finally:
            self.stop()


class Mirror(System):
    """This service at its defaults, record by record; compression and topics are what the job says."""

    name = "mirror"
    more: Mapping[str, object] = {}  # keys of the flow
    spark: Mapping[str, object] = {}  # that section, if it is not the default

    @property
    def file(self) -> Path:
        """Its configuration."""
        return self.job.directory / f"mirror-{self.job.alias}.yaml"

    def configure(self) -> None:
        """Write its configuration."""
        flow = {"source": self.job.alias, "target": "backup", "topics": [self.job.wanted], "data_path": "records"}
        config = {
            "clusters": {
                self.job.alias: {"bootstrap.servers": self.job.reads, **self.job.security},
                "backup": {"bootstrap.servers": self.job.writes, **self.job.security},
            },
            "flows": [{**flow, "compression": self.job.compression, **self.more}],
            "http": {"host": "127.0.0.1", "port": 0},
            "log": {"format": "json"},
            "spark": {**({"master": f"local[{self.job.slots}]"} if self.job.slots else {}), **self.spark},
        }
        self.file.write_text(yaml.safe_dump(config))

    def start(self) -> None:
        """`mirror run`."""
        self.configure()
        self._run([sys.executable, "-m", "mirror", "run", "-c", str(self.file)])

    def events(self, message: str) -> list[dict[str, Any]]:
        """What its log has with this message."""
        lines = (line for line in self.log.read_text(errors="replace").splitlines() if f'"{message}"' in line)
        return [json.loads(line) for line in lines]

    def metrics(self, pattern: re.Pattern[str]) -> Counter[str]:
        """The sums of samples, by the pattern's first group; its second one is the value."""
        port, found = self.events("mirror starts")[-1]["port"], Counter[str]()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            for name, value in pattern.findall(answer.read().decode()):
                found[name] += int(float(value))
        return found


class BatchMirror(Mirror):
    """The same with `data_path: auto`. Batches keep the compression that they have on the source."""

    name = "mirror-auto"
    more: Mapping[str, object] = {"data_path": "auto", "compression": "none"}

    def unfit(self) -> str:
        """A run in which a partition was copied by records does not count."""
        left, paths = {str(each["reason"]) for each in self.events(TAKES_RECORDS)}, self.metrics(PATH)
        if left or paths["records"] or not paths["batches"]:
            return f"partitions were copied by records: {', '.join(sorted(left)) or 'from the beginning'}"
        return ""


class MirrorMaker(System):
    """MirrorMaker 2 in dedicated mode, exactly-once, otherwise at its defaults."""

    name = "mm2"
    tuning: Mapping[str, object] = {}

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._rest = free_port()

    def start(self) -> None:
        """One node."""
        alias, replicas = self.job.alias, min(3, len(self.job.target.brokers))
        file = self.job.directory / f"{self.name}-{alias}.properties"
        properties: dict[str, object] = {
            "clusters": f"{alias}, backup",
            f"{alias}.bootstrap.servers": self.job.reads,
            "backup.bootstrap.servers": self.job.writes,
            f"{alias}->backup.enabled": "true",
            f"{alias}->backup.topics": self.job.wanted,
            f"backup->{alias}.enabled": "false",
            f"backup->{alias}.emit.heartbeats.enabled": "false",
            "backup.exactly.once.source.support": "enabled",
            f"{alias}.consumer.isolation.level": "read_committed",
            "dedicated.mode.enable.internal.rest": "true",
            "listeners": f"http://127.0.0.1:{self._rest}",
            "replication.factor": replicas,
            "refresh.topics.interval.seconds": 10,  # mirror's default; MirrorMaker's is ten minutes
            "tasks.max": self.job.slots or max(2, min(4, sum(self.job.topics.values()))),
            **{f"{topic}.topic.replication.factor": replicas for topic in ("checkpoints", "heartbeats")},
            # This one is on the source.
            "offset-syncs.topic.replication.factor": min(3, len(self.job.source.brokers)),
            **{f"{storage}.storage.replication.factor": replicas for storage in ("offset", "status", "config")},
            "backup.producer.compression.type": self.job.compression,
            **{key.format(source=alias): value for key, value in self.tuning.items()},
        }
        file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
        log4j = self.job.directory / "mm2-log4j2.properties"
        log4j.write_text("rootLogger.level = error\n")
        options = ["-Xms256m", "-Xmx2g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]  # its own script's
        options.append(f"-Dlog4j2.configurationFile={log4j}")
        main = "org.apache.kafka.connect.mirror.MirrorMaker"
        self._run([java(), *options, "-cp", classpath(MIRROR_MAKER), main, str(file)])


class TunedMirrorMaker(MirrorMaker):
    """MirrorMaker 2 exactly-once at the best tuning found: see docs/performance.md."""

    name = "mm2-tuned"
    tuning: Mapping[str, object] = {
        "tasks.max": 2,
        "{source}.consumer.max.poll.records": 20000,
        "{source}.consumer.max.partition.fetch.bytes": 8388608,
        "{source}.consumer.fetch.max.bytes": 67108864,
        "{source}.consumer.receive.buffer.bytes": 1048576,
        "backup.producer.batch.size": 1048576,
        "backup.producer.buffer.memory": 134217728,
        "backup.producer.max.request.size": 16777216,
        "backup.producer.send.buffer.bytes": 1048576,
    }


class Limit(System):
    """The limit: processes that consume and produce, without transactions, offsets or Spark."""

    name = "limit"
    module = "tests.bench.limit"
    most = os.cpu_count() or 1  # processes

    def start(self) -> None:
        """Start one process for each core, each with its share of the partitions."""
        partitions = [(topic, number) for topic, count in self.job.topics.items() for number in range(count)]
        for topic, count in self.job.topics.items():
            topics.create(self.job.target.bootstrap, self.job.remote(topic), count)
        count = min(self.most, len(partitions))
        for index in range(count):
            share = [[topic, number, self.job.remote(topic)] for topic, number in partitions[index::count]]
            settings = [self.job.source.bootstrap, self.job.target.bootstrap, self.job.compression]
            self._run([sys.executable, "-m", self.module, *settings, json.dumps(share)])


class BrokersAlone(Limit):
    """The brokers' own limit: all is fetched again and written in ready-made requests, by a process that only waits."""

    name = "brokers"
    module = "tests.bench.brokers_alone"
    most = 1  # its partitions begin together


# What was tried for it, each over the rest of the tuning: `python -m tests.bench tuning`.
CANDIDATES: Mapping[str, Mapping[str, object]] = {
    "tasks.max = 1": {"tasks.max": 1},
    "tasks.max = 2": {"tasks.max": 2},
    "tasks.max = 4": {"tasks.max": 4},
    "tasks.max = 4, max.poll.records = 5000": {"tasks.max": 4, "{source}.consumer.max.poll.records": 5000},
    "tasks.max = 4, producer linger.ms = 20": {"tasks.max": 4, "backup.producer.linger.ms": 20},
    "tasks.max = 4, fetch.min.bytes = 1 MiB": {"tasks.max": 4, "{source}.consumer.fetch.min.bytes": 1048576},
}


def candidate(words: str) -> type[TunedMirrorMaker]:
    """MirrorMaker 2 with one of the tunings that were tried."""
    more = {"name": f"mm2-candidate-{list(CANDIDATES).index(words)}"}
    return type("Candidate", (TunedMirrorMaker,), {**more, "tuning": {**TunedMirrorMaker.tuning, **CANDIDATES[words]}})


SYSTEMS: dict[str, Callable[[Job], System]] = {
    s.name: s for s in (Mirror, BatchMirror, MirrorMaker, TunedMirrorMaker, Limit, BrokersAlone)
}
