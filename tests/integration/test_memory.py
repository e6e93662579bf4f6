"""A worker's memory has a bound, whatever records are made of."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.harness import oracle
from tests.harness.load import Made
from tests.harness.pair import Pair

pytestmark = pytest.mark.slow

MIB = 2**20
RECORDS, HEADER = 900, 500_000
BATCH = MIB
# As docs/design.md says, of a task with one partition and one broker of the source; allocators may keep half as much.
QUEUE = 100 * HEADER + 8 * MIB  # in librdkafka, and once more where the buffer is overshot
BOUND = 1.5 * (2 * BATCH + QUEUE + QUEUE + 2 * BATCH)


def peak(pid: int) -> int:
    """The most memory that a process has had so far, bytes."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def test_records_made_of_headers(pair: Pair, tmp_path: Path) -> None:
    """Which librdkafka does not count when it says how much it has."""
    with pair.service(tmp_path, {"batch_max_bytes": BATCH, "tasks_max": 1}) as service:
        topic = pair.topic("headers")
        pair.produce(topic, Made(b"key", b"first"))
        pair.await_same(topic)
        before = {worker: psutil.Process(worker).memory_info().rss for worker in service.worker_pids()}
        with service.workers_stopped():
            for _ in range(RECORDS // 100):
                pair.produce(topic, *[Made(b"key", b"value", [("name", bytes(HEADER))])] * 100)
        known = (pair.target, pair.group, pair.remote(topic), 0)
        service.wait_for("all of them", lambda: (oracle.committed_position(*known) or 0) > RECORDS, 120)
        assert service.worker_pids() == sorted(before)
        copied = len(b"keyfirst") + RECORDS * len(b"keyvaluename") + RECORDS * HEADER
        service.wait_for("counted", lambda: service.metric("mirror_source_bytes_total", topic=topic) == copied)
        grown = max(peak(worker) - rss for worker, rss in before.items())
        assert grown < BOUND, f"by {grown / MIB:.0f} MiB"
