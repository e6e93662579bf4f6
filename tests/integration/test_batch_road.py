"""The batch path: whole batches, exactly once, whoever wrote them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

import pytest

from mirror.demo.brokers import LocalCluster
from mirror.demo.kafka_jars import TOOLS, classpath
from mirror.source.batch_fetcher import Memory
from mirror.spark.java import java
from mirror.target.offset_syncs import OffsetSync
from mirror.task import batch_copier
from tests.harness import load, oracle, topics
from tests.harness.load import Load, Made, mixed
from tests.harness.road import Road

pytestmark = pytest.mark.slow


@pytest.fixture
def road(source_cluster: LocalCluster, target_cluster: LocalCluster, prefix: str) -> Road:
    return between(source_cluster, target_cluster, prefix)


def between(source: LocalCluster, target: LocalCluster, prefix: str) -> Road:
    topic = topics.create(source.bootstrap, f"{prefix}t", retention_ms=-1)
    remote = topics.create(target.bootstrap, f"{prefix}r", retention_ms=-1)
    own = topics.create(target.bootstrap, f"{prefix}own", retention_ms=-1)
    return Road(source.bootstrap, target.bootstrap, topic, remote, own)


def java_produces(bootstrap: str, topic: str, codec: str, count: int) -> None:
    """Java's client writes what it reads as lines."""
    lines = "".join(f"k{number}\tv{number}{'.' * (number % 50)}\n" for number in range(count))
    command = [java(), "-cp", f"{classpath()}:{classpath(TOOLS)}", "org.apache.kafka.tools.ConsoleProducer"]
    command += ["--bootstrap-server", bootstrap, "--topic", topic, "--reader-property", "parse.key=true"]
    command += ["--compression-codec", codec, "--batch-size", "2000"]
    subprocess.run(command, input=lines, text=True, check=True, capture_output=True, timeout=120)


def assert_copied(road: Road) -> None:
    """Every record once, in order; and each sync names a record and its copy."""
    source = oracle.read(road.source, road.topic)
    remote = oracle.read(road.target, road.remote)
    oracle.compare(source, remote)
    upstream = {each.offset: each.content for each in source[0]}
    downstream = {each.offset: each.content for each in remote[0]}
    found = [OffsetSync.decode(each.key or b"", each.value or b"") for each in oracle.read(road.target, road.own)[0]]
    assert found and all(upstream[each.upstream] == downstream[each.downstream] for each in found)


def test_batches_of_every_codec_and_client(road: Road) -> None:
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        records = [mixed(number) for number in range(2_000)]
        load.produce(road.source, road.topic, records, compression_type=codec, batch_size=5_000)
        java_produces(road.source, road.topic, codec, 500)
    road.copy_all()
    assert not road.left and not road.failures
    assert_copied(road)


def test_nothing_of_aborted_transactions_arrives(road: Road) -> None:
    """The position moves past what is not copied, and the copy is live."""
    with Load(road.source, {road.topic: 1}, transaction=20, abort_every=3) as running:
        road.run(lambda: running.counts.total >= 600)
        running.stop()
        assert running.counts.aborted.total() > 100
    wanted = oracle.count(oracle.read(road.source, road.topic))
    road.copied = oracle.count(oracle.read(road.target, road.remote))
    road.run(lambda: road.copied >= wanted)
    assert_copied(road)
    oracle.assert_positions(road.source, road.target, road.topic, road.remote, road.group)


def some_time_after(condition: Callable[[], bool], seconds: float) -> Callable[[], bool]:
    """So long after it came true. The next transaction's first batch waits until the markers of the last one stand."""
    since: list[float] = []

    def passed() -> bool:
        if not since and condition():
            since.append(time.monotonic())
        return bool(since) and time.monotonic() >= since[0] + seconds

    return passed


def test_a_copier_that_is_stopped_anywhere_goes_on(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of transactions, again and again: the next owner fences, loads and seeks."""
    monkeypatch.setattr(batch_copier, "TRANSACTION_MAX", 100_000)
    records = [Made(b"%d" % number, b"v" * 100) for number in range(50_000)]
    load.produce(road.source, road.topic, records, batch_size=8_000)
    road.memory = Memory(partition_answer=60_000)
    left_open = rounds = 0
    while left_open < 3:
        rounds += 1
        road.run(some_time_after(lambda enough=road.copied + 500: road.copied >= enough, rounds % 10 * 0.006))  # type: ignore[misc]
        left_open += bool(oracle.hanging(road.target, road.remote))
        road.copied = oracle.count(oracle.read(road.target, road.remote))
        assert road.copied < len(records)
    road.run(lambda: road.copied >= len(records))
    assert_copied(road)
    assert not oracle.hanging(road.target, road.remote)


def test_what_leaves_the_road(source_cluster: LocalCluster, target_cluster: LocalCluster, prefix: str) -> None:
    """At the first batch that does not fit. What is before it is copied."""
    cases: dict[str, tuple[Made, dict[str, object]]] = {
        "too_large": (Made(b"large", b"x" * 20_000), {}),
        "log_append_time": (Made(b"late", b"x"), {"message_timestamp_type": "LogAppendTime"}),
    }
    for reason, (made, config) in cases.items():
        road = between(source_cluster, target_cluster, f"{prefix}{reason}-")
        road.largest = 10_000
        load.produce(road.source, road.topic, [mixed(number) for number in range(100)])
        if config:
            topics.configure(road.source, road.topic, **config)
        load.produce(road.source, road.topic, [made])
        road.run(lambda road=road: bool(road.left))  # type: ignore[misc]
        assert (road.left[0].reason, road.left[0].at) == (reason, 100)
        assert oracle.count(oracle.read(road.target, road.remote)) == 100
        assert oracle.committed_position(road.target, road.group, road.remote, 0) == 100
