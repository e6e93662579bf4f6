"""Many partitions: what they take, idle and while records come, and how late the records are then."""

from __future__ import annotations

import time
from functools import partial

from tests.bench import catch_up, live
from tests.bench.systems import System
from tests.bench.usage import Usage
from tests.harness import topics
from tests.harness.waiting import until

Result = dict[str, object]

WATCHED = 200  # partitions that are read: a reader of ten thousand would take what the systems need
SETTLE = 0.015  # seconds for each partition, after its remote partition was created; all together at least WARM_UP
WARM_UP = 15.0  # seconds
LATE = 600.0  # seconds


def measure(system: System, path: live.Path, interval: float) -> Result:
    """`interval`: seconds from one record of a partition to the next."""
    remote = {system.job.remote(topic): count for topic, count in system.job.topics.items()}
    with system, live.writing(path, path.partitions / interval) as (full, finish):
        there = partial(topics.partitions, path.target)
        until("all partitions", lambda: sum(map(there, remote)) == path.partitions, LATE)
        time.sleep(max(WARM_UP, SETTLE * path.partitions))
        idle = _used(system, 10.0)
        with live.reading(path) as (_, all_of):
            full.set()
            time.sleep(max(WARM_UP, 2 * interval))
            begun = time.monotonic()
            active = _used(system, max(30.0, 3 * interval))
            ended = time.monotonic()
            sent = finish()
            found = live.percentiles(all_of(sent), begun, ended)
        here = [catch_up.Count(path.target, *each) for each in remote.items()]
        until("all records", lambda: sum(each.now() for each in here) >= sent, LATE)
    return {"idle": idle, "active": {**active, **found}}


def _used(system: System, seconds: float) -> Result:
    """What it uses in so many seconds."""
    before, begun = Usage(system), time.monotonic()
    before.look(0)
    time.sleep(seconds)
    after = Usage(system)
    after.look(0)
    found = [p.num_threads() for p in system.processes()]
    share = (after.cpu - before.cpu) / (time.monotonic() - begun)
    return {"memory_bytes": after.peak, "cores": round(share, 3), "threads": sum(found), "processes": len(found)}
