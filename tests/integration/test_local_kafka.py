"""The local brokers: they keep data and port, and do not outlive their parent."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from mirror.demo.brokers import LocalCluster
from mirror.errors import SetupError
from tests.harness.processes import is_alive
from tests.harness.waiting import PATIENCE, until

PARENT = """\
import sys, threading
from pathlib import Path
from mirror.demo.brokers import LocalCluster
cluster = LocalCluster("orphan", Path(sys.argv[1]))
starter = threading.Thread(target=cluster.start)
starter.start()
starter.join()
print(cluster.brokers[0].process.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster("own", tmp_path_factory.mktemp("own")) as running:
        yield running


def produce(cluster: LocalCluster, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE) == 0


def consume(cluster: LocalCluster, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": topic})
    consumer.assign([TopicPartition(topic, 0, 0)])
    with contextlib.closing(consumer):
        return [record.value() for record in consumer.consume(count, timeout=PATIENCE)]


def create(cluster: LocalCluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(PATIENCE)


def test_records_go_in_and_out(cluster: LocalCluster, prefix: str) -> None:
    create(cluster, prefix)
    produce(cluster, prefix, [b"one", b"two"])
    assert consume(cluster, prefix, 2) == [b"one", b"two"]


def test_a_killed_broker_comes_back_with_its_data_and_port(cluster: LocalCluster, prefix: str) -> None:
    create(cluster, prefix)
    produce(cluster, prefix, [b"before"])
    address = cluster.bootstrap
    cluster.kill()
    cluster.start()
    assert cluster.bootstrap == address
    produce(cluster, prefix, [b"after"])
    assert consume(cluster, prefix, 2) == [b"before", b"after"]


def test_a_paused_broker_answers_after_it_is_resumed(cluster: LocalCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    cluster.pause()
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=0.5)
    cluster.resume()
    assert admin.list_topics(timeout=30).brokers


def test_one_of_three_brokers_can_be_restarted(tmp_path: Path) -> None:
    with LocalCluster("three", tmp_path, brokers=3) as cluster:
        cluster.brokers[0].kill()
        cluster.brokers[0].start()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        until("all know of it", lambda: set(admin.list_topics(timeout=30).brokers) == {1, 2, 3})
        cluster.kill()


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    cluster = LocalCluster("bad", tmp_path, properties={"num.io.threads": "many"})
    with pytest.raises(SetupError, match=r"num\.io\.threads"):
        cluster.start()


@pytest.mark.skipif(sys.platform != "linux", reason="cannot run here: only Linux tells a child that its parent died")
def test_a_broker_dies_when_its_parent_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ)) as parent:
        assert parent.stdout is not None
        broker = psutil.Process(int(parent.stdout.readline()))
        # The thread that started it has ended: that must not be taken for the end of the process.
        assert "kafka.Kafka" in broker.cmdline()
        parent.kill()
    until("the broker is dead", lambda: not is_alive(broker))
