"""A hand-over: a catch-up of whole batches that begins within one, which is copied by records up to its end."""

from __future__ import annotations

import hashlib
import time
from datetime import datetime
from typing import Any

from tests.bench import catch_up
from tests.bench.catch_up import Load
from tests.bench.job import Job
from tests.bench.systems import BatchMirror
from tests.harness import configuration, oracle
from tests.harness.service import TAKES_BATCHES, TAKES_RECORDS
from tests.harness.waiting import until

Result = dict[str, object]

FIRST = 100  # the offset at which copying begins: the first batch has more records
LATE = 1_800.0  # seconds


class BeginsWithin(BatchMirror):
    """Whole batches, after the first one."""

    @property
    def hand_over(self) -> tuple[float, float]:
        """When the partition took the record path, and when the batch path again (s)."""
        (left,), (back,) = self.events(TAKES_RECORDS), self.events(TAKES_BATCHES)
        return _at(left), _at(back)

    def unfit(self) -> str:
        """A run without the hand-over, or with another one, does not count."""
        told = [(each["msg"], each["reason"]) for name in (TAKES_RECORDS, TAKES_BATCHES) for each in self.events(name)]
        wanted = [(TAKES_RECORDS, "position_within_batch"), (TAKES_BATCHES, "")]
        return "" if told == wanted else f"the changes of the path: {told}"


def measure(job: Job, load: Load, since: int) -> Result:
    """Copy a topic with one partition, whose records have a time each millisecond from `since` (ms) on."""
    remote, group = job.remote(load.topic), configuration.group(job.alias, "backup")
    system = BeginsWithin(job)
    system.more = {**BeginsWithin.more, "start": str(since + FIRST)}
    started = time.time()

    def position() -> int:
        return oracle.committed_position(job.target.bootstrap, group, remote, 0) or 0

    with system:
        until("all is copied", lambda: position() >= load.records, LATE)
        ended = time.time()
    left, back = system.hand_over
    here, there = _seen(job.source.bootstrap, load.topic, FIRST), _seen(job.target.bootstrap, remote)
    assert here[0] == load.records - FIRST, f"the source has {here[0]:,} records from offset {FIRST} on"
    assert here == there, f"{here[0]:,} records on the source, {there[0]:,} on the target, or not the same ones"
    return {"copied": there[0], "batches_s": back - started, "by_records_s": back - left, "all_s": ended - started}


def _at(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["ts"]).timestamp()


def _seen(bootstrap: str, topic: str, first: int = 0) -> tuple[int, str]:
    """How many records there are from an offset on, and a digest of all in their order."""
    digest, count = hashlib.sha256(), 0
    for each in catch_up.records(bootstrap, topic, 1, first):
        digest.update(repr((each.key(), each.value(), each.headers(), each.timestamp())).encode())
        count += 1
    return count, digest.hexdigest()
