"""The offset map and `mirror translate`: exact offsets, both ways, whatever has happened to the source and the copy."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from mirror.commands.translate import translate
from mirror.config.load import load
from mirror.demo.brokers import LocalCluster
from mirror.model import Partition
from mirror.settings import Flow
from tests.harness import oracle, topics
from tests.harness.command import answer, mirror
from tests.harness.load import Made
from tests.harness.pair import Pair
from tests.harness.service import Service
from tests.harness.waiting import PATIENCE

pytestmark = pytest.mark.slow


def numbers(first: int, count: int) -> list[Made]:
    return [Made(b"%d" % n, b"%d" % n) for n in range(first, first + count)]


def in_transactions(pair: Pair, topic: str, sizes: list[int]) -> None:
    """Produce one transaction of each size to the source; every fifth is aborted."""
    producer = Producer({"bootstrap.servers": pair.source, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(PATIENCE)
    at = 0
    for index, size in enumerate(sizes):
        producer.begin_transaction()
        for _ in range(size):
            at += 1
            producer.produce(topic, b"%d" % at, b"%d" % at, 0)
        if index % 5 == 4:
            producer.flush(PATIENCE)
            producer.abort_transaction(PATIENCE)
        else:
            producer.commit_transaction(PATIENCE)


def flow_of(service: Service) -> Flow:
    return load(service.file).flows[0]


def assert_exact(pair: Pair, service: Service, topic: str) -> None:
    """Each record, both ways; and each offset between two records is translated to the next one."""
    flow, partition = flow_of(service), Partition(topic, 0)
    here = [r.offset for r in oracle.read(pair.source, topic)[0]]
    there = [r.offset for r in pair.copied(topic)[0]]
    assert len(here) == len(there) > 0
    for up, down in list(zip(here, there, strict=True))[:: max(1, len(here) // 40)]:
        (to,) = translate(flow, {partition: up})
        assert (to.translated, to.reason) == (down, "")
        (back,) = translate(flow, {partition: down}, reverse=True)
        assert (back.translated, back.reason) == (up, "")
    gaps = [(up + 1, there[n + 1]) for n, up in enumerate(here[:-1]) if here[n + 1] != up + 1]
    for up, down in gaps[:10]:
        (to,) = translate(flow, {partition: up})
        assert to.translated == down
    (end,) = translate(flow, {partition: here[-1] + 1})
    assert end.translated is not None and end.translated > there[-1]


@pytest.fixture(scope="module")
def running(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Pair, Service]]:
    pair = Pair(source_cluster.bootstrap, target_cluster.bootstrap, "map", "map-")
    with pair.service(tmp_path_factory.mktemp("map"), {"batch_max_records": 100}) as service:
        yield pair, service
        assert service.terminate() == 0, service.tail()
        assert not service.noise


def test_a_source_without_gaps(running: tuple[Pair, Service]) -> None:
    pair, service = running
    topic = pair.topic("plain")
    pair.produce(topic, *numbers(0, 2_500))
    pair.await_same(topic)
    assert_exact(pair, service, topic)
    stored = oracle.read(pair.target, f"mirror-offset-map.{pair.alias}.internal")[0]
    entries = [record for record in stored if topic.encode() in (record.key or b"")]
    assert 1 <= len(entries) <= 4, "one for each thousand records"


def test_aborted_transactions_and_a_restart(running: tuple[Pair, Service]) -> None:
    pair, service = running
    topic = pair.topic("transactional")
    in_transactions(pair, topic, [3, 1, 40, 7, 5] * 20)
    pair.await_same(topic)
    for worker in service.worker_pids():
        os.kill(worker, signal.SIGKILL)
    in_transactions(pair, topic, [2, 300, 1] * 5)
    pair.await_same(topic)
    assert_exact(pair, service, topic)


def test_a_groups_offsets(running: tuple[Pair, Service]) -> None:
    pair, service = running
    topic, group = pair.topic("consumed", 2), f"{pair.prefix}readers"
    for number in (0, 1):
        pair.produce(topic, *numbers(0, 50), partition=number)
    pair.await_same(topic)
    topics.commit(pair.source, group, topic, {0: 20, 1: 50})
    found = answer("translate", "-c", service.file, "--group", group)["offsets"]
    there = {n: [r.offset for r in records] for n, records in pair.copied(topic).items()}
    assert [(each["partition"], each["offset"]) for each in found] == [(0, 20), (1, 50)]
    assert found[0]["translated"] == there[0][20] and found[1]["translated"] > there[1][-1]
    shown = mirror("translate", "-c", service.file, "--group", group)
    assert shown.returncode == 0 and f"{topic}-0" in shown.stdout, shown
    ahead = mirror("translate", "-c", service.file, "--topic", topic, "--partition", 0, "--offset", 51)
    assert ahead.returncode == 1 and "not copied yet" in ahead.stdout, ahead
    wrong = mirror("translate", "-c", service.file, "--topic", topic)
    assert wrong.returncode == 2 and "--group" in wrong.stderr
