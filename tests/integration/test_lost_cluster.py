"""Clients that have lost their cluster: librdkafka can forget the only broker of one, and never looks for it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient, OffsetSpec

from mirror.config.load import load
from mirror.demo.brokers import LocalCluster
from mirror.errors import ClusterAway, MirrorError
from mirror.kafka import clients, listed_offsets, renewed
from mirror.kafka import cluster as requests
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.listed_offsets import list_offsets
from mirror.kafka.renewed import Renewed
from mirror.kafka.throttling import Throttle
from mirror.model import Partition, Position, Topic
from mirror.settings import Flow
from mirror.source.fetch_moves import StartFetching
from mirror.source.fetcher import Fetcher
from mirror.target import position_reader as reading
from mirror.target.position_reader import PositionReader
from mirror.task.copier import RecordCopier
from mirror.task.known_positions import StartPoint
from tests.harness import topics
from tests.harness.forwarder import NoBrokers
from tests.harness.idle import Idle
from tests.harness.load import Made
from tests.harness.pair import Pair
from tests.harness.waiting import until

ALIAS = "lost"
TOPIC, BARRIER = f"{ALIAS}-a", f"{ALIAS}-b"
HERE = Partition(TOPIC, 0)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NoBrokers]:
    cluster = LocalCluster("source", tmp_path_factory.mktemp("lost"))
    with NoBrokers(cluster) as before:
        cluster.start()
        topics.create(cluster.bootstrap, TOPIC)
        topics.create(cluster.bootstrap, BARRIER)
        try:
            yield before
        finally:
            cluster.kill()


@pytest.fixture
def flow(proxy: NoBrokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flow:
    """A flow whose clusters are both the proxy's. Requests are given up soon, and clients replaced soon."""
    monkeypatch.setattr(renewed, "RENEW_AFTER", 3.0)
    monkeypatch.setattr(requests, "TIMEOUT", 1.0)
    monkeypatch.setattr(listed_offsets, "OFFSETS_TIMEOUT", 1.0)
    monkeypatch.setattr(reading, "TIMEOUT", 1.0)
    file = tmp_path / "mirror.yaml"
    file.write_text(yaml.safe_dump(Pair(proxy.bootstrap, "elsewhere:9092", ALIAS, f"{ALIAS}-").settings()))
    flow = load(file, {}).flows[0]
    return replace(flow, target=replace(flow.target, properties=flow.source.properties))


def finds_brokers(client: Consumer | AdminClient) -> bool:
    with suppress(KafkaException):
        return bool(client.list_topics(timeout=0.5).topics)
    return False


def lose(proxy: NoBrokers, answers: Callable[[], bool]) -> None:
    """Say that there are no brokers, until the client that `answers` asks finds none when there are some again.

    It depends on which of its threads is the faster one: about half of the answers do it.
    """

    def is_lost() -> bool:
        proxy.says_none = True
        answers()
        proxy.says_none = False
        return not answers() and not answers()  # a slow one answers the second time

    until("the client has lost the cluster", is_lost)


def test_an_admin_client_is_replaced(proxy: NoBrokers, flow: Flow) -> None:
    source = Renewed(flow.source, lambda: clients.admin(flow.source))
    lost = source.client

    def offset() -> bool:
        found = list_offsets(source.client, {HERE: OffsetSpec.earliest()})
        source.note(not found)
        return found == {HERE: 0}

    lose(proxy, lambda: finds_brokers(lost))
    until("the offset", offset)
    assert source.client is not lost
    assert not finds_brokers(lost), "it has lost the cluster for ever"


def test_admin_requests_succeed_again(proxy: NoBrokers, flow: Flow) -> None:
    admin = ClusterAdmin(flow.source)

    def answers() -> bool:
        with suppress(ClusterAway):
            return TOPIC in admin.partitions()
        return False

    assert answers()
    lose(proxy, answers)
    until("the topics", answers)


def test_positions_are_read_again(proxy: NoBrokers, flow: Flow) -> None:
    with closing(PositionReader(flow.target, flow.group, BARRIER)) as positions:

        def read() -> bool:
            with suppress(MirrorError):
                return positions.load(TOPIC, 0) is None and positions.end(TOPIC, 0) == 0
            return False

        until("the position", read)
        lose(proxy, lambda: finds_brokers(positions._stable.client))
        until("the position again", read)


def test_records_are_fetched_on_by_another_consumer(
    proxy: NoBrokers, flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer with partitions loses its cluster seldom, so here it only seems to find no broker."""
    monkeypatch.setattr(renewed, "finds_a_broker", lambda *_: False)
    name = topics.create(proxy.bootstrap, f"{ALIAS}-fetched")
    topic = Topic(f"{ALIAS}.{name}", topics.topic_id(proxy.bootstrap, name), 1, 1)
    partition = Partition(name, 0)
    copier = RecordCopier(Idle().services(flow), partition, topic, StartPoint(0, Position(0, topic.topic_id)))
    fetcher: Fetcher[RecordCopier] = Fetcher(flow, Throttle())
    pair = Pair(proxy.bootstrap, proxy.bootstrap, ALIAS, "")

    def gets(records: int) -> bool:
        fetcher.poll()
        return len(copier.buffer) == records

    fetcher.moves.put(StartFetching(copier))
    pair.produce(name, Made(b"before", b"before"))
    until("the record", lambda: gets(1))
    first = fetcher._consumer
    until("another consumer", lambda: gets(1) and fetcher._consumer is not first)
    pair.produce(name, Made(b"after", b"after"))
    until("one more record", lambda: gets(2))
    assert not copier.buffer.sealed
    fetcher.close()
