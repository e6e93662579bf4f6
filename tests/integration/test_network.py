"""What the network can do between mirror and its target, through a proxy that knows Kafka's requests."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from mirror.config.load import load as load_config
from mirror.control.flow_leader import FlowLeader
from mirror.demo.brokers import LocalCluster
from mirror.errors import FlowError, PartitionError, ProducerFenced
from mirror.kafka.clients import group_reader
from mirror.kafka.throttling import Throttle
from mirror.service.topic_monitor import TopicMonitor
from mirror.settings import Flow
from mirror.source.fetcher import Fetcher
from mirror.target.fencing import fence
from mirror.target.transactional_producer import TransactionalProducer
from mirror.task.copier import RecordCopier
from tests.harness import oracle
from tests.harness.load import Load, Made
from tests.harness.pair import Pair
from tests.harness.proxy import Proxy
from tests.harness.service import BLOCKED, Service
from tests.harness.waiting import until

ALIAS = "net"
LONGEST = 20.0  # seconds that a transaction may last on the target


class Net:
    """The shared source, a target that is reached through a proxy, and the service between them."""

    def __init__(self, source: LocalCluster, data_path: str, directory: Path) -> None:
        properties = {"transaction.max.timeout.ms": int(LONGEST * 1000)}
        self.target = LocalCluster("proxied", directory, properties=properties)
        self.proxy = Proxy(self.target)
        self.direct = Pair(source.bootstrap, self.target.bootstrap, ALIAS, f"{ALIAS}-").by(data_path)
        self.through = Pair(source.bootstrap, self.proxy.bootstrap, ALIAS, f"{ALIAS}-").by(data_path)
        self.service = self.through.service(directory, {"transaction_timeout": "5s"})


@pytest.fixture(scope="module")
def net(source_cluster: LocalCluster, data_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Net]:
    net = Net(source_cluster, data_path, tmp_path_factory.mktemp("net"))
    with net.target, net.proxy, net.service as service:
        net.direct.topic("first")
        service.await_plan()
        yield net
        net.direct.assert_path(service)
        assert service.terminate() == 0, service.tail()
        assert not service.noise, service.tail()


def test_an_end_of_a_transaction_that_arrives_in_the_next_one(net: Net) -> None:
    """librdkafka has no KIP-890: only a newer epoch keeps a late EndTxn from ending another transaction."""
    topic = net.direct.topic("late", 1)
    with Load(net.direct.source, {topic: 1}, rate=500) as load:
        load.wait_for(500)
        for _ in range(3):
            held = net.proxy.hold_back_end_txn(f"{net.direct.group}/{net.direct.remote(topic)}/")
            net.service.wait_for("the EndTxn arrives", lambda held=held: held.error is not None)  # type: ignore[misc]
            assert held.request is not None and held.during is not None
            assert held.during.producer_id == held.request.producer_id
            assert held.during.epoch > held.request.epoch, "the producer was not recycled"
            assert held.error in (KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED), held.error
        net.proxy.held = None
        load.wait_for(load.counts.total + 500)
        load.stop()
        net.direct.await_same(topic)
    net.direct.assert_settled(topic)


@pytest.mark.parametrize("kind", ["cut", "swallow_requests", "swallow_answers"])
def test_the_target_is_cut_off(net: Net, kind: str) -> None:
    topic = net.direct.topic(kind, 2)
    with Load(net.direct.source, {topic: 2}, rate=500) as load:
        copied = "mirror_source_records_total"
        net.service.wait_for("records copied", lambda: net.service.metric(copied, topic=topic) > 100)
        setattr(net.proxy, kind, True)
        if kind == "cut":
            net.proxy.disconnect()
        before = load.counts.total  # the last ones of them may be on their way
        load.wait_for(before + 1_000)
        assert oracle.count(net.direct.copied(topic)) < before + 500, "it is cut off"
        net.service.wait_for("not ready", lambda: net.service.get("/readyz")[0] == 503)
        assert net.service.get("/livez")[0] == 200
        net.proxy.heal()
        load.wait_for(load.counts.total + 500)
        load.stop()
        net.direct.await_same(topic)
        net.service.wait_for("ready", lambda: net.service.get("/readyz")[0] == 200)
    net.direct.assert_settled(topic)


def test_a_request_that_arrives_twice_does_not_look_like_other_timestamps(net: Net) -> None:
    """A broker answers the second one with a time, as if the topic had LogAppendTime."""
    topic = net.direct.topic("twice")
    net.direct.produce(topic, Made(None, b"first"))
    net.direct.await_same(topic)
    since = len(net.service.events)
    net.proxy.lose_answer_to = net.direct.remote(topic)
    net.direct.produce(topic, Made(None, b"second"))
    net.direct.await_same(topic)
    assert not net.proxy.lose_answer_to, "no answer was lost"
    assert not net.service.find(BLOCKED, since), net.service.tail()
    net.direct.assert_settled(topic)


def flow_of(service: Service, directory: Path, **changes: object) -> Flow:
    """The service's flow as mirror itself reads it."""
    text = service.file.read_text()
    for key, value in changes.items():
        assert key in text
        text = "\n".join(f"  {key}: {value}" if line.strip().startswith(key) else line for line in text.splitlines())
    file = directory / "changed.yaml"
    file.write_text(text)
    return load_config(file, {}).flows[0]


def test_a_closed_connection_makes_a_producer_suspect(net: Net, tmp_path: Path) -> None:
    """librdkafka tells no callback about it, and would go on with the same epoch."""
    flow = flow_of(net.service, tmp_path)
    fetcher: Fetcher[RecordCopier] = Fetcher(flow, Throttle())
    producer = TransactionalProducer(flow, "suspected", fetcher.group_metadata, Throttle())
    producer.fence()
    producer.begin()
    producer.produce(net.direct.remote("net-first"), b"value")
    producer.flush()
    assert not producer.suspect
    net.proxy.disconnect()
    until("suspect", lambda: producer.suspect)
    producer.discard()
    fetcher.close()


def test_a_producer_that_was_fenced_says_so_and_ends(net: Net, tmp_path: Path) -> None:
    """librdkafka logs it after the error that it raises, and the log may be served while that one is raised."""
    flow = flow_of(net.service, tmp_path)
    quick = {**flow.target.properties, "bootstrap.servers": net.target.bootstrap}  # past the proxy
    flow = replace(flow, target=replace(flow.target, properties=quick))
    fetcher: Fetcher[RecordCopier] = Fetcher(flow, Throttle())
    known = []

    def fence(finds_out: Callable[[TransactionalProducer], None]) -> None:
        fenced, newer = (TransactionalProducer(flow, "twice", fetcher.group_metadata, Throttle()) for _ in range(2))
        known.append(weakref.ref(fenced))
        fenced.fence()
        fenced.begin()
        newer.fence()
        fenced.produce(net.direct.remote("net-first"), b"value")
        with pytest.raises(KafkaException) as caught:
            finds_out(fenced)
        assert isinstance(fenced.failed(caught.value.args[0]), ProducerFenced)
        fenced.discard()
        newer.discard()

    died: list[threading.ExceptHookArgs] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "excepthook", died.append)
        for _ in range(20):  # not each time is something logged at the wrong moment
            fence(TransactionalProducer.flush)
            fence(lambda producer: producer.send_position(TopicPartition("any", 0, 1)))
    fetcher.close()
    assert not died, "a thread has ended with a stack trace"
    until("their threads and connections end", lambda: gc.collect() >= 0 and not any(each() for each in known))


def test_a_fence_that_the_target_refuses_leaves_nothing_behind(net: Net, tmp_path: Path) -> None:
    """The error is fatal to librdkafka, so it also comes out of the call that discards the producer."""
    flow = flow_of(net.service, tmp_path, transaction_timeout="25s")
    process = psutil.Process()
    with closing(group_reader(flow.target, flow.group, "read_committed")) as member:
        before = process.num_threads()
        for _ in range(3):
            with pytest.raises(PartitionError, match="Transaction timeout"):
                fence(flow, "refused", member)
        until("the producers' threads have ended", lambda: gc.collect() >= 0 and process.num_threads() <= before)


def test_a_transaction_timeout_that_the_target_does_not_allow(net: Net, tmp_path: Path) -> None:
    flow = flow_of(net.service, tmp_path, transaction_timeout="25s")
    TopicMonitor(flow).ensure_internal_topics()
    flow_leader = FlowLeader(flow, "somebody")
    with pytest.raises(FlowError) as caught:
        flow_leader.take_lead()
    assert str(caught.value) == (
        "flow net->backup: transaction_timeout (25 s) is longer than transaction.max.timeout.ms of the brokers of "
        "backup: lower it, or raise theirs"
    )
    flow_leader.control.close()
