"""Faults of mirror's own processes and of what they stand on."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from tests.chaos.arena import TRANSACTION_TIMEOUT, Arena
from tests.chaos.matrix import row
from tests.chaos.recorder import Recorder
from tests.harness import topics
from tests.harness.service import OWN_AGAIN, PLANNED
from tests.harness.spark_cluster import SparkCluster
from tests.harness.waiting import PATIENCE, until

STEPS = ("before-produce", "after-produce", "after-offsets", "after-commit")


def _await_worker(arena: Arena) -> list[int]:
    """Wait for workers that copy, and return them. Spark may keep others, which have nothing to do."""
    ports = {int(address.rpartition(":")[2]) for address in arena.target_proxy.bootstrap.split(",")}

    def copies(pid: int) -> bool:
        with contextlib.suppress(psutil.Error):
            return any(each.raddr and each.raddr[1] in ports for each in psutil.Process(pid).net_connections())
        return False

    return until("workers", lambda: list(filter(copies, arena.service.worker_pids())), PATIENCE)


def go_on(victim: int) -> None:
    """Have a stopped process run again."""
    with contextlib.suppress(ProcessLookupError):  # Spark may have given it up
        os.kill(victim, signal.SIGCONT)


def _start(arena: Arena, recorder: Recorder, environment: Mapping[str, str] | None = None, **more: Any) -> None:
    """Start another service, as `Arena.start_service` does, and wait until it leads.

    A busy machine may take minutes for that, so there is PATIENCE. Only after it progress is waited for.
    """
    arena.start_service(environment, **more).await_plan()
    recorder.heals()


@row("1 kill -9 a worker at a step of a transaction")
def worker_at_step(arena: Arena, rng: random.Random, _: Recorder) -> None:
    arena.failpoints.send("SIGKILL", rng.choice(STEPS), nth=rng.randint(1, 5))


@row("1 kill -9 a worker at any moment")
def worker(arena: Arena, rng: random.Random, _: Recorder) -> None:
    os.kill(rng.choice(_await_worker(arena)), signal.SIGKILL)


def every_worker(arena: Arena) -> None:
    """Kill all workers that copy. One alone may be of a slice that has only topics of recordings that are over."""
    for victim in _await_worker(arena):
        with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(victim, signal.SIGKILL)


@row("3 kill -9 the service, start another")
def service(arena: Arena, _: random.Random, recorder: Recorder) -> None:
    arena.service.kill()
    _start(arena, recorder)


@row("2, 3 kill -9 Spark's JVM: driver and executor")
def jvm(arena: Arena, _: random.Random, recorder: Recorder) -> None:
    os.kill(arena.service.jvm_pid, signal.SIGKILL)
    assert arena.service.wait() == 1, arena.service.tail()
    _start(arena, recorder)


@row("2 kill -9 an executor of a Spark cluster", everywhere=False)
def executor(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    assert arena.service.terminate() == 0, arena.service.tail()
    place = Path(tempfile.mkdtemp(prefix="spark-", dir=arena.directory))
    with SparkCluster(place, workers=2) as cluster:
        arena.start_service(spark=cluster.settings)
        recorder.await_beyond()
        before = cluster.executors()
        cluster.kill(rng.choice(sorted(before)))
        recorder.await_progress()
        until("another executor", lambda: cluster.executors().keys() - before.keys(), PATIENCE)
        assert arena.service.terminate() == 0, arena.service.tail()
    _start(arena, recorder)


@row("4 Spark's checkpoint is lost, or an old one comes back; a worker is killed, or all starts anew")
def checkpoint(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    def found() -> list[Path]:
        return list(arena.temporary.glob("mirror-*/checkpoint-*"))

    old = Path(tempfile.mkdtemp(prefix="checkpoint-", dir=arena.directory))
    for directory in found():
        shutil.copytree(directory, old, dirs_exist_ok=True)
    assert arena.service.terminate() == 0, arena.service.tail()
    arena.start_service()
    until("a checkpoint", found)
    recorder.await_progress()
    for directory in found():
        shutil.rmtree(directory)
        if rng.random() < 0.5:
            shutil.copytree(old, directory)
    if rng.random() < 0.5:
        worker(arena, rng, recorder)
    else:  # Spark meets what is left of it as the query ends, and the next one begins
        assert arena.service.terminate() == 0, arena.service.tail()
        _start(arena, recorder)


@row("6 a worker hangs for longer than a transaction may last")
def worker_hangs(arena: Arena, rng: random.Random, _: Recorder) -> None:
    victim = rng.choice(_await_worker(arena))
    os.kill(victim, signal.SIGSTOP)
    time.sleep(TRANSACTION_TIMEOUT + rng.uniform(0, 4))
    go_on(victim)


@row("6 a worker hangs at a step of a transaction, for longer than it may last")
def worker_hangs_at_step(arena: Arena, rng: random.Random, _: Recorder) -> None:
    victim = arena.failpoints.send("SIGSTOP", rng.choice(STEPS), nth=rng.randint(1, 5))
    time.sleep(TRANSACTION_TIMEOUT + rng.uniform(0, 4))
    go_on(victim)


@row("23 one of mirror's own topics is deleted, and perhaps a worker killed", everywhere=False)
def own_topics(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    kind = rng.choice(("mirror-control", "mirror-status", "mm2-offset-syncs"))
    topic, since = f"{kind}.{arena.pair.alias}.internal", len(arena.service.events)
    print(f"   {topic}", flush=True)
    before = topics.topic_id(arena.pair.target, topic)
    topics.delete(arena.pair.target, topic)
    if rng.random() < 0.5:  # another has to find the plan
        worker(arena, rng, recorder)
    said = arena.service.wait_for_event(OWN_AGAIN, since=since, topic=topic)
    assert said["topic_id"] != before, said
    recorder.heals()
    if rng.random() < 0.5:
        worker(arena, rng, recorder)


@row("8 a second service with the same configuration")
def second_service(arena: Arena, _: random.Random, recorder: Recorder) -> None:
    first = arena.service
    _start(arena, recorder)
    assert first.wait() == 3, first.tail()


@row("17 the service's disk is full, and its workers killed")
def local_disk_full(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    with arena.local_disk.full():
        worker(arena, rng, recorder)
        recorder.await_progress()  # nothing of the copying itself needs the disk


@row("18 the service's clock is an hour ahead or behind")
def skewed_service(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    assert arena.service.terminate() == 0, arena.service.tail()
    _start(arena, recorder, {"MIRROR_CLOCK_AHEAD": str(rng.choice((-3600, 3600)))})
    said = datetime.fromisoformat(arena.service.events[0]["ts"].replace("Z", "+00:00"))
    assert abs(said.timestamp() - time.time()) > 3_000, said
    recorder.await_progress()
    ages = ("mirror_source_replication_latency_seconds_sum", "mirror_source_record_age_seconds_sum")
    found = [sample for sample in arena.service.metrics() if sample.name in ages]
    assert found and all(sample.value >= 0 for sample in found), found
    if rng.random() < 0.5:  # else the clock jumps at the next start
        assert arena.service.terminate() == 0, arena.service.tail()
        _start(arena, recorder)


@row("22 another number of tasks")
def rescale(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    plan = until("a plan", lambda: arena.service.find(PLANNED), PATIENCE)[-1]
    if rng.random() < 0.5:
        arena.service.kill()
    else:
        assert arena.service.terminate() == 0, arena.service.tail()
    wanted = 1 if plan["slices"] > 1 else 2
    _start(arena, recorder, tasks_max=wanted)
    arena.service.wait_for("another number", lambda: arena.service.find(PLANNED, slices=wanted))
