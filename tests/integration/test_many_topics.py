"""More topics than fit into one request, and a source that takes its time to tell of them."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewPartitions, NewTopic

from mirror.config.load import load
from mirror.demo.brokers import LocalCluster
from mirror.errors import ClusterAway
from mirror.kafka.cluster import NAMES, TIMEOUT, ClusterAdmin
from mirror.service.topic_monitor import TopicMonitor
from mirror.settings import Cluster
from tests.harness import topics
from tests.harness.forwarder import Forwarder
from tests.harness.pair import Pair
from tests.harness.waiting import PATIENCE, until

pytestmark = pytest.mark.slow

TOOK = 10_000  # metadata records that KRaft takes in one request: topics, partitions and configuration keys
MANY = 3 * NAMES
# What makes so many topics too much without a partition more than one, whose files would take the brokers minutes.
SETTINGS = {
    "cleanup.policy": "compact",
    "delete.retention.ms": "86400001",
    "file.delete.delay.ms": "1000",
    "flush.messages": "1000000",
    "flush.ms": "100000000",
    "index.interval.bytes": "4097",
    "max.compaction.lag.ms": "9000000000",
    "min.cleanable.dirty.ratio": "0.4",
    "min.compaction.lag.ms": "1",
    "preallocate": "false",
    "retention.bytes": "1000000000",
    "retention.ms": "604800001",
    "segment.index.bytes": "1048576",
    "segment.jitter.ms": "1",
    "segment.ms": "604800001",
}


class Line(Forwarder):
    """Lets so many bytes a second come from the cluster; breaks when `left` of them have come, until it has more."""

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__(cluster)
        self.rate = self.left = math.inf
        self.passed = 0
        self._due = 0.0

    async def _serve(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter, inner: int) -> None:
        with contextlib.suppress(OSError):
            broker_in, broker_out = await asyncio.open_connection("127.0.0.1", inner)
            requests = asyncio.ensure_future(self._requests(client_in, broker_out))
            with contextlib.suppress(OSError):
                await self._answers(broker_in, client_out)
            requests.cancel()
            broker_out.transport.abort()
        client_out.transport.abort()

    async def _requests(self, client: asyncio.StreamReader, broker: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await client.read(1 << 13):
                broker.write(data)
        broker.close()

    async def _answers(self, broker: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        while (data := await broker.read(1 << 13)) and self.left > 0:
            # What is late for some time comes faster afterwards: a busy machine does not make the line a slower one.
            self._due = max(self._due, self._loop.time() - 1.0) + len(data) / self.rate
            await asyncio.sleep(self._due - self._loop.time())
            self.passed += len(data)
            self.left -= len(data)
            client.write(data)
            await client.drain()


class Crowded:
    """A cluster for many topics, reached directly or over a line."""

    def __init__(self, directory: Path) -> None:
        self.cluster = LocalCluster("crowded", directory)
        self.line = Line(self.cluster)
        self.direct = ClusterAdmin(Cluster("direct", {"bootstrap.servers": self.cluster.bootstrap}, {}, {}))


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowded]:
    crowded = Crowded(tmp_path_factory.mktemp("crowded"))
    with crowded.line:
        crowded.cluster.start()
        yield crowded
        crowded.cluster.kill()  # to stop in order is much work for one with thousands of partitions


def test_a_first_look_at_many_topics_goes_on_where_it_was_broken_off(
    crowded: Crowded, target_cluster: LocalCluster, prefix: str, tmp_path: Path
) -> None:
    names = [f"{prefix}{number}" for number in range(MANY)]
    assert MANY * (1 + 1 + len(SETTINGS)) > TOOK
    assert not crowded.direct.create_topics(NewTopic(name, 1, 1, config=SETTINGS) for name in names)
    until("they are there", lambda: crowded.direct.partitions().keys() >= set(names))
    line = crowded.line
    pair = Pair(line.bootstrap, target_cluster.bootstrap, "crowded", prefix)
    remote = {pair.remote(name) for name in names}
    file = tmp_path / "mirror.yaml"
    file.write_text(yaml.safe_dump(pair.settings()))
    flow = load(file, {}).flows[0]
    monitor, target = TopicMonitor(flow), ClusterAdmin(flow.target)

    before = line.passed
    ClusterAdmin(flow.source).topic_configs(names)
    told = line.passed - before
    line.rate = told / (1.8 * TIMEOUT)  # too slow for all configurations in one answer
    line.left = 0.6 * told  # the second of three answers is broken off
    print(f"{told / MANY:.0f} bytes for each topic, {line.rate:.0f} bytes/s")
    try:
        with pytest.raises(ClusterAway):
            monitor.mirrored()
        until("those told of first", lambda: len(remote & target.partitions().keys()) == NAMES)
        line.left = math.inf

        def looked() -> bool:
            with contextlib.suppress(ClusterAway):
                return monitor.mirrored().keys() == set(names)
            return False

        until("it goes on", looked)
        until("all", lambda: remote <= target.partitions().keys())
        assert SETTINGS.items() <= topics.configuration(pair.target, pair.remote(names[-1])).items()
    finally:
        line.rate = line.left = math.inf
        for future in topics.admin(pair.target).delete_topics(sorted(remote)).values():
            with contextlib.suppress(KafkaException):  # never created
                future.result(PATIENCE)


def test_more_partitions_are_added_than_one_request_may(crowded: Crowded, prefix: str) -> None:
    """The last one here: the cluster would have minutes to do with their files."""
    names = [f"{prefix}{number}" for number in range(100)]
    assert not crowded.direct.create_topics(NewTopic(name, 1, 1) for name in names)
    more = 1 + TOOK // len(names) + 1
    assert not crowded.direct.create_partitions(NewPartitions(name, more) for name in names)
