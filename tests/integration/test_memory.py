"""A worker's memory has a bound, whatever records are made of."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.harness import oracle
from tests.harness.load import Made
from tests.harness.memory import MIB, bound, peak
from tests.harness.pair import Pair

pytestmark = [pytest.mark.slow, pytest.mark.one_path]

RECORDS, HEADER = 900, 500_000
BATCH = MIB


def test_records_made_of_headers(pair: Pair, tmp_path: Path) -> None:
    """librdkafka does not count headers when it says how much it has."""
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
        assert grown < bound(HEADER, BATCH), f"by {grown / MIB:.0f} MiB"
