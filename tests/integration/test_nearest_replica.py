"""A source whose brokers stand in several racks: what is copied comes from the replica in ours (KIP-392)."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirror.demo.brokers import LocalCluster
from tests.harness import damage, topics
from tests.harness.configuration import AUTO
from tests.harness.forwarder import Streams, TwoWays
from tests.harness.load import Load, Made, sized
from tests.harness.pair import Pair
from tests.harness.proxy import Asked
from tests.harness.service import Service
from tests.harness.waiting import until

pytestmark = pytest.mark.slow

FETCH = 1  # API key
PLACED = [[1, 2], [3, 2]]  # the nodes that have each partition; the first one leads it
LEADERS, NEAREST = (1, 3), 2
RACKS = {1: "a", 2: "b", 3: "c"}
SIZE, RATE = 500, 500.0  # bytes of a record; records a second
# Bytes of answers. Records for a second or less, and what comes without records: who is nearer, or that nothing is new.
MUCH, LITTLE = 50_000, 10_000


class Watched(TwoWays):
    """A cluster of three racks, which counts how many bytes each broker gives to those who fetch."""

    def __init__(self, directory: Path) -> None:
        selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
        self.cluster = LocalCluster("racks", directory, len(RACKS), {"replica.selector.class": selector})
        for broker in self.cluster.brokers:
            broker.properties["broker.rack"] = RACKS[broker.node]
        super().__init__(self.cluster)
        self.given: Counter[int] = Counter()  # by the broker's node
        self._nodes = dict(zip(self._ports.values(), (each.node for each in self.cluster.brokers), strict=True))

    def _ways(self, client: Streams, broker: Streams, inner: int) -> Sequence[Coroutine[Any, Any, None]]:
        asked, node = Asked(), self._nodes[inner]

        def count(answer: bytes) -> None:
            if asked.api_key(answer) == FETCH:
                self.given[node] += len(answer)

        return self._pass(client[0], broker[1], asked.note), self._pass(broker[0], client[1], count)

    @staticmethod
    async def _pass(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, look: Callable[[bytes], object]
    ) -> None:
        """Pass messages on, and look at each, until a side closes the connection."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                size = await reader.readexactly(4)
                message = await reader.readexactly(*struct.unpack(">i", size))
                look(message)
                writer.write(size + message)
                await writer.drain()


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    watched = Watched(tmp_path_factory.mktemp("racks"))
    with watched.cluster, watched:
        yield watched


class Flow:
    """A flow from this source to a target, by a client that stands in the rack of the second broker."""

    def __init__(self, racks: Watched, target: LocalCluster, name: str, prefix: str, data_path: str) -> None:
        self._racks = racks
        self.pair = Pair(racks.cluster.bootstrap, target.bootstrap, name, prefix).by(data_path)
        self.topic = topics.create_placed(self.pair.source, f"{self.pair.prefix}t", PLACED)
        for number, nodes in enumerate(PLACED):
            until("both replicas", lambda at=number, nodes=nodes: self._replicas(at) == (nodes[0], sorted(nodes)))  # type: ignore[misc]

    def _replicas(self, number: int) -> tuple[int, list[int]]:
        return topics.replicas(self._racks.cluster.brokers[0].bootstrap, self.topic, number)

    def service(self, directory: Path) -> Service:
        """A service that reaches the source through what counts."""
        settings = replace(self.pair, source=self._racks.bootstrap).settings()
        settings["clusters"][self.pair.alias]["client.rack"] = RACKS[NEAREST]
        return Service(settings, directory)

    def await_records(self, service: Service, *nodes: int) -> Counter[int]:
        """Wait until each of these brokers has given records; returns what all have given meanwhile."""
        before = Counter(self._racks.given)
        service.wait_for(
            f"records of {nodes}", lambda: all(self._racks.given[node] - before[node] > MUCH for node in nodes)
        )
        return Counter(self._racks.given) - before


@pytest.mark.both_paths
def test_records_come_from_the_nearest_replica_alone(
    racks: Watched, target_cluster: LocalCluster, data_path: str, prefix: str, tmp_path: Path
) -> None:
    """The leaders only say which one that is. It knows of aborted transactions, too."""
    flow = Flow(racks, target_cluster, "near", prefix, data_path)
    pair, topic, before = flow.pair, flow.topic, Counter(racks.given)
    load = Load(pair.source, {topic: len(PLACED)}, rate=RATE, make=sized(SIZE), transaction=100, abort_every=4)
    with load as running, flow.service(tmp_path) as service:
        for _ in range(5):
            flow.await_records(service, NEAREST)
        counts = running.stop()
        pair.await_same(topic)
        pair.assert_path(service)
        assert service.terminate() == 0, service.tail()
        assert not service.noise, service.tail()
    pair.assert_settled(topic)
    given = Counter(racks.given) - before
    assert counts.aborted.total() > 0
    assert given[NEAREST] > SIZE * counts.total
    assert all(given[node] < LITTLE for node in LEADERS), given


def test_the_leaders_are_asked_while_the_nearest_replica_is_down(
    racks: Watched, target_cluster: LocalCluster, prefix: str, tmp_path: Path
) -> None:
    """They name it until they miss it. Once it is in sync again, all comes from there again."""
    flow = Flow(racks, target_cluster, "down", prefix, AUTO)
    pair, topic, nearest = flow.pair, flow.topic, racks.cluster.brokers[NEAREST - 1]

    def comes_from_there_alone() -> bool:
        given = flow.await_records(service, NEAREST)
        return all(given[node] < LITTLE for node in LEADERS)

    load = Load(pair.source, {topic: len(PLACED)}, rate=RATE, make=sized(SIZE))
    with load as running, flow.service(tmp_path) as service:
        until("all comes from there", comes_from_there_alone)
        nearest.kill()
        flow.await_records(service, *LEADERS)
        nearest.start()
        until("all comes from there again", comes_from_there_alone)
        running.stop()
        pair.await_same(topic)
        pair.assert_path(service)
        assert service.terminate() == 0, service.tail()
        assert not service.noise, service.tail()
    pair.assert_settled(topic)


@pytest.mark.both_paths
def test_what_only_the_nearest_replica_has_damaged_is_no_loss(
    racks: Watched, target_cluster: LocalCluster, data_path: str, prefix: str, tmp_path: Path
) -> None:
    """Brokers do not look at checksums when they give records. The leader would name the nearest replica again."""
    flow = Flow(racks, target_cluster, "rot", prefix, data_path)
    pair, topic = flow.pair, flow.topic
    for batch in range(5):
        pair.produce(topic, *(Made(b"key", b"%d-%d" % (batch, n)) for n in range(10)), linger_ms=10_000)
    damage.flip(racks.cluster, topic, 2, b"2-3", NEAREST - 1)
    with flow.service(tmp_path) as service:
        pair.await_same(topic)
        lost = service.metric("mirror_lost_offsets_total", topic=topic)
        assert not lost > 0, "the leader has it"
        pair.assert_path(service)
        assert service.terminate() == 0, service.tail()
        assert not service.noise, service.tail()
    pair.assert_settled(topic)
