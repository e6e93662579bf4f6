"""A worker that is killed or fails between any two steps of a transaction: nothing is lost or doubled."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial

import pytest

from mirror.demo.brokers import LocalCluster
from mirror.text import BUG
from tests.chaos.commits import Commits
from tests.failpoints.arm import Failpoints
from tests.harness import oracle, topics
from tests.harness.command import answer
from tests.harness.configuration import RECORDS
from tests.harness.load import Load, Made
from tests.harness.pair import Pair
from tests.harness.service import BLOCKED, TAKES_RECORDS, Service
from tests.harness.together import together

pytestmark = pytest.mark.long

ALIAS = "failpoints"
REFRESH = 5.0  # seconds, in place of a day


@pytest.fixture(scope="module")
def flow(source_cluster: LocalCluster, target_cluster: LocalCluster, data_path: str) -> Pair:
    return Pair(source_cluster.bootstrap, target_cluster.bootstrap, ALIAS, f"{ALIAS}-").by(data_path)


@pytest.fixture(scope="module")
def service(flow: Pair, failpoints: Failpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    environment = {**failpoints.environment, "MIRROR_RENEW_INTERVAL": str(REFRESH)}
    settings = flow.settings({"transaction_timeout": "5s"})
    with Service(settings, tmp_path_factory.mktemp("service"), environment) as running:
        flow.topic("first")
        yield running.await_plan()
        flow.assert_path(running)
        assert running.terminate() == 0, running.tail()
        assert not running.noise, running.tail()


@pytest.mark.parametrize("step", ["before-produce", "after-produce", "after-offsets", "after-commit"])
@pytest.mark.both_paths
def test_killed_in_a_transaction(flow: Pair, service: Service, failpoints: Failpoints, step: str) -> None:
    topic = flow.topic(step, 2)
    with Load(flow.source, {topic: 2}, rate=300) as load:
        load.wait_for(300)
        failpoints.send("SIGKILL", step, nth=2)
        load.wait_for(load.counts.total + 300)
        load.stop()
        flow.await_same(topic)
    flow.assert_settled(topic)
    assert service.exit_code is None


@pytest.mark.parametrize("step", ["before-fence", "after-fence"])
@pytest.mark.both_paths
def test_killed_while_taking_over(flow: Pair, service: Service, failpoints: Failpoints, step: str) -> None:
    failpoints.arm("SIGKILL", step)
    topic = flow.topic(step)
    flow.produce(topic, Made(None, b"wakes the partition"))
    failpoints.wait(step)
    flow.await_same(topic)
    flow.assert_settled(topic)
    assert service.exit_code is None


@pytest.mark.both_paths
def test_a_call_that_never_returns(flow: Pair, service: Service, failpoints: Failpoints) -> None:
    """The task ends after all the transaction's time-outs, and its successor goes on."""
    topic = flow.topic("hangs", 2)
    flow.produce(topic, Made(None, b"before"))
    flow.await_same(topic)
    with Load(flow.source, {topic: 2}, rate=100) as load:
        hung = failpoints.send("HANG", "after-offsets")
        service.wait_for_event("task failed and starts again")
        load.wait_for(load.counts.total + 100)
        load.stop()
        flow.await_same(topic)
    flow.assert_settled(topic)
    assert hung not in service.worker_pids()


@pytest.mark.both_paths
def test_copying_goes_on_after_a_defect(flow: Pair, service: Service, failpoints: Failpoints) -> None:
    """On the record path even the recovery has one, and is tried again. One of the batch path ends it for a while."""
    topic = flow.topic("defect")
    if flow.data_path == RECORDS:
        failpoints.arm("RAISE", "before-recovery")
    with Load(flow.source, {topic: 1}, rate=300) as load:
        load.wait_for(300)
        failpoints.send("RAISE", "after-offsets")
        if flow.data_path == RECORDS:
            failpoints.wait("before-recovery")
        else:
            service.wait_for_event(TAKES_RECORDS, reason="defect")  # of any partition: all renew their positions soon
        load.wait_for(load.counts.total + 300)
        load.stop()
        flow.await_same(topic)
    flow.assert_settled(topic)
    (defect,) = service.find(BUG)
    step = "before-recovery" if flow.data_path == RECORDS else "after-offsets"
    assert f"RuntimeError: {step}" in defect["exception"]


def test_positions_are_committed_again(flow: Pair, service: Service) -> None:
    together(
        partial(position_of_an_idle_partition_is_committed_again, flow, service),
        *(partial(position_is_committed_again, flow, service, why) for why in ("refused", "lost", "lost-and-paused")),
    )


def position_of_an_idle_partition_is_committed_again(flow: Pair, service: Service) -> None:
    """The broker would forget it after `offsets.retention.minutes`, because the group has no members."""
    topic = flow.topic("idle")
    flow.produce(topic, Made(None, b"alone"))
    flow.await_same(topic)
    flow.assert_settled(topic)
    await_commits(flow, service, topic)
    flow.assert_settled(topic)


def position_is_committed_again(flow: Pair, service: Service, why: str) -> None:
    """The partition can't go on. Once the broker had forgotten its position, all would be copied again."""
    topic = flow.topic(why)
    flow.produce(topic, Made(None, b"first"))
    flow.await_same(topic)
    if why == "refused":
        topics.configure(flow.target, flow.remote(topic), max_message_bytes=1_000)
        flow.produce(topic, Made(None, random.Random(1).randbytes(10_000)))
    else:
        topics.recreate(flow.source, topic)
    service.wait_for("the reason", lambda: any("at offset" in e["reason"] for e in service.find(BLOCKED, topic=topic)))
    if why == "lost-and-paused":
        answer("pause", "-c", service.file, "--topic", topic)
    await_commits(flow, service, topic)
    assert oracle.count(flow.copied(topic)) == 1


def await_commits(flow: Pair, service: Service, topic: str) -> None:
    """Wait until the position was committed twice more, as it is."""
    position = oracle.committed_position(flow.target, flow.group, flow.remote(topic), 0)
    commits = Commits(flow, flow.remote(topic))
    # Lost data is looked for each 30 s.
    service.wait_for("two more commits", lambda: len(list(commits.read())) >= 2, 150)
    assert oracle.committed_position(flow.target, flow.group, flow.remote(topic), 0) == position
