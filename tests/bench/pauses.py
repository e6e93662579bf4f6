"""What running partitions feel when a topic is added, and when another node takes over after a kill."""

from __future__ import annotations

import time

from tests.bench import catch_up, live
from tests.bench.systems import System
from tests.harness import topics
from tests.harness.waiting import until


def measure(system: System, path: live.Path, rate: int) -> dict[str, object]:
    """Percentiles of the latency before anything happens, once a topic is added, and after the kill."""
    moments: list[float] = []

    def events() -> None:
        time.sleep(live.WARM_UP)
        moments.append(time.monotonic())
        time.sleep(10)
        moments.append(time.monotonic())
        added = f"{path.topic}-added"
        topics.create(path.source, added, 4)
        until("the added topic", lambda: topics.partitions(path.target, system.job.remote(added)) > 0, 60)
        time.sleep(10)
        moments.append(time.monotonic())
        time.sleep(2)  # what was written by then has come when the kill does
        moments.append(time.monotonic())
        system.kill()
        system.start()
        _await_copying(path, rate)
        moments.append(time.monotonic())

    with system:
        samples = live.observe(path, rate, events)
    steady, added, settled, killed, end = moments
    return {
        "steady": live.percentiles(samples, steady, added),
        "topic_added": live.percentiles(samples, added, settled),
        "after_kill": live.percentiles(samples, killed, end),
    }


def _await_copying(path: live.Path, rate: int) -> None:
    """Wait until as much has come as is written in a few seconds, and a little longer for what has piled up."""
    here = catch_up.Count(path.target, path.remote, path.partitions)
    here.now()
    before = here.now()
    until("the copy goes on", lambda: here.now() > before + 5 * rate, 180)
    time.sleep(5)
