"""A worker's memory has a bound, whatever records are made of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from mirror.demo.brokers import LocalCluster
from tests.harness import oracle, topics
from tests.harness.load import Made, produce
from tests.harness.memory import MIB, bound, peak
from tests.harness.pair import Pair

pytestmark = [pytest.mark.slow, pytest.mark.one_path]

RECORDS, HEADER = 900, 500_000
BATCH = MIB
PARTITIONS = 4
LOOKED = 100 * MIB  # by which a look at records may let a process grow; all of them are far more

# What the flow leader and tasks find out of a remote topic: in a process of its own, whose memory can be told.
LOOK = """
import os, sys
from mirror.groups.record_counter import RecordCounter
from mirror.model import Partition
from mirror.settings import Cluster
from mirror.target.remote_records import count_between, with_records
from tests.harness.memory import peak
from types import SimpleNamespace

bootstrap, topic, partitions, records = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
flow = SimpleNamespace(target=Cluster("backup", {"bootstrap.servers": bootstrap}, {}, {}), group="looks")
every = [(topic, number) for number in range(partitions)]
before = peak(os.getpid())
assert with_records(flow, every) == set(every)
assert count_between(flow, every[0], 0, records, records) == records
counter = RecordCounter(flow)
assert len(counter.offsets(Partition(*every[0]), 0, None, records).offsets) == records
print(peak(os.getpid()) - before)
"""


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
        service.wait_for("all of them", lambda: (oracle.committed_position(*known) or 0) > RECORDS)
        assert service.worker_pids() == sorted(before)
        copied = len(b"keyfirst") + RECORDS * len(b"keyvaluename") + RECORDS * HEADER
        service.wait_for("counted", lambda: service.metric("mirror_source_bytes_total", topic=topic) == copied)
        grown = max(peak(worker) - rss for worker, rss in before.items())
        assert grown < bound(HEADER, BATCH), f"by {grown / MIB:.0f} MiB"


def test_a_look_at_records_made_of_headers(target_cluster: LocalCluster, prefix: str) -> None:
    """Their compression makes them small where a broker counts what it sends."""
    topic = topics.create(target_cluster.bootstrap, f"{prefix}looked-at", PARTITIONS, compression_type="zstd")
    records = RECORDS // PARTITIONS
    for partition in range(PARTITIONS):
        made = [Made(b"key", b"value", [("name", bytes(HEADER))])] * records
        produce(target_cluster.bootstrap, topic, made, partition)
    command = [sys.executable, "-c", LOOK, target_cluster.bootstrap, topic, str(PARTITIONS), str(records)]
    grown = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert grown < LOOKED, f"by {grown / MIB:.0f} MiB"
