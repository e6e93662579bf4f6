"""A cluster of three brokers, of which one is down or does not know that it was deposed, or whose log is cut."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic, OffsetSpec

from mirror.config.load import load
from mirror.demo.brokers import Broker, LocalCluster
from mirror.errors import ClusterAway, MirrorError, PartitionError
from mirror.groups.group_offsets import offsets_of
from mirror.groups.translator import Translator
from mirror.kafka import clients
from mirror.kafka.clients import LIBRDKAFKA
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.listed_offsets import list_offsets
from mirror.model import Partition, Position, Topic
from mirror.settings import Cluster
from mirror.source import loss_detection
from mirror.target.position_reader import PositionReader, to_commit
from mirror.timing import SILENCE
from mirror.wire.pool import MOST_CONNECTIONS
from tests.harness import configuration, oracle, topics
from tests.harness.batch_path import between
from tests.harness.command import answer, decide
from tests.harness.configuration import AUTO
from tests.harness.load import Load, Made
from tests.harness.pair import Pair
from tests.harness.service import (
    BLOCKED,
    FLOW_RETRYING,
    OWN_AGAIN,
    PASSED_OVER,
    RETRYING,
    TAKES_RECORDS,
    Service,
)
from tests.harness.waiting import PATIENCE, until

pytestmark = [pytest.mark.slow, pytest.mark.long]

ALIAS = "cut"


@pytest.fixture(scope="module")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    soon_out = {"replica.lag.time.max.ms": 2_000}  # of the in-sync replicas, when a broker hangs; else 30 s
    with LocalCluster("cut", tmp_path_factory.mktemp("cut"), 3, soon_out) as running:
        yield running


@pytest.fixture
def cut_source(three_brokers: LocalCluster) -> Iterator[LocalCluster]:
    """The source, whose brokers all run again at the end, also for the next test if one has failed."""
    yield three_brokers
    for broker in three_brokers.brokers:
        broker.resume()
        if broker.process is None:
            broker.start()
    first = three_brokers.brokers[0].bootstrap  # one that has just been resumed believes that it was never away
    until("all brokers", lambda: len(topics.client_of(first).list_topics(timeout=10).brokers) == 3)


def state(source: LocalCluster, topic: str, number: int = 0) -> tuple[int, list[int]]:
    """Leader and in-sync replicas of a partition, as the first broker sees them: it runs when a test asks."""
    return topics.replicas(source.brokers[0].bootstrap, topic, number)


def test_a_broker_that_is_down_is_not_asked_without_end(
    cut_source: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Only that broker could answer the request. librdkafka would connect to it thousands of times a second."""
    caplog.set_level(logging.DEBUG, LIBRDKAFKA.name)
    properties = {"bootstrap.servers": cut_source.bootstrap, "debug": "broker", "log_level": "7"}
    client = clients.admin(Cluster(ALIAS, properties, {}, {}))
    topic, last = f"{ALIAS}-down", cut_source.brokers[-1]
    topics.create_placed(cut_source.bootstrap, topic, [[last.node]])
    asked = {Partition(topic, 0): OffsetSpec.latest()}
    until("the topic's end", lambda: list_offsets(client, asked), PATIENCE)
    last.kill()
    caplog.clear()
    assert list_offsets(client, asked) == {}
    client.poll(0)
    assert 0 < caplog.text.count("onnect") < 500, caplog.text[:3000]
    last.start()
    until("the topic's end again", lambda: list_offsets(client, asked), PATIENCE)


def test_a_take_over_asks_the_leader_of_now(cut_source: LocalCluster) -> None:
    """librdkafka would ask the one before until what it knows is 15 minutes old."""
    topic, last = f"{ALIAS}-moved", cut_source.brokers[-1]
    topics.create_placed(cut_source.bootstrap, topic, [[last.node, 1]])
    positions = PositionReader(Cluster(ALIAS, {"bootstrap.servers": cut_source.bootstrap}, {}, {}), ALIAS, topic)

    def settled() -> bool:
        with contextlib.suppress(ClusterAway, PartitionError):
            positions.await_no_open_transaction(topic, 0)
            return True
        return False

    until("settled", settled)
    last.kill()
    until("another leader", lambda: state(cut_source, topic)[0] == 1, PATIENCE)
    last.start()
    until("settled again", settled)
    positions.close()


@contextlib.contextmanager
def alone(cluster: LocalCluster) -> Iterator[None]:
    """The last broker, which was stopped, is awake and hears of none of the others: it believes what it knew."""
    *others, last = cluster.brokers
    for broker in others:
        broker.pause()
    last.resume()
    try:
        yield
    finally:
        for broker in others:
            broker.resume()


def test_a_coordinator_that_was_deposed_is_not_believed(cut_source: LocalCluster) -> None:
    """It answers from its memory, and what has been committed since would be copied again."""
    topic, last = topics.create(cut_source.bootstrap, f"{ALIAS}-told"), cut_source.brokers[-1]
    barrier = topics.create(cut_source.bootstrap, f"{ALIAS}-barrier")
    first, names = cut_source.brokers[0].bootstrap, [f"{ALIAS}-group-{number}" for number in range(30)]

    def coordinated() -> str | None:
        topics.elect(cut_source.bootstrap)
        return next((name for name in names if topics.coordinator(first, name) == last.node), None)

    group = until("a group of the last broker", coordinated, PATIENCE)
    assert group
    cluster = Cluster(ALIAS, {"bootstrap.servers": cut_source.bootstrap}, {}, {})

    def commit(offset: int) -> None:
        """Commit in a transaction, by a client that has asked for the coordinator now."""
        client = {"bootstrap.servers": first, "log_level": 0}
        with contextlib.closing(Consumer({**client, "group.id": group})) as consumer:
            producer = Producer({**client, "transactional.id": f"{group}-{offset}"})
            producer.init_transactions(60)
            producer.begin_transaction()
            position = to_commit(Position(offset, "id"), topic, 0)
            producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata(), 60)
            producer.commit_transaction(60)

    with contextlib.closing(PositionReader(cluster, group, barrier)) as positions:
        commit(100)
        until("the position", lambda: positions.load(topic, 0) == Position(100, "id"))
        last.pause()
        until("another coordinator", lambda: topics.coordinator(first, group) in (1, 2), PATIENCE)
        commit(200)
        with alone(cut_source):
            assert positions.stable(topic, 0) == Position(100, "id"), "nobody told the old one"
            with pytest.raises(MirrorError):
                positions.load(topic, 0)

        def loaded() -> Position | None:
            with contextlib.suppress(MirrorError):
                return positions.load(topic, 0)
            return None

        assert until("a position", loaded, PATIENCE) == Position(200, "id")


def test_a_group_is_active_and_has_its_offsets_wherever_its_coordinator_is(cut_source: LocalCluster) -> None:
    """librdkafka asks the coordinator that it has found once, for ever, when it describes a group. mirror does not."""
    topic, last = topics.create(cut_source.bootstrap, f"{ALIAS}-active"), cut_source.brokers[-1]
    first, names = cut_source.brokers[0].bootstrap, [f"{ALIAS}-active-{number}" for number in range(30)]

    def coordinated() -> str | None:
        topics.elect(cut_source.bootstrap)
        return next((name for name in names if topics.coordinator(first, name) == last.node), None)

    group = until("a group of the last broker", coordinated, PATIENCE)
    assert group
    cluster = Cluster(ALIAS, {"bootstrap.servers": cut_source.bootstrap}, {}, {})
    target = ClusterAdmin(cluster)
    config = {"bootstrap.servers": first, "group.id": group, "log_level": 0, "session.timeout.ms": 6_000}
    with contextlib.closing(Consumer(config)) as consumer:
        consumer.subscribe([topic])

        def is_active() -> bool:
            consumer.poll(0.1)
            with contextlib.suppress(ClusterAway):
                return group in target.active_groups()
            return False

        def coordinates_again() -> bool:
            topics.elect(cut_source.bootstrap)
            return topics.coordinator(first, group) == last.node  # of this group: an earlier name may have loaded since

        def committed() -> int | None:
            with contextlib.suppress(ClusterAway, PartitionError):
                found, _ = offsets_of(cluster, group, {Partition(topic, 0): (topic, 0)})
                return found[Partition(topic, 0)].offset
            return None

        def commit(offset: int) -> None:
            """Commit as a member of the group, which may have to find the coordinator first."""

            def done() -> bool:
                consumer.poll(0.1)
                with contextlib.suppress(KafkaException):
                    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
                    return True
                return False

            until(f"offset {offset}", done)

        until("active", is_active)
        commit(5)
        assert committed() == 5
        last.kill()
        until("active at another coordinator", is_active, PATIENCE)
        commit(7)
        until("the offset at another coordinator", lambda: committed() == 7, PATIENCE)
        last.start()
        until("the last broker coordinates again", coordinates_again, PATIENCE)
        until("active there", is_active)


def test_a_broker_that_hangs_hides_its_groups_and_the_listing_says_so(cut_source: LocalCluster) -> None:
    """For as long as the others believe that it lives: they have not taken its groups over."""
    topic, last = topics.create(cut_source.bootstrap, f"{ALIAS}-listed"), cut_source.brokers[-1]
    first, names = cut_source.brokers[0].bootstrap, [f"{ALIAS}-listed-{number}" for number in range(10)]
    for name in names:
        topics.commit(first, name, topic, {0: 1})
    source = ClusterAdmin(Cluster(ALIAS, {"bootstrap.servers": cut_source.bootstrap}, {}, {}))

    def listed() -> tuple[set[str], bool]:
        found, are_all = source.listed_groups()
        return set(names).intersection(found), are_all

    def spread() -> bool:
        topics.elect(cut_source.bootstrap)
        return any(topics.coordinator(first, name) == last.node for name in names)

    def hidden() -> bool:
        """True once a listing came in time: three seconds later the others may have taken the groups over."""
        until("a group of the last broker", spread, PATIENCE)
        until("all groups", lambda: listed() == (set(names), True), PATIENCE)
        last.pause()
        some, are_all = listed()
        last.resume()
        assert some == set(names) or not are_all, "what is missing is told"
        return some != set(names)

    until("some groups are hidden", hidden, PATIENCE)
    until("all groups again", lambda: listed() == (set(names), True), PATIENCE)


def test_a_leader_that_was_deposed_proves_no_loss(cut_source: LocalCluster) -> None:
    """Its log ends before the position, and to go back there would copy what follows once more."""
    topic, last = f"{ALIAS}-shorter", cut_source.brokers[-1]
    wanted = NewTopic(topic, 1, replica_assignment=[[last.node, 1]], config={"min.insync.replicas": "1"})
    topics.admin(cut_source.bootstrap).create_topics([wanted])[topic].result(30)
    until("both replicas", lambda: state(cut_source, topic) == (last.node, [1, last.node]))
    pair = Pair(cut_source.brokers[0].bootstrap, "", ALIAS, "")
    pair.produce(topic, *(Made(None, b"x") for _ in range(100)))
    cluster = Cluster(ALIAS, {"bootstrap.servers": last.bootstrap}, {}, {})
    planned = Topic(topic, ClusterAdmin(cluster).topic_ids([topic])[topic], 1, 1)
    source = ClusterAdmin(cluster)  # it connects later: one that knows the others would ask them, too
    last.pause()
    until("another leader", lambda: state(cut_source, topic)[0] == 1, PATIENCE)
    pair.produce(topic, *(Made(None, b"x") for _ in range(100)))

    def found(position: Position) -> loss_detection.Loss | str | None:
        try:
            return loss_detection.find_loss(source, Partition(topic, 0), planned, position, "out of range")
        except PartitionError as error:
            return str(error)
        except ClusterAway:  # it asked one of the others
            return "away"

    def end() -> dict[Partition, int] | None:
        with contextlib.suppress(ClusterAway):
            return source.offsets({Partition(topic, 0): OffsetSpec.latest()})
        return None

    after = Position(200, planned.topic_id, 1)
    after_markers = Position(200, planned.topic_id, epoch_before_markers=1)
    with alone(cut_source):
        assert until("the deposed leader answers", end, PATIENCE) == {Partition(topic, 0): 100}
        for position in (after, after_markers):
            until("refused", lambda at=position: "does not lead any more" in str(found(at)), PATIENCE)  # type: ignore[misc]
    until("no loss", lambda: found(after) is None, PATIENCE)


def test_a_controller_that_is_down_is_not_waited_for(cut_source: LocalCluster) -> None:
    """Clients hear of any broker as the controller; librdkafka would wait for that one to come back."""
    client = ClusterAdmin(Cluster(ALIAS, {"bootstrap.servers": cut_source.bootstrap}, {}, {}))
    topic = f"{ALIAS}-asked"
    topics.create_placed(cut_source.bootstrap, topic, [[1]])
    ids = until("the topic's id", lambda: client.topic_ids([topic]), PATIENCE)

    def heard_of() -> Broker | None:
        """The one it takes for the controller, of those that may be stopped."""
        node = client._admin.list_topics(timeout=10).controller_id
        return next((broker for broker in cut_source.brokers[1:] if broker.node == node), None)

    def answered() -> bool:
        """True once the request succeeds. The cluster names a dead broker until it has noticed that it is down."""
        with contextlib.suppress(ClusterAway):
            return client.topic_ids([topic]) == ids
        return False

    controller = until("a controller to stop", heard_of)
    assert controller
    controller.kill()
    until("the topic's id", answered, PATIENCE)


def test_what_was_cut_off_ahead_of_the_position_is_no_loss(cut_source: LocalCluster) -> None:
    """The consumer was ahead of it: the source still has all that follows what was committed."""
    pair = Pair(cut_source.bootstrap, "", ALIAS, f"{ALIAS}-ahead-")
    name = pair.topic("log")
    pair.produce(name, *(Made(None, b"x") for _ in range(300)))
    source = ClusterAdmin(Cluster(ALIAS, {"bootstrap.servers": pair.source}, {}, {}))
    topic = Topic(pair.remote(name), source.topic_ids([name])[name], 1, 1)

    def found(position: int) -> loss_detection.Loss | None:
        said = "Partition log truncation detected at offset 200 (leader epoch 0): broker end offset is 120"
        return loss_detection.find_loss(source, Partition(name, 0), topic, Position(position, topic.topic_id), said)

    assert found(120) is None
    assert found(121) == loss_detection.Loss("truncated", 121, 120)


def test_a_marker_of_a_newer_leader_is_no_cut(
    cut_source: LocalCluster, target_cluster: LocalCluster, data_path: str, tmp_path: Path
) -> None:
    """A transaction is open over an orderly election, and its end is all that the new leader has written."""
    pair = Pair(cut_source.bootstrap, target_cluster.bootstrap, ALIAS, f"{ALIAS}-marker").by(data_path)
    topic = pair.prefix
    wanted = NewTopic(topic, 1, replica_assignment=[[2, 3]], config={"min.insync.replicas": "1"})
    topics.admin(pair.source).create_topics([wanted])[topic].result(30)
    until("both replicas", lambda: state(cut_source, topic) == (2, [2, 3]))
    producer = Producer({"bootstrap.servers": pair.source, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)

    def copied() -> int:
        return oracle.count(pair.copied(topic))

    def position() -> int | None:
        return oracle.committed_position(pair.target, pair.group, pair.remote(topic), 0)

    with pair.service(tmp_path) as service:
        pair.produce(topic, Made(None, b"before"))
        service.wait_for("the first record", lambda: copied() == 1)
        producer.begin_transaction()
        producer.produce(topic, b"in it", partition=0)
        assert producer.flush(30) == 0
        cut_source.brokers[1].kill()
        until("another leader", lambda: state(cut_source, topic)[0] == 3, PATIENCE)
        producer.commit_transaction(60)
        service.wait_for("the second record", lambda: copied() == 2)
        service.wait_for("a position after the marker", lambda: position() == 3)
        pair.produce(topic, Made(None, b"after"))
        service.wait_for("the third record", lambda: copied() == 3)
        cut_source.brokers[1].start()
        assert service.terminate() == 0, service.tail()
    assert not any(map(service.find, (RETRYING, BLOCKED))), service.tail()
    pair.assert_settled(topic)


class Cut:
    """A flow with a topic whose log is cut."""

    def __init__(self, source: LocalCluster, target: LocalCluster, path: str, name: str, policy: str) -> None:
        self.pair = Pair(source.bootstrap, target.bootstrap, f"{ALIAS}{name}", f"{ALIAS}-log-{name}").by(path)
        self.topic, self.policy, self._source = self.pair.prefix, policy, source
        unclean = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        # The second partition has the consumer hear of the first one's leaders all the time.
        wanted = NewTopic(self.topic, 2, replica_assignment=[[2, 3], [1, 2]], config=unclean)
        topics.admin(self.pair.source).create_topics([wanted])[self.topic].result(30)

    def settings(self) -> configuration.Settings:
        return self.pair.settings({"on_data_loss": self.policy, "tasks_max": 1})

    def state(self) -> tuple[int, list[int]]:
        return state(self._source, self.topic)

    def produce(self, first: int, count: int) -> None:
        self.pair.produce(self.topic, *(Made(None, b"%d" % number) for number in range(first, first + count)))

    def copied(self) -> list[int]:
        found = self.pair.copied(self.topic)
        return [int(record.value or b"") for record in found[0]] if found else []

    @property
    def only(self) -> tuple[str | int, ...]:
        """The options that name its partition."""
        return "--flow", self.pair.flow, "--topic", self.topic, "--partition", 0

    def order(self, service: Service, verb: str) -> Any:
        return answer(verb, "-c", service.file, *self.only)

    def assert_handed_over(self, service: Service) -> None:
        """Check that whole batches were left to the record path, which has the policies, because the log is another."""
        why = {each["reason"] for each in service.find(TAKES_RECORDS, topic=self.topic, partition=0)}
        assert (self.pair.data_path == AUTO) == ("diverged" in why), why

    def choose(self, service: Service) -> None:
        """Check that with `fail` the partition stops, alone, and then choose."""
        assert "was cut at offset 100 " in service.wait_for_event(BLOCKED, PATIENCE, topic=self.topic)["reason"]
        self.pair.produce(self.topic, Made(None, b"other"), partition=1)
        service.wait_for("the other partition goes on", lambda: len(self.pair.copied(self.topic)[1]) == 1)
        assert self.copied() == list(range(150))
        decide(service, *self.only, "--skip-lost")

    def await_told(self, service: Service) -> None:
        """Wait until the loss is told and counted, and what follows it is copied."""
        event = service.wait_for_event(PASSED_OVER, PATIENCE, topic=self.topic)
        assert "was cut at offset 100 " in event["reason"] and "offsets 100 to 149 were copied" in event["reason"]
        service.wait_for("the new ones", lambda: self.copied() == [*range(150), *range(1000, 1200)])
        lost = "mirror_lost_offsets_total"
        service.wait_for("counted", lambda: service.metric(lost, topic=self.topic, reason="truncated") == 50)
        lag = "mirror_source_topic_partition_lag"
        service.wait_for("the new leader tells the end", lambda: service.metric(lag, topic=self.topic) == 0)


@pytest.mark.both_paths
def test_logs_that_were_cut_and_have_grown_again(
    cut_source: LocalCluster, target_cluster: LocalCluster, data_path: str, tmp_path: Path
) -> None:
    """They are longer than the position, so only the leader epoch tells (KIP-320), even if nobody consumes then."""
    kinds = {"consumed": "skip", "paused": "skip", "chosen": "fail"}
    cuts = [Cut(cut_source, target_cluster, data_path, *each) for each in kinds.items()]
    _, paused, chosen = cuts
    _, leader, follower = cut_source.brokers
    settings = {**configuration.together(*(each.settings() for each in cuts)), "spark": {"master": "local[3]"}}
    with Service(settings, tmp_path) as service:

        def produce(first: int, count: int, copied: str) -> None:
            for each in cuts:
                each.produce(first, count)
            service.wait_for(copied, lambda: all(each.copied() == list(range(first + count)) for each in cuts))

        def await_replicas(*in_sync: int) -> None:
            for each in cuts:
                service.wait_for(f"replicas {in_sync}", lambda at=each: at.state() == (2, list(in_sync)))  # type: ignore[misc]

        await_replicas(2, 3)
        produce(0, 100, "the first records")
        for each in cuts:
            each.pair.assert_path(service)
        follower.pause()
        await_replicas(2)
        produce(100, 50, "what will be lost")
        paused.order(service, "pause")
        leader.kill()
        follower.resume()
        for each in cuts:
            until("an unclean leader", lambda at=each: at.state()[0] == 3, PATIENCE)  # type: ignore[misc]
        for each in cuts:
            each.produce(1000, 200)
            assert len(oracle.read(each.pair.source, each.topic)[0]) == 300, "the source has lost 50 records"
        paused.order(service, "resume")
        chosen.choose(service)
        for each in cuts:
            each.await_told(service)
            each.assert_handed_over(service)
        leader.start()
        assert service.terminate() == 0, service.tail()


def test_after_the_remote_log_was_cut_no_lost_record_is_translated_to_a_new_one(
    cut_source: LocalCluster, target_cluster: LocalCluster, data_path: str, tmp_path: Path
) -> None:
    """The log has grown beyond where it was cut, so old entries of the offset map would fit it."""
    pair = Pair(target_cluster.bootstrap, cut_source.bootstrap, f"{ALIAS}remote", f"{ALIAS}-remote").by(data_path)
    topic, (_, leader, follower) = pair.topic("log"), cut_source.brokers
    unclean = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    wanted = NewTopic(pair.remote(topic), 1, replica_assignment=[[leader.node, follower.node]], config=unclean)
    topics.admin(pair.target).create_topics([wanted])[wanted.topic].result(30)
    producer = Producer({"bootstrap.servers": pair.source, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(PATIENCE)

    def copy(first: int, transactions: int) -> None:
        """Transactions of ten records, with a gap in the offsets after each."""
        for number in range(first, first + transactions):
            producer.begin_transaction()
            for record in range(10):
                producer.produce(topic, b"%d" % (10 * number + record), partition=0)
            producer.commit_transaction(PATIENCE)
            until("it is copied", lambda last=b"%d" % (10 * number + 9): values()[-1:] == [last])  # type: ignore[misc]

    def values() -> list[bytes | None]:
        return [record.value for record in (pair.copied(topic) or {0: []})[0]]

    with pair.service(tmp_path, {"sync_topic_configs": False}) as service:
        service.wait_for("both replicas", lambda: state(cut_source, wanted.topic) == (leader.node, [2, 3]))
        copy(0, 3)
        follower.kill()  # not paused: clients would wait for its answers
        service.wait_for("one replica", lambda: state(cut_source, wanted.topic) == (leader.node, [2]))
        copy(3, 10)
        leader.kill()
        follower.start()
        until("an unclean leader", lambda: state(cut_source, wanted.topic)[0] == follower.node, PATIENCE)
        copy(13, 15)
        leader.start()
        assert values() == [b"%d" % number for number in (*range(30), *range(130, 280))], "the target has lost records"
        here, there = oracle.read(pair.source, topic)[0], pair.copied(topic)[0]
        (flow,), partition = load(service.file).flows, Partition(topic, 0)
        places = {record.value: record.offset for record in there}
        with contextlib.closing(Translator(flow)) as translator:
            translator.refresh([partition])
            for each in here:
                lost = 30 <= int(each.value or b"") < 130
                translated = translator.to_downstream(partition, each.offset).translated
                assert translated in ((None, places[b"130"]) if lost else (places[each.value],)), each
        assert service.terminate() == 0, service.tail()


def test_a_partition_without_a_leader_is_reported_and_starts_later(
    cut_source: LocalCluster, target_cluster: LocalCluster, data_path: str, tmp_path: Path
) -> None:
    """It has no position, so only its leader can tell where it starts. Its task is not taken for one that hangs."""
    pair = Pair(cut_source.bootstrap, target_cluster.bootstrap, f"{ALIAS}waits", f"{ALIAS}-waits").by(data_path)
    topic, last = pair.prefix, cut_source.brokers[-1]
    topics.create_placed(cut_source.bootstrap, topic, [[last.node]])
    pair.produce(topic, Made(None, b"first"))
    last.kill()
    until("no leader", lambda: state(cut_source, topic)[0] == -1, PATIENCE)
    with pair.service(tmp_path) as service:

        def has_waited(seconds: float) -> bool:
            (flow,) = json.loads(service.get("/status")[1])["flows"]
            found = [each for topic in flow["topics"] for each in topic["partitions"]]
            return bool(found) and all(
                each["state"] == "retrying"
                and "the source gives no offset to start at" in each["reason"]
                and time.time() - each["since"] > seconds
                for each in found
            )

        service.wait_for("a report", lambda: has_waited(0.0))
        since = len(service.events)
        service.wait_for("longer than a task may be silent", lambda: has_waited(3 * SILENCE), PATIENCE + 3 * SILENCE)
        assert service.find("partitions wait for their start")
        assert not any("did not answer" in event["reason"] for event in service.find(FLOW_RETRYING)), service.tail()
        assert not service.find("partitions without a task", since), service.tail()
        last.start()
        pair.await_same(topic)
        assert service.terminate() == 0, service.tail()
    pair.assert_settled(topic)


def test_a_status_topic_that_was_made_again_has_another_leader(
    source_cluster: LocalCluster, cut_source: LocalCluster, data_path: str, tmp_path: Path
) -> None:
    """Its leader epoch begins anew, and librdkafka stays with the leader of the higher one: reports would be unread."""
    pair = Pair(source_cluster.bootstrap, cut_source.bootstrap, "again", "again-").by(data_path)
    topic, status, first = (
        pair.topic("reported"),
        f"mirror-status.{pair.alias}.internal",
        cut_source.brokers[0].bootstrap,
    )
    with pair.service(tmp_path) as service:
        pair.produce(topic, Made(None, b"first"))
        pair.await_same(topic)
        first_leader = topics.leaders(first, status)[0]
        (broker,) = [each for each in cut_source.brokers if each.node == first_leader]
        broker.kill()
        broker.start()
        service.wait_for(
            "a leader of a newer epoch", lambda: topics.leaders(first, status)[0] not in (-1, first_leader)
        )
        before = topics.leaders(first, status)[0]
        service.wait_for("reports are read", lambda: service.positions(topic) == {0: 1})

        def moved() -> bool:
            since = len(service.events)
            topics.delete(first, status)
            service.wait_for_event(OWN_AGAIN, since=since, topic=status)
            return topics.leaders(first, status)[0] not in (-1, before)

        service.wait_for("another leader", moved)
        pair.produce(topic, Made(None, b"second"))
        service.wait_for("reports are read again", lambda: service.positions(topic) == {0: 2})
        assert not service.find("task lost, another one has taken its slice over")
        assert service.terminate() == 0, service.tail()


def disturb_leader(source: LocalCluster, topic: str, number: int, fault: Callable[[Broker], object]) -> None:
    """The broker that leads a partition is away until another one leads it, comes back, and leads it again."""
    node, _ = state(source, topic, number)
    broker = source.brokers[node - 1]
    fault(broker)
    until("another leader", lambda: state(source, topic, number)[0] != node)
    broker.resume()
    if broker.process is None:
        broker.start()
    for each in range(topics.partitions(source.brokers[0].bootstrap, topic)):
        until("in sync", lambda each=each: len(state(source, topic, each)[1]) == 3)  # type: ignore[misc]

    def leads_again() -> bool:
        """An election does nothing for a broker that the controller does not believe to be back."""
        topics.elect(source.bootstrap)
        return state(source, topic, number)[0] == node

    until("its leader again", leads_again)


def test_the_batch_path_follows_leaders_and_coordinators(
    cut_source: LocalCluster, source_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Brokers of the target are killed, hang and come back. Each record is copied once, over few connections."""
    bootstrap, count = cut_source.bootstrap, 30_000
    pair = Pair(source_cluster.bootstrap, bootstrap, f"{ALIAS}batches", f"{ALIAS}-batches-")
    first, *others = cut_source.brokers
    placed = [[broker.node, first.node, *(other.node for other in others if other != broker)] for broker in others]
    batches = between(pair, tmp_path, placed)
    topic, remote = batches.topic, batches.remote
    stopping = threading.Event()

    def disturb() -> None:
        for number, broker in enumerate(others):
            for fault in (Broker.kill, Broker.pause):
                if stopping.wait(2.0):
                    return
                assert state(cut_source, remote, number)[0] == broker.node
                disturb_leader(cut_source, remote, number, fault)

    disturber = threading.Thread(target=disturb)
    with Load(source_cluster.bootstrap, {topic: len(placed)}, rate=2_000) as running:
        disturber.start()
        try:
            batches.run(lambda: not disturber.is_alive() and running.counts.total > count)
        finally:
            stopping.set()
            disturber.join()
        running.stop()
    assert not batches.left
    batches.copy_all()
    oracle.assert_same(source_cluster.bootstrap, bootstrap, topic, remote)
    assert batches.failures, "the brokers that led the partitions were killed and hung, and nothing has failed"
    assert batches.connections <= sum(MOST_CONNECTIONS.values())
