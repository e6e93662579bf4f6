"""Replication latency at a steady rate, perhaps while another topic catches up."""

from __future__ import annotations

import time

from tests.bench import catch_up, live
from tests.bench.catch_up import Load
from tests.bench.job import Job
from tests.bench.systems import System
from tests.bench.usage import Usage

MEASURED = 30.0  # seconds
BUSY_WARM_UP = 5.0  # seconds: the other topic keeps everything hot


def measure(system: System, path: live.Path, rate: int, busy: Load | None = None) -> dict[str, object]:
    """Percentiles at `rate` records/s, and the memory; `busy` is the topic that catches up meanwhile."""
    moments: list[float] = []
    with system:
        usage = Usage(system)

        def steady() -> None:
            for seconds in (BUSY_WARM_UP if busy else live.WARM_UP, MEASURED):
                time.sleep(seconds)
                moments.append(time.monotonic())
            usage.look(0)
            if busy is not None:
                come = _count(system.job, busy)
                assert come < busy.records, "the other topic has caught up too soon"

        samples = live.observe(path, rate, steady)
    return {**live.percentiles(samples, *moments), "memory_bytes": usage.peak}


def _count(job: Job, load: Load) -> int:
    here = catch_up.Count(job.target.bootstrap, job.remote(load.topic), load.partitions)
    here.now()
    return here.now()
