"""A process that hangs, as after a deadlock in a library, is noticed and replaced: Spark itself would wait for ever."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.failpoints.arm import Failpoints
from tests.harness import processes
from tests.harness.load import Made
from tests.harness.pair import Pair
from tests.harness.service import FLOW_RETRYING, Event, Service
from tests.harness.together import together

pytestmark = pytest.mark.slow

FIRST = [Made(b"key", b"%d" % number) for number in range(100)]
NEXT = [Made(b"key", b"%d" % number) for number in range(100, 300)]
LATE = 150.0  # seconds: it is noticed after one minute


def await_replaced(service: Service, pair: Pair, topic: str) -> None:
    """All that the source has is copied once, and the reason was said once."""
    said = "did not answer: all of its tasks are started again"

    def told() -> list[Event]:
        """A broker that does not answer on a busy machine makes such an event, too, with another reason."""
        return [each for each in service.find(FLOW_RETRYING) if said in each["reason"]]

    service.wait_for("it is told", told, LATE)
    pair.await_same(topic)
    assert len(told()) == 1
    assert service.terminate() == 0, service.tail()
    pair.assert_settled(topic)


def test_what_hangs_is_replaced(pair: Pair, tmp_path: Path, failpoints: Failpoints) -> None:
    """Two of them take a minute to be noticed, and the other one half a minute."""
    other = tmp_path / "reading"  # a failpoint acts in the service that reaches it first
    other.mkdir()
    together(
        lambda: one_of_two_tasks_hangs(pair, tmp_path),
        lambda: the_planner_hangs(pair.other("planner"), tmp_path, failpoints),
        lambda: reading_hangs(pair.other("reading"), tmp_path, Failpoints(other)),
    )


def one_of_two_tasks_hangs(pair: Pair, directory: Path) -> None:
    """The task hangs in the middle of its life, and another process copies its partition."""
    topic = pair.topic("task", 2)
    with pair.service(directory) as service:
        for partition in range(2):
            pair.produce(topic, *FIRST, partition=partition)
        pair.await_same(topic)
        hung = psutil.Process(service.worker_pids()[0])
        os.kill(hung.pid, signal.SIGSTOP)
        for partition in range(2):
            pair.produce(topic, *NEXT, partition=partition)
        await_replaced(service, pair, topic)
        assert not processes.is_alive(hung)


def reading_hangs(pair: Pair, directory: Path, failpoints: Failpoints) -> None:
    """The thread that polls the source, in a call that never returns: the task itself ends its process."""
    topic = pair.topic("reading", 2)
    with Service(pair.settings(), directory, failpoints.environment) as service:
        for partition in range(2):
            pair.produce(topic, *FIRST, partition=partition)
        pair.await_same(topic)
        hung = psutil.Process(failpoints.send("HANG", "before-poll"))
        for partition in range(2):
            pair.produce(topic, *NEXT, partition=partition)
        event = service.wait_for_event("reading hangs, the task's process is killed", LATE)
        assert event["stack"].startswith("wait (") and " < run (" in event["stack"], event
        pair.await_same(topic)
        assert not processes.is_alive(hung)
        assert service.terminate() == 0, service.tail()
        pair.assert_settled(topic)


def the_planner_hangs(pair: Pair, directory: Path, failpoints: Failpoints) -> None:
    """The planner hangs before the first epoch, so that there are no tasks at all."""
    topic = pair.topic("planner")
    pair.produce(topic, *FIRST)
    with Service(pair.settings(), directory, failpoints.environment) as service:
        hung = psutil.Process(failpoints.send("HANG", "before-epoch"))
        await_replaced(service, pair, topic)
        assert not processes.is_alive(hung)
