"""Mirror's own topics, deleted under a running service: they are made again, and nothing is lost or copied twice."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import IsolationLevel

from mirror.config.load import load
from mirror.control import flow_leader
from mirror.control.control_topics import ControlWriter
from mirror.control.flow_leader import FlowLeader
from mirror.control.orders import Order, Scope
from mirror.demo.brokers import LocalCluster
from mirror.groups.own_topic_writer import OwnTopicWriter
from mirror.kafka import producers
from mirror.kafka.topic_creation import ANY_TIME
from mirror.service.topic_monitor import TopicMonitor
from mirror.settings import Cluster
from mirror.text import BUG
from tests.harness import oracle, topics
from tests.harness.command import answer, mirror
from tests.harness.load import Load, Made
from tests.harness.pair import Pair
from tests.harness.service import BLOCKED, OWN_AGAIN, RETRYING, Service
from tests.harness.together import together
from tests.harness.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.long]

WRITTEN_AGAIN = "control topic lost records: plan, orders and decisions are written again"


@dataclass(frozen=True)
class Running:
    """A service with a topic that is paused, and one that is not, and is under load."""

    pair: Pair
    service: Service
    topic: str
    paused: str

    def own(self, kind: str) -> str:
        """One of mirror's own topics."""
        return f"{kind}.{self.pair.alias}.internal"

    def plans(self) -> list[dict[str, object]]:
        """All that stand on the control topic."""
        found = oracle.read(self.pair.target, self.own("mirror-control"))[0]
        return [json.loads(record.value or b"") for record in found if record.key == b"plan"]

    def delete(self, kind: str) -> None:
        """Delete an own topic, and wait until the service has told of it."""
        since, before = len(self.service.events), topics.topic_id(self.pair.target, self.own(kind))
        topics.delete(self.pair.target, self.own(kind))
        self.service.wait_for_event(OWN_AGAIN, since=since, topic=self.own(kind))
        assert topics.topic_id(self.pair.target, self.own(kind)) != before
        config = topics.configuration(self.pair.target, self.own(kind))
        letters = kind == "mirror-dead-letters"
        assert config["cleanup.policy"] == ("delete" if letters else "compact")
        # MirrorMaker gives its topics nothing but compaction.
        rolls = "604800000" if letters or kind.startswith("mm2-") else "3600000"
        assert config["segment.ms"] == rolls
        # Brokers before Kafka 3.6 do not have these keys.
        assert all(config.get(key, value) == value for key, value in ANY_TIME.items())

    def kill_workers(self) -> None:
        """Kill all workers, and wait for new ones, which have to find the plan."""
        before = set(self.service.worker_pids())
        self.service.kill_workers()
        self.service.wait_for("others", lambda: set(self.service.worker_pids()) - before)

    def await_progress(self) -> None:
        """Wait until what is on the source now has been copied, reported, and counted."""
        ends = oracle.ends(self.pair.source, self.topic, IsolationLevel.READ_UNCOMMITTED)

        def copied() -> bool:
            reported = self.service.positions(self.topic)
            return all((reported.get(number) or 0) >= end for number, end in ends.items())

        self.service.wait_for("progress that is reported", copied)


@pytest.fixture(scope="module")
def running(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    data_path: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Running]:
    """One service for all tests of this file."""
    pair = Pair(source_cluster.bootstrap, target_cluster.bootstrap, "own", "own-topics-").by(data_path)
    topic, paused = pair.topic("busy", 3), pair.topic("paused")
    settings = {"on_poison_record": "dead_letter", "mirrormaker_offsets": {"enabled": True}}
    with (
        pair.service(tmp_path_factory.mktemp("own"), settings) as service,
        Load(pair.source, {topic: 3, paused: 1}, rate=100) as load,
    ):
        service.await_plan()
        answer("pause", "-c", service.file, "--topic", paused)
        yield Running(pair, service, topic, paused)
        answer("resume", "-c", service.file)
        load.stop()
        for each in (topic, paused):
            pair.await_same(each)
        pair.assert_path(service)
        assert service.terminate() == 0, service.tail()
        assert not service.noise
        assert not any(map(service.find, (BUG, RETRYING, BLOCKED))), service.tail()
        for each in (topic, paused):
            pair.assert_settled(each)


def test_the_control_topic_comes_back_with_plan_and_orders(running: Running) -> None:
    running.await_progress()
    before = running.plans()[-1]
    running.delete("mirror-control")
    said = running.service.wait_for_event(WRITTEN_AGAIN)
    assert (said["orders"], said["orders_since_recreation"]) == (1, "nothing")
    (plan,) = until("the plan", running.plans)
    assert int(str(plan["generation"])) > int(str(before["generation"]))
    assert (plan["topics"], plan["leader"]) == (before["topics"], before["leader"])
    running.kill_workers()
    running.await_progress()
    shown = {p["topic"]: p["state"] for p in answer("status", "-c", running.service.file)["flows"][0]["partitions"]}
    assert shown == {running.topic: "running", running.paused: "paused"}


def test_tasks_follow_a_control_topic_that_is_longer_than_what_they_had_read(running: Running) -> None:
    """The new topic's end does not show that it is new: its orders stand at offsets that tasks have read before.

    It is without a plan when the first order is given, which waits for one: a service runs the flow.
    """
    running.await_progress()

    def keys() -> list[bytes | None]:
        return [each.key for each in oracle.read(running.pair.target, running.own("mirror-control")).get(0, [])]

    os.kill(running.service.pid, signal.SIGSTOP)
    try:
        topics.delete(running.pair.target, running.own("mirror-control"))
        with ThreadPoolExecutor() as other:
            said = other.submit(answer, "pause", "-c", running.service.file, "--topic", running.topic)
            until("the order", lambda: any((key or b"").startswith(b"order/") for key in keys()))
            assert answer("status", "-c", running.service.file, code=1)["flows"][0]["state"] == "unknown"
            decided = other.submit(answer, "resume", "-c", running.service.file, "--skip-lost")
            os.kill(running.service.pid, signal.SIGCONT)
            assert obeyed(said.result())
            assert decided.result()["served"]
    finally:
        os.kill(running.service.pid, signal.SIGCONT)
    assert obeyed(answer("resume", "-c", running.service.file, "--topic", running.topic))
    running.await_progress()


def obeyed(said: dict[str, Any]) -> bool:
    return (said["served"], said["waiting"]) == (True, []) and bool(said["partitions"])


def test_what_retention_deletes_from_the_control_topic_is_written_again(running: Running) -> None:
    """Somebody has given the topic a policy that deletes old records. Its id stays the same."""
    running.await_progress()
    target, topic, file = running.pair.target, running.own("mirror-control"), running.service.file
    before, topic_id, since = running.plans()[-1], topics.topic_id(target, topic), len(running.service.events)
    topics.configure(target, topic, cleanup_policy="delete")
    said = {each["what"]: each for each in answer("check", "-c", file)["checks"]}["compaction of mirror's own topics"]
    assert said["outcome"] == "WARNING" and said["said"].startswith(f"{topic}: "), said
    topics.remove_records(target, topic, -1)
    topics.configure(target, topic, cleanup_policy="compact")
    told = running.service.wait_for_event(WRITTEN_AGAIN, since=since)
    assert told["orders"] == 1
    (plan,) = until("the plan", running.plans)
    assert int(str(plan["generation"])) > int(str(before["generation"]))
    assert (plan["topics"], plan["leader"]) == (before["topics"], before["leader"])
    assert topics.topic_id(target, topic) == topic_id
    running.kill_workers()
    running.await_progress()
    shown = {p["topic"]: p["state"] for p in answer("status", "-c", file)["flows"][0]["partitions"]}
    assert shown == {running.topic: "running", running.paused: "paused"}


def test_what_is_missing_is_named_and_comes_back(running: Running, pair: Pair, tmp_path: Path) -> None:
    together(
        partial(others_come_back_too, running),
        partial(it_is_named, pair.other("syncs"), tmp_path, "mm2-offset-syncs"),
        partial(it_is_named, pair.other("letters"), tmp_path, "mirror-dead-letters"),
    )


def others_come_back_too(running: Running) -> None:
    for kind in ("mirror-status", "mm2-offset-syncs", "mirror-offset-map", "mirror-dead-letters", "mm2-offsets"):
        it_comes_back_too(running, kind)


def it_comes_back_too(running: Running, kind: str) -> None:
    running.await_progress()
    running.delete(kind)
    running.kill_workers()
    running.await_progress()
    if kind == "mm2-offset-syncs":
        until("offset syncs", lambda: oracle.count(oracle.read(running.pair.target, running.own(kind))))
    if kind == "mm2-offsets":
        assert topics.partitions(running.pair.target, running.own(kind)) == 25
        until("all positions for MirrorMaker", lambda: len(recorded(running)) == 3)
        ends = oracle.ends(running.pair.source, running.topic, IsolationLevel.READ_UNCOMMITTED)
        until("as far as the source is", lambda: all(recorded(running)[n] + 1 >= end for n, end in ends.items()))
    assert answer("status", "-c", running.service.file)["flows"][0]["well"]


def recorded(running: Running) -> dict[int, int]:
    """The offsets of the busy topic's partitions that a MirrorMaker would find, decoded without mirror."""
    found = {}
    for records in oracle.read(running.pair.target, running.own("mm2-offsets")).values():
        for record in records:
            connector, of = json.loads(record.key or b"")
            assert (connector, of["cluster"]) == ("MirrorSourceConnector", running.pair.alias)
            if of["topic"] == running.topic:
                found[of["partition"]] = json.loads(record.value or b"")["offset"]
    return found


def it_is_named(pair: Pair, directory: Path, kind: str) -> None:
    """The leader stands still, so that nobody makes the topic again. Tasks go on, and their reports are read."""
    missing = f"{kind}.{pair.alias}.internal"
    topic = pair.topic("busy")
    settings = {"on_poison_record": "dead_letter", "transaction_timeout": "10s"}
    with pair.service(directory, settings) as service:

        def reason() -> str:
            shown = json.loads(mirror("status", "-c", service.file, "--json").stdout)["flows"][0]["partitions"]
            return next(str(each["reason"]) for each in shown if each["topic"] == topic)

        pair.produce(topic, Made(None, b"first"))
        pair.await_same(topic)
        os.kill(service.pid, signal.SIGSTOP)
        try:
            topics.delete(pair.target, missing)
            if kind == "mirror-dead-letters":
                topics.configure(pair.target, pair.remote(topic), max_message_bytes=50_000)
                pair.produce(topic, Made(None, random.randbytes(60_000)))
            else:
                pair.produce(topic, Made(None, b"second"))
            said = until("told", reason)
        finally:
            os.kill(service.pid, signal.SIGCONT)
        assert missing in said, said
        service.wait_for_event(OWN_AGAIN, topic=missing)
        pair.produce(topic, Made(None, b"last"))
        service.wait_for("it goes on", lambda: [r.value for r in pair.copied(topic)[0]][-1:] == [b"last"])


def test_a_topic_that_is_deleted_as_soon_as_it_was_made_shows_as_made_again(pair: Pair, tmp_path: Path) -> None:
    """There was no look at it in between."""
    (flow,) = load(pair.service(tmp_path).file, {}).flows
    monitor = TopicMonitor(flow)
    assert monitor.ensure_internal_topics() == {}
    before = topics.topic_id(pair.target, flow.status_topic)
    topics.delete(pair.target, flow.status_topic)
    until("it is gone", lambda: not topics.partitions(pair.target, flow.status_topic))
    ((topic, topic_id),) = until("made again", monitor.ensure_internal_topics).items()
    assert topic == flow.status_topic
    assert topic_id != before


def test_a_small_queue_of_the_users_takes_many_records(target_cluster: LocalCluster, prefix: str) -> None:
    """`queue.buffering.max.messages` is among the properties of `producer`, which hold for mirror's own topics, too."""
    small = {"queue.buffering.max.messages": "5"}
    topic = topics.create(target_cluster.bootstrap, f"{prefix}small-queue")
    cluster = Cluster("backup", {"bootstrap.servers": target_cluster.bootstrap}, consumer={}, producer=small)
    wanted = {b"%d" % number: b"value" for number in range(100)}
    with closing(OwnTopicWriter(cluster, topic)) as writer:
        writer.write(wanted)
    assert {each.key: each.value for each in oracle.read(target_cluster.bootstrap, topic)[0]} == wanted


def test_it_takes_many_orders_too(pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what the flow leader writes again in one transaction, which may be more than even its own queue takes."""
    small = {"queue.buffering.max.messages": "5"}
    properties = producers.transactional_properties
    monkeypatch.setattr(flow_leader, "transactional_properties", lambda *about: {**properties(*about), **small})
    (flow,) = load(pair.service(tmp_path).file, {}).flows
    flow = replace(flow, target=replace(flow.target, producer=small))
    TopicMonitor(flow).ensure_internal_topics()
    orders = {Scope("orders", number): Order(number % 2 == 0) for number in range(100)}
    wanted = {scope.key(): order.encode() for scope, order in orders.items()}
    ControlWriter(flow).order(orders)
    FlowLeader(flow, "us")._commit(wanted)
    found = [(each.key, each.value) for each in oracle.read(pair.target, flow.control_topic)[0]]
    assert found == [*wanted.items()] * 2
