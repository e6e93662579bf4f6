"""kill -9 at random moments under load, and a task that wakes up after it was superseded.

MIRROR_SEED=<seed> repeats the run that printed it.
"""

from __future__ import annotations

import math
import os
import random
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.failpoints.arm import Failpoints
from tests.harness.load import Load, mixed
from tests.harness.pair import Pair
from tests.harness.seeds import seed
from tests.harness.service import Service
from tests.harness.waiting import until

pytestmark = pytest.mark.long

RATE = 150  # records per second of each load


def await_progress(service: Service, records: int = 150) -> None:
    """Wait until it has copied so many more. It may have been started just now."""
    before = service.metric("mirror_source_records_total")
    wanted = records + (0 if math.isnan(before) else before)
    service.wait_for("progress", lambda: service.metric("mirror_source_records_total") > wanted)


def assert_ended_tidily(*services: Service) -> None:
    """No process is left, and nothing was said but log lines and perhaps the reason of the end."""
    until("no process left", lambda: not any(service.processes() for service in services))
    for service in services:
        assert service.noise in ([], service.lines[-1:]), service.tail()


def kill_worker(service: Service, rng: random.Random) -> None:
    """The service replaces it by itself."""
    before = service.worker_pids()
    victim = rng.choice(before)
    print(f"kill -9 worker {victim}")
    os.kill(victim, signal.SIGKILL)
    service.wait_for("another worker", lambda: set(service.worker_pids()) - set(before))


def kill_service(service: Service) -> None:
    """Its JVM and workers end by themselves, a little later."""
    print(f"kill -9 service {service.pid}")
    service.kill()


def kill_jvm(service: Service) -> None:
    """The service says so in one line, and ends."""
    print(f"kill -9 JVM {service.jvm_pid}")
    os.kill(service.jvm_pid, signal.SIGKILL)
    assert service.wait() == 1, service.tail()
    assert "Spark's JVM is gone" in service.lines[-1], service.tail()


def test_kills_at_random_moments(pair: Pair, tmp_path: Path) -> None:
    """Once; `make chaos` plays as many rounds as one likes."""
    rng = random.Random(seed())
    plain, transactional = pair.topic("plain", 4), pair.topic("transactional", 2)
    with ExitStack() as stack:
        loads = [
            stack.enter_context(Load(pair.source, {plain: 4}, rate=RATE, make=mixed)),
            stack.enter_context(Load(pair.source, {transactional: 2}, rate=RATE, transaction=20, abort_every=5)),
        ]
        services = [stack.enter_context(pair.service(tmp_path))]
        for victim in rng.sample(("worker", "service", "jvm"), 3):
            await_progress(services[-1])
            time.sleep(rng.uniform(0, 2))  # the random moment
            if victim == "worker":
                kill_worker(services[-1], rng)
                continue
            (kill_service if victim == "service" else kill_jvm)(services[-1])
            services.append(stack.enter_context(pair.service(tmp_path)))
        await_progress(services[-1])
        for load in loads:
            load.stop()
        for topic in (plain, transactional):
            pair.await_same(topic)
        assert services[-1].terminate() == 0
        for topic in (plain, transactional):
            pair.assert_settled(topic)
        assert_ended_tidily(*services)


@pytest.mark.both_paths
def test_a_superseded_task_wakes_up_in_the_middle_of_a_transaction(pair: Pair, tmp_path: Path) -> None:
    failpoints = Failpoints(tmp_path)
    topic = pair.topic("zombie", 2)
    with ExitStack() as stack:
        load = stack.enter_context(Load(pair.source, {topic: 2}, rate=RATE))
        first = stack.enter_context(Service(pair.settings(), tmp_path, failpoints.environment))
        await_progress(first)
        # Everything is in the open transaction but its end.
        worker = failpoints.send("SIGSTOP", "after-offsets")
        others = [process for process in first.processes() if process.pid != worker]
        for process in others:
            process.suspend()
        second = stack.enter_context(pair.service(tmp_path))
        await_progress(second)
        for process in (psutil.Process(worker), *others):
            process.resume()
        assert first.wait() == 3, first.tail()
        assert "another service leads it now" in first.lines[-1]
        assert first.find("the partition is not ours any more"), first.tail()
        await_progress(second)
        load.stop()
        pair.await_same(topic)
        assert second.terminate() == 0
        pair.assert_settled(topic)
        assert_ended_tidily(first, second)
