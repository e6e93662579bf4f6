"""A process that hangs, as after a deadlock in a library, is noticed and replaced: Spark itself would wait for ever."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.harness import processes
from tests.harness.load import Made
from tests.harness.pair import Pair
from tests.harness.service import Service

pytestmark = pytest.mark.slow

FIRST = [Made(b"key", b"%d" % number) for number in range(100)]
NEXT = [Made(b"key", b"%d" % number) for number in range(100, 300)]
LATE = 150.0  # seconds: it is noticed after one minute


def await_replaced(service: Service, pair: Pair, topic: str) -> None:
    """All that the source has is copied once, and the reason was said once."""
    event = service.wait_for_event("flow waits and tries again", LATE)
    assert "tasks did not answer: all of its tasks are started again" in event["reason"]
    pair.await_same(topic)
    assert len(service.find("flow waits and tries again")) == 1
    assert service.terminate() == 0, service.tail()
    pair.assert_settled(topic)


def planners(service: Service) -> list[psutil.Process]:
    """Those that have been connected to: before that, Spark itself has a deadline."""
    found = [p for p in service.processes() if processes.command_holds(p, "python_streaming_source_runner")]
    return [planner for planner in found if planner.net_connections("tcp")]


def test_one_of_two_tasks_hangs(pair: Pair, tmp_path: Path) -> None:
    """In the middle of its life; its partition is copied by another process."""
    topic = pair.topic("task", 2)
    with pair.service(tmp_path) as service:
        for partition in range(2):
            pair.produce(topic, *FIRST, partition=partition)
        pair.await_same(topic)
        hung = service.worker_pids()[0]
        os.kill(hung, signal.SIGSTOP)
        for partition in range(2):
            pair.produce(topic, *NEXT, partition=partition)
        await_replaced(service, pair, topic)
        assert not psutil.pid_exists(hung)


def test_the_planner_hangs(pair: Pair, tmp_path: Path) -> None:
    """Before the first epoch, so that there are no tasks at all."""
    topic = pair.topic("planner")
    pair.produce(topic, *FIRST)
    with pair.service(tmp_path) as service:
        planner = service.wait_for("the planner", lambda: planners(service))[0]
        planner.suspend()
        service.await_plan()
        await_replaced(service, pair, topic)
