"""How throughput grows with a Spark cluster: executors held to a tenth of a core each, so that brokers are no limit.

A paused flow gets its executors first, because Java starts with more than that. Then they are limited, and it resumes.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

import psutil

from tests.bench import catch_up
from tests.bench.catch_up import Count, Load
from tests.bench.job import Job
from tests.bench.systems import BatchMirror, Mirror
from tests.harness.cpu_limit import limited
from tests.harness.installed import HERE
from tests.harness.spark_cluster import SparkCluster
from tests.harness.waiting import until

Result = dict[str, object]

SHARE = 0.1  # cores of each executor
IDLE = 20.0  # seconds
LATE = 600.0  # seconds
PAUSED = re.compile(r'mirror_partitions\{.*state="(paused)".*\} (\S+)')
# Where a record costs more, fewer are enough.
LOADS: Mapping[type[Mirror], Load] = {
    BatchMirror: Load(6_000_000, partitions=8, batch_bytes=16_384),
    Mirror: Load(2_000_000, partitions=8, batch_bytes=16_384),
}


class Seen:
    """CPU seconds, and the records of the flow's status topic, until now."""

    def __init__(self, system: Mirror, executors: Iterable[psutil.Process], status: Count) -> None:
        self.at = time.monotonic()
        self.executors, self.service, self.machine = _cpu(executors), _cpu(system.processes()), _busy()
        self.reports = status.now()

    def since(self, before: Seen) -> Result:
        """What has come since then, for each second."""
        seconds = self.at - before.at
        return {
            "executor_cores": (self.executors - before.executors) / seconds,
            "service_cores": (self.service - before.service) / seconds,
            "machine_cores": (self.machine - before.machine) / seconds,
            "reports_per_s": (self.reports - before.reports) / seconds,
        }


def measure(kind: type[Mirror], job: Job, load: Load, tasks: int) -> Result:
    """Copy the load with so many executors, each with a task."""
    with tempfile.TemporaryDirectory(dir=job.directory) as directory, SparkCluster(Path(directory), tasks) as cluster:
        system = kind(job)
        system.spark = cluster.settings
        system.configure()
        HERE.run("pause", "-c", system.file)
        with system:
            executors = _await_executors(system, cluster, load, tasks)
            with contextlib.ExitStack() as limits:
                for tree in executors:
                    limits.enter_context(limited(tree, SHARE))
                found = _copied(system, load, list(chain.from_iterable(executors)))
    if wrong := catch_up.missing(job.target.bootstrap, job.remote(load.topic), load):
        raise AssertionError(f"{system.name}: {wrong}")
    return found


def _await_executors(system: Mirror, cluster: SparkCluster, load: Load, tasks: int) -> list[list[psutil.Process]]:
    """All processes of each executor, once each has a task, and all partitions are paused."""

    def ready() -> bool:
        workers = list(cluster.executors().values())
        return len(workers) == tasks and all(workers) and system.metrics(PAUSED)["paused"] == load.partitions

    until("paused in all executors", ready, LATE)
    roots = map(psutil.Process, cluster.executors())
    return [[root, *root.children(recursive=True)] for root in roots]


def _copied(system: Mirror, load: Load, executors: Sequence[psutil.Process]) -> Result:
    """What is used while all is paused, and while the load is copied."""
    target, remote = system.job.target.bootstrap, system.job.remote(load.topic)
    status = Count(target, f"mirror-status.{system.job.alias}.internal", 1)
    status.now()  # the first answer is 0
    idle = Seen(system, executors, status)
    time.sleep(IDLE)
    resumed = Seen(system, executors, status)
    HERE.run("resume", "-c", system.file, "--timeout", "0")
    begun = Seen(system, executors, status)
    samples = catch_up.watched(system.name, Count(target, remote, load.partitions), load, lambda _: None)
    ended = Seen(system, executors, status)
    rate = catch_up.sustained(samples, load)
    return {
        "idle": resumed.since(idle),
        "active": ended.since(begun),
        "records_per_s": rate,
        "bytes_per_s": rate * load.size,
    }


def _cpu(processes: Iterable[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return sum(each.user + each.system for each in times)


def _busy() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait)
