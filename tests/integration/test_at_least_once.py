"""`exactly_once: false`: nothing is lost, and only what was under way at a crash may come twice."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mirror.demo.brokers import LocalCluster
from tests.chaos.recorder import Recorder
from tests.checker.checker import check
from tests.failpoints.arm import Failpoints
from tests.harness import oracle, topics
from tests.harness.command import answer
from tests.harness.configuration import LONG_DRAIN
from tests.harness.load import Made
from tests.harness.pair import Pair
from tests.harness.seeds import seed
from tests.harness.service import REFUSED, Service
from tests.harness.waiting import PATIENCE

pytestmark = pytest.mark.slow

ALIAS = "least"
BATCH = 200
CRASHES = 3


@pytest.fixture(scope="module")
def plain_target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A target of these tests' own, of which nobody may ever ask for a transaction."""
    with LocalCluster("plain", tmp_path_factory.mktemp("plain")) as running:
        yield running
        assert "__transaction_state" not in topics.admin(running.bootstrap).list_topics(timeout=30).topics


@pytest.fixture(scope="module")
def flow(source_cluster: LocalCluster, plain_target: LocalCluster) -> Pair:
    return Pair(source_cluster.bootstrap, plain_target.bootstrap, ALIAS, f"{ALIAS}-")


@pytest.fixture(scope="module")
def service(flow: Pair, failpoints: Failpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    policies = {"exactly_once": False, "batch_max_records": BATCH, "on_poison_record": "skip"}
    settings = flow.settings(policies, drain_timeout=LONG_DRAIN)
    settings["clusters"]["backup"]["producer"] = {"batch.num.messages": 10}  # many requests for one of our batches
    with Service(settings, tmp_path_factory.mktemp("service"), failpoints.environment) as running:
        flow.topic("first")
        yield running.await_plan()
        assert not running.noise, running.tail()


def test_no_offset_is_called_exact(flow: Pair, service: Service) -> None:
    topic = flow.topic("translated")
    flow.produce(topic, Made(None, b"x"))
    flow.await_same(topic)
    (found,) = answer("translate", "-c", service.file, "--topic", topic, "--partition", 0, "--offset", 0, code=1)[
        "offsets"
    ]
    assert (found["translated"], found["reason"]) == (None, "not exact: the flow runs with exactly_once: false")


class PlainRecorder(Recorder):
    """A recorder that judges no groups: without exactly-once no offset is exact, so no group is synced."""

    judges_groups = False


def test_workers_are_killed(flow: Pair, service: Service, failpoints: Failpoints) -> None:
    rng = random.Random(seed())
    with PlainRecorder(flow) as recorder:
        recorder.await_first()
        for crash in range(CRASHES):
            if crash:
                os.kill(rng.choice(service.wait_for("workers", service.worker_pids, PATIENCE)), signal.SIGKILL)
            else:  # records stand that the position does not know of
                failpoints.send("SIGKILL", "before-position", rng.randint(1, 20))
            recorder.await_progress()
        histories = recorder.finish()
    for history in histories:  # each worker had both partitions, or one of them
        assert check(replace(history, crashes=CRASHES, batch=BATCH)) == []
        assert len(history.target) > BATCH
    assert any(len({r.identity for r in history.target}) < len(history.target) for history in histories)


def test_the_target_goes_away(flow: Pair, service: Service, plain_target: LocalCluster) -> None:
    """It is away for less than transaction_timeout, and nothing that stands on the target is sent again."""
    with PlainRecorder(flow) as recorder:
        recorder.await_first()
        plain_target.kill()
        plain_target.start()
        recorder.await_progress()
        histories = recorder.finish()
    for history in histories:
        assert check(replace(history, crashes=0)) == []
        assert len(history.target) > BATCH


def test_only_what_was_refused_is_sent_again(flow: Pair, service: Service) -> None:
    """If the target takes half of a batch, only the other half is sent again."""
    topic = flow.topic("refused")
    flow.produce(topic, Made(None, b"0"))
    flow.await_same(topic)
    topics.configure(flow.target, flow.remote(topic), max_message_bytes=50_000)
    records = [Made(None, b"%d" % number) for number in range(1, 2 * BATCH)]
    for at in (BATCH // 2, BATCH + BATCH // 2):
        records.insert(at, Made(b"large", b"x" * 60_000))
    flow.produce(topic, *records)
    service.wait_for(
        "both passed over",
        lambda: len(service.find(REFUSED, topic=topic)) == 2,
    )
    service.wait_for("all others", lambda: flow.copied(topic)[0][-1].value == records[-1].value)
    assert [record.value for record in flow.copied(topic)[0]] == [b"%d" % number for number in range(2 * BATCH)]


def test_an_orderly_stop_doubles_nothing(flow: Pair, service: Service, tmp_path: Path) -> None:
    topic = flow.topic("stopped")
    flow.produce(topic, *(Made(None, b"%d" % number) for number in range(20_000)))
    service.wait_for("some records", lambda: oracle.count(flow.copied(topic)) > 0)
    assert service.terminate() == 0, service.tail()
    with flow.service(tmp_path, {"exactly_once": False, "batch_max_records": BATCH}):
        flow.await_same(topic)
