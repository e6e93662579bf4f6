"""Of a broker that has restarted librdkafka must not keep a thread: each would look for its end for ever."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql.streaming.datasource import ReadAllAvailable

from mirror import config
from mirror.channel import ChannelWriter, Claim
from mirror.errors import ClusterAway, PartitionError, PositionUnstable
from mirror.local_kafka import Broker, LocalCluster
from mirror.plan import Plan
from mirror.positions import Positions
from mirror.settings import Cluster, Flow, Log
from mirror.source import EpochReader, Offset
from tests.harness import topics
from tests.harness.configuration import one_flow
from tests.harness.waiting import PATIENCE, until

pytestmark = pytest.mark.slow

LEADER = "us"


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster("target", tmp_path_factory.mktemp("target"), 3) as running:
        yield running


@pytest.fixture
def flow(target: LocalCluster, tmp_path: Path) -> Flow:
    file = tmp_path / "mirror.yaml"
    file.write_text(yaml.safe_dump(one_flow("source:9092", target.bootstrap, ["t"], alias="primary")))
    return config.load(file, {}).flows[0]


def new_admin(target: LocalCluster) -> AdminClient:
    """One that takes no broker for the controller which was that once."""
    return AdminClient({"bootstrap.servers": target.bootstrap, "log_level": 0})


def make(target: LocalCluster, name: str, *replicas: int) -> str:
    """A topic with these replicas, the first one its leader."""
    admin = new_admin(target)
    admin.create_topics([NewTopic(name, 1, replica_assignment=[list(replicas)])])[name].result(PATIENCE)
    until("its leader", lambda: topics.leaders(target.brokers[0].bootstrap, name) == {0: replicas[0]})
    return name


def delete(target: LocalCluster, name: str) -> None:
    """The topic is gone."""
    admin = new_admin(target)
    admin.delete_topics([name])[name].result(PATIENCE)


def threads(broker: Broker) -> int:
    """How many of librdkafka's threads in this process are for this broker."""
    count = 0
    for name in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # it has just ended
            count += name.read_text().strip() == f"rdk:broker{broker.node}"
    return count


@contextlib.contextmanager
def away(target: LocalCluster, broker: Broker, topic: str, leader: int) -> Iterator[None]:
    """The broker is dead, and this one leads its topic."""
    broker.kill()
    until("another leader", lambda: topics.leaders(target.brokers[0].bootstrap, topic)[0] == leader)
    yield
    broker.start()


def test_a_deleted_topic_keeps_no_broker(target: LocalCluster) -> None:
    """A take-over asked for its leader once, for an election."""
    gone, stays = make(target, "gone", 3, 2, 1), make(target, "stays", 2, 1)
    positions = Positions(Cluster("target", {"bootstrap.servers": target.bootstrap}, {}, {}), "group", stays)

    def settled(topic: str) -> bool:
        with contextlib.suppress(ClusterAway, PartitionError, PositionUnstable):
            positions.await_settled(topic, 0)
            return True
        return False

    def asked(topic: str) -> None:
        until(f"{topic} is settled", lambda: settled(topic))

    asked(gone)
    asked(stays)
    last, second = target.brokers[2], target.brokers[1]
    with away(target, last, gone, 2):
        asked(gone)
    delete(target, gone)
    until(f"{gone} is not there", lambda: not settled(gone))
    with away(target, second, stays, 1):
        asked(stays)
        until("no thread for a broker that is not there", lambda: not threads(second))
    positions.close()


def test_the_planner_keeps_no_broker(target: LocalCluster, flow: Flow) -> None:
    """Spark asks it for a plan when an epoch is over; what it had fetched by then would keep the broker it is from."""
    make(target, flow.control_topic, 2, 1)
    writer, reader = ChannelWriter(flow), EpochReader(flow, LEADER, Log("info", "text"))

    def epoch(start: int) -> Offset:
        return reader.latestOffset({"epoch": start}, ReadAllAvailable())

    writer.plan(Plan(LEADER, 1, {}, (frozenset(),)))
    assert epoch(0) == {"epoch": 1}
    assert reader._control is not None and not reader._control._consumer.assignment()
    writer.claim(Claim(0, "us"))
    writer.plan(Plan(LEADER, 2, {}, (frozenset(),)))
    assert epoch(1) == {"epoch": 2}
    writer.plan(Plan(LEADER, 3, {}, (frozenset(),), stop=True))
    assert epoch(2) == {"epoch": 2}
    reader.stop()
    writer.close(PATIENCE)
