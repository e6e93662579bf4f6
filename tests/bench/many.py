"""Many partitions: what they take, idle and while records come, and how late the records are then."""

from __future__ import annotations

import contextlib
import time
from functools import partial

import psutil

from tests.bench import catch_up, live
from tests.bench.systems import System
from tests.bench.usage import Usage
from tests.harness import topics
from tests.harness.waiting import until

Result = dict[str, object]

WATCHED = 200  # partitions that are read: a reader of ten thousand would take what the systems need
SETTLE = 0.015  # seconds for each partition, after its remote partition was created; all together at least WARM_UP
WARM_UP = 15.0  # seconds
# Seconds for each partition, and at most: cold brokers take long for the first transactions of so many. Records that
# wait for that have to have come.
CATCHES_UP, CATCHES_UP_MAX = 0.15, 300.0
LATE = 600.0  # seconds


def measure(system: System, path: live.Path, interval: float) -> Result:
    """`interval`: seconds from one record of a partition to the next."""
    remote = {system.job.remote(topic): count for topic, count in system.job.topics.items()}
    with system, live.writing(path, path.partitions / interval) as (full, finish):
        there = partial(topics.partitions, path.target)
        until("all partitions", lambda: sum(map(there, remote)) == path.partitions, LATE)
        time.sleep(max(WARM_UP, SETTLE * path.partitions))
        idle = _used(system, path, 10.0)
        with live.reading(path) as (_, all_of):
            full.set()
            time.sleep(max(WARM_UP, 2 * interval, min(CATCHES_UP_MAX, CATCHES_UP * path.partitions)))
            begun = time.monotonic()
            active = _used(system, path, max(30.0, 3 * interval))
            ended = time.monotonic()
            sent = finish()
            found = live.percentiles(all_of(sent), begun, ended)
        here = [catch_up.Count(path.target, *each) for each in remote.items()]
        until("all records", lambda: sum(each.now() for each in here) >= sent, LATE)
    return {"idle": idle, "active": {**active, **found}}


def _used(system: System, path: live.Path, seconds: float) -> Result:
    """What it uses in so many seconds; threads and connections at their end."""
    before, begun = Usage(system), time.monotonic()
    before.look(0)
    time.sleep(seconds)
    after = Usage(system)
    after.look(0)
    found = [p.num_threads() for p in system.processes()]
    share = (after.cpu - before.cpu) / (time.monotonic() - begun)
    return {
        "memory_bytes": after.peak,
        "cores": round(share, 3),
        "threads": sum(found),
        "processes": len(found),
        "connections": _connections(system, path),
    }


def _connections(system: System, path: live.Path) -> int:
    """How many connections to both clusters' brokers it has."""
    ports = {int(address.rpartition(":")[2]) for address in (path.source, path.target)}
    count = 0
    for process in system.processes():
        with contextlib.suppress(psutil.Error):
            count += sum(bool(each.raddr) and each.raddr.port in ports for each in process.net_connections("tcp"))
    return count
