"""What an operator has to hear of: a transaction that stays open on the source, and tasks that were lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from mirror.demo.brokers import LocalCluster
from mirror.kafka.renewed import Renewed
from mirror.model import Partition
from mirror.settings import Cluster
from mirror.source.batch_feed import Feed
from mirror.source.batch_fetcher import BatchFetcher
from mirror.source.end_offsets import Hold, SourceEnds
from mirror.wire import cluster
from mirror.wire.access import access
from mirror.wire.fetch import TopicKey
from mirror.wire.metadata import id_of
from tests.harness import oracle, topics
from tests.harness.command import answer
from tests.harness.load import Made, producer
from tests.harness.otlp_collector import OtlpCollector
from tests.harness.pair import Pair
from tests.harness.service import Event, Service
from tests.harness.waiting import PATIENCE, until

WARN_AFTER = 2.0  # seconds
ASK_AFTER = 1.0  # seconds
STUCK = "mirror_source_stable_offset_stuck_seconds"
LOST = "task lost, another one has taken its slice over"


@pytest.fixture(scope="module")
def flow(source_cluster: LocalCluster, target_cluster: LocalCluster, data_path: str) -> Pair:
    """A flow that begins with one topic of one partition, and so with two tasks: fewer than Spark has cores for."""
    unique = uuid.uuid4().hex[:6]
    pair = Pair(source_cluster.bootstrap, target_cluster.bootstrap, f"s{unique}", f"signals-{unique}-").by(data_path)
    pair.topic("one")
    return pair


@pytest.fixture(scope="module")
def collector() -> Iterator[OtlpCollector]:
    with OtlpCollector() as running:
        yield running


@pytest.fixture(scope="module")
def service(flow: Pair, collector: OtlpCollector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    settings = {"open_transaction_warn_after": f"{WARN_AFTER:g}s"}
    top = {"spark": {"master": "local[4]"}, "metrics": {"otlp": {"endpoint": collector.endpoint, "interval": "1h"}}}
    with flow.service(tmp_path_factory.mktemp("signals"), settings, **top) as running:
        yield running
        flow.assert_path(running)
        assert running.terminate() == 0, running.tail()
        assert not running.noise


@contextlib.contextmanager
def open_transaction(bootstrap: str, topic: str, records: int, partition: int = 0) -> Iterator[Producer]:
    """One that stays open until the caller ends it."""
    name = f"test-{uuid.uuid4().hex}"
    to = producer(bootstrap, transactional_id=name, message_timeout_ms=30_000, transaction_timeout_ms=900_000)
    to.init_transactions(30)
    to.begin_transaction()
    for number in range(records):
        to.produce(topic, b"open %d" % number, partition=partition)
    assert to.flush(30) == 0
    yield to


def reported(service: Service) -> dict[str, Any]:
    """The first partition in `mirror status --json`."""
    view = answer("status", "-c", service.file)["flows"][0]
    assert view["well"], view
    return next(p for p in view["partitions"] if p["partition"] == 0)


def test_metrics_are_pushed_too_as_often_as_a_reload_says(
    flow: Pair, service: Service, collector: OtlpCollector
) -> None:
    assert not collector.pushed
    service.rewrite(service.file.read_text().replace("interval: 1h", "interval: 1s"))
    assert service.wait_for_event("configuration reloaded")["changed"] == "metrics.otlp.interval"
    flow.produce(flow.prefix + "one", Made(None, b"pushed"))

    def pushed() -> list[float]:
        records = collector.pushed[-1].get("mirror_source_records") if collector.pushed else None
        return [point.as_double for point in records.sum.data_points] if records else []

    until("one record", lambda: pushed() == [1.0])
    scraped = {sample.name.removesuffix("_total") for sample in service.metrics()}
    (latency,) = collector.pushed[-1]["mirror_source_replication_latency_seconds"].histogram.data_points
    assert collector.resources[-1]["service.name"] == "mirror"
    assert latency.count == sum(latency.bucket_counts) == 1 and latency.sum > 0
    assert {"mirror_build_info", "mirror_flow_state"} <= collector.pushed[-1].keys() & scraped


def test_a_transaction_that_stays_open_on_the_source_is_told(flow: Pair, service: Service) -> None:
    topic = flow.prefix + "one"
    flow.produce(topic, Made(None, b"before"))
    flow.await_same(topic)
    stable = len(flow.copied(topic)[0])
    where = {"topic": topic, "partition": 0}
    service.wait_for("nothing stuck", lambda: service.metric(STUCK, **where) == 0)
    with open_transaction(flow.source, topic, 2) as to:
        flow.produce(topic, *(Made(None, b"%d" % number) for number in range(1_000)))
        service.wait_for("a stuck offset", lambda: service.metric(STUCK, **where) > WARN_AFTER)
        ((producer, epoch, start),) = topics.open_transactions(flow.source, topic)
        whose = f"producer id {producer} (epoch {epoch}, start offset {start})"
        said = f"1,002 offsets are held back by an open transaction of {whose} on the source since "
        until("the reason", lambda: said in reported(service)["reason"])
        partition = reported(service)
        assert partition["held_back"] == 1_002 and partition["state"] in ("running", "starting")
        assert partition["lag"] == 0, "which is why nothing else tells of it"
        service.wait_for("the reason on the page", lambda: said in service.get("/")[1])
        assert f"1 partition held back by open transactions on {flow.alias}" in service.get("/")[1]
        (shown,) = json.loads(service.get("/status")[1])["flows"][0]["topics"]
        assert shown["partitions"][0]["held_back"] == 1_002
        assert service.get("/readyz") == (200, "ok\n"), "the flow does what it can"
        assert len(flow.copied(topic)[0]) == stable
        to.commit_transaction(30)
    service.wait_for("nothing stuck any more", lambda: service.metric(STUCK, **where) == 0)
    flow.await_same(topic)
    until("no reason any more", lambda: (p := reported(service))["held_back"] == 0 and p["reason"] == "")
    service.wait_for("none on the page", lambda: "held back" not in service.get("/")[1])


def test_tasks_that_were_killed_are_told_and_counted(flow: Pair, service: Service) -> None:
    topic = flow.prefix + "one"

    def await_copied(what: bytes, partitions: int) -> None:
        for number in range(partitions):
            flow.produce(topic, Made(None, what), partition=number)
        flow.await_same(topic)

    def await_losses(count: int) -> None:
        service.wait_for("a loss", lambda: len(service.find(LOST)) >= count)
        service.wait_for("its count", lambda: service.metric("mirror_lost_tasks_total") >= count)

    def lost() -> list[Event]:
        assert service.metric("mirror_lost_tasks_total") == len(service.find(LOST))
        return service.find(LOST)

    await_copied(b"first", 1)
    assert service.metric("mirror_flow_tasks") == 2
    topics.grow(flow.source, topic, 4)
    service.wait_for("more tasks", lambda: service.metric("mirror_flow_tasks") == 4)
    await_copied(b"second", 4)
    assert not lost(), "neither a start nor another number of tasks is a loss"
    workers = service.worker_pids()
    assert len(workers) == 4
    for count, worker in enumerate(workers[:2], 1):
        os.kill(worker, signal.SIGKILL)
        await_losses(count)
        await_copied(b"third", 4)
        assert len(lost()) == count, "each once"
    assert all((each["flow"], each["partitions"]) == (flow.flow, 1) for each in lost())
    assert len({each["slice"] for each in lost()}) == 2
    events = json.loads(service.get("/status")[1])["flows"][0]["events"]
    assert sum("was lost, another one has taken the slice over" in event["reason"] for event in events) == 2


class Asked:
    """An admin client of the source; counts what it is asked."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self.highs: list[set[int]] = []  # partitions of each question for high watermarks

    def list_offsets(self, asked: Mapping[TopicPartition, OffsetSpec], **how: Any) -> dict[TopicPartition, Future[Any]]:
        if how["isolation_level"] == IsolationLevel.READ_UNCOMMITTED:
            self.highs.append({tp.partition for tp in asked})
        found: dict[TopicPartition, Future[Any]] = self._admin.list_offsets(dict(asked), **how)
        return found

    def list_topics(self, **how: Any) -> Any:
        return self._admin.list_topics(**how)


def test_high_watermarks_are_asked_only_of_what_stands_still(flow: Pair) -> None:
    """Partition 0 is held back, 1 is idle, 2 is busy."""
    topic = topics.create(flow.source, f"apart-{flow.prefix}ends", 3)
    asked = Asked(topics.admin(flow.source))
    ends, begun = SourceEnds(Renewed(Cluster("source", {}, {}, {}), lambda: asked), ASK_AFTER), time.monotonic()
    held, idle, busy = (Partition(topic, number) for number in range(3))

    def look() -> Hold | None:
        flow.produce(topic, Made(None, b"more"), partition=2)
        ends.ask([held, idle, busy], {})
        return ends.hold(held)

    def await_rounds(more: int) -> None:
        wanted = len(asked.highs) + more
        until("more questions", lambda: [look()] and len(asked.highs) >= wanted)

    with open_transaction(flow.source, topic, 3) as to:
        first = until("a hold", look)
        assert first and (first.stable, first.high, first.offsets) == (0, 3, 3)
        assert "3 offsets are held back" in first.reason
        flow.produce(topic, Made(None, b"after"))
        grown = until("one more after it", lambda: hold if (hold := look()) and hold.high == 4 else None)
        assert grown and grown.since == first.since
        await_rounds(2)
        assert ends.hold(idle) is None and ends.hold(busy) is None
        assert {0, 1} == set().union(*asked.highs), "never of the busy one"
        assert len(asked.highs) <= 1 + (time.monotonic() - begun) / ASK_AFTER, "and seldom"
        to.abort_transaction(30)
    until("no hold", lambda: look() is None)
    await_rounds(2)
    assert ends.hold(held) is None and ends.stable[held] == 5


def test_fetches_say_where_partitions_end(flow: Pair) -> None:
    """As the broker says it to who asks, though the answers of a session leave out what has not changed.

    Partition 0 gets records, 1 has transactions, 2 stays empty.
    """
    asyncio.run(fetches_say_it(flow, topics.create(flow.source, f"apart-{flow.prefix}fetched", 3)))


async def fetches_say_it(flow: Pair, topic: str) -> None:
    source = cluster.Cluster(access({"bootstrap.servers": flow.source}))
    fetcher, key = BatchFetcher(source), TopicKey(topic, id_of(topics.topic_id(flow.source, topic)))
    reading = [asyncio.create_task(read(fetcher.open(key, number, 0))) for number in range(3)]
    said = partial(what_all_say, fetcher, flow.source, topic)
    try:
        assert await said() == dict.fromkeys(range(3), (0, 0))
        flow.produce(topic, Made(None, b"record"))
        with open_transaction(flow.source, topic, 2, partition=1) as to:
            flow.produce(topic, Made(None, b"after"), partition=1)
            assert await said() == {0: (1, 1), 1: (0, 3), 2: (0, 0)}
            to.commit_transaction(30)
        await said()
        with open_transaction(flow.source, topic, 2, partition=1) as to:
            await said()
            to.abort_transaction(30)
        flow.produce(topic, Made(None, b"record"))
        async with asyncio.timeout(PATIENCE):  # the markers come a little later
            while await said() != {0: (2, 2), 1: (7, 7), 2: (0, 0)}:
                pass
    finally:
        for each in reading:
            each.cancel()
        await fetcher.stop()
        source.close()


async def read(feed: Feed) -> None:
    while await feed.wait():
        for span in feed.take(2**30, 2**30):
            feed.done(span)


async def what_all_say(fetcher: BatchFetcher, source: str, topic: str) -> dict[int, tuple[int, int]]:
    """Last stable offsets and high watermarks, once fetches say the same as the broker does when it is asked."""
    levels = (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
    async with asyncio.timeout(PATIENCE):
        while True:
            stable, high = [await asyncio.to_thread(oracle.ends, source, topic, each) for each in levels]
            found = {number: (each.stable, each.high) for (_, number), each in fetcher.ends.items()}
            if found == {number: (stable[number], high[number]) for number in stable}:
                return found
            await asyncio.sleep(0.05)
