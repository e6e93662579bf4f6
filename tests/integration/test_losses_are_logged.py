"""A loss is logged, and a refused record put aside once, even if the worker is killed at that moment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirror.demo.brokers import LocalCluster
from tests.failpoints.arm import Failpoints
from tests.harness import oracle, topics
from tests.harness.load import Made
from tests.harness.pair import Pair
from tests.harness.service import PASSED_OVER, REFUSED, Service

pytestmark = pytest.mark.slow

ALIAS = "logged"
GOOD = [Made(b"key", b"%d" % number, [("number", b"%d" % number)]) for number in range(30)]
BAD = Made(b"key", b"x" * 60_000, [("name", b"value")])


@pytest.fixture(scope="module")
def flow(source_cluster: LocalCluster, target_cluster: LocalCluster, data_path: str) -> Pair:
    return Pair(source_cluster.bootstrap, target_cluster.bootstrap, ALIAS, f"{ALIAS}-").by(data_path)


@pytest.fixture(scope="module")
def service(flow: Pair, failpoints: Failpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    policies = {"transaction_timeout": "5s", "on_data_loss": "skip", "on_poison_record": "dead_letter"}
    with Service(flow.settings(policies), tmp_path_factory.mktemp("service"), failpoints.environment) as running:
        flow.topic("first")
        yield running.await_plan()
        flow.assert_path(running)
        assert running.terminate() == 0, running.tail()
        assert not running.noise, running.tail()


def test_a_loss_is_logged_when_the_worker_is_killed_after_its_commit(
    flow: Pair, service: Service, failpoints: Failpoints
) -> None:
    topic = flow.topic("lost")
    flow.produce(topic, *GOOD)
    flow.await_same(topic)
    flow.assert_settled(topic)
    with service.workers_stopped():
        flow.produce(topic, *GOOD)
        topics.remove_records(flow.source, topic, 45)
        failpoints.arm("SIGKILL", "after-commit")
    failpoints.wait("after-commit")
    assert "offsets 30 to 44 were deleted" in service.wait_for_event(PASSED_OVER, topic=topic)["reason"]
    wanted = [made.value for made in (*GOOD, *GOOD[15:])]
    service.wait_for("what is left", lambda: [r.value for r in flow.copied(topic)[0]] == wanted)


@pytest.mark.parametrize("nth", [1, 2, 4])
@pytest.mark.parametrize("step", ["after-offsets", "after-commit"])
def test_a_dead_letter_is_in_the_transaction_that_passes_its_record_over(
    flow: Pair, service: Service, failpoints: Failpoints, step: str, nth: int
) -> None:
    topic = flow.topic(f"{step}-{nth}")
    flow.produce(topic, GOOD[0])
    flow.await_same(topic)
    flow.assert_settled(topic)
    topics.configure(flow.target, flow.remote(topic), max_message_bytes=50_000)
    failpoints.arm("SIGKILL", step, nth)
    flow.produce(topic, *GOOD[1:15], BAD, *GOOD[15:])
    failpoints.wait(step)
    wanted = [(made.value, tuple(made.headers)) for made in GOOD]
    service.wait_for("what is good", lambda: [(r.value, r.headers) for r in flow.copied(topic)[0]] == wanted)
    assert "at offset 15 " in service.wait_for_event(REFUSED, topic=topic)["reason"]
    (letters,) = oracle.read(flow.target, f"mirror-dead-letters.{flow.alias}.internal").values()
    ours = [each for each in letters if ("mirror.dead-letter.topic", topic.encode()) in each.headers]
    assert [(each.key, each.value) for each in ours] == [(BAD.key, BAD.value)]
    assert set(BAD.headers) <= set(ours[0].headers)
