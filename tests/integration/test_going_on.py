"""After `mirror resume --continue` nothing comes twice, whatever nobody knows of what was copied."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mirror.demo.brokers import LocalCluster
from tests.failpoints.arm import Failpoints
from tests.harness import topics
from tests.harness.command import answer, decide
from tests.harness.load import Made, producer
from tests.harness.load import produce as write
from tests.harness.pair import Pair
from tests.harness.service import BLOCKED, Service
from tests.harness.waiting import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.one_path]  # whoever doubts a position decides on the record path

CODE = Path(__file__).parents[1] / "transforms"


class Flow:
    """A flow of numbers, and the service that runs it. A third is dropped of topics with a transform."""

    def __init__(self, pair: Pair, directory: Path, failpoints: Failpoints) -> None:
        self.pair = pair
        self.failpoints = failpoints
        self._directory = directory
        self._made = Counter[str]()
        self._dropping = [pair.prefix + name for name in ("thirds", "unknown")]
        self.service = self.another()

    def another(self) -> Service:
        """Another service, not started yet."""
        own = {topic: {"transform": "shop_transforms.thirds"} for topic in self._dropping}
        flow = {"producer_idle_timeout": "1s", "topic_settings": own}
        self.service = Service(self.pair.settings(flow), self._directory, self.failpoints.environment)
        return self.service

    def produce(self, topic: str, count: int) -> None:
        """Produce the next numbers."""
        begin = self._made[topic]
        self._made[topic] += count
        self.pair.produce(topic, *(Made(None, b"%d" % number) for number in range(begin, begin + count)))

    def wanted(self, topic: str) -> list[bytes]:
        """What the target has to have."""
        numbers = range(self._made[topic])
        if topic in self._dropping:
            return [b"<%d>" % number for number in numbers if number % 3 != 1]
        return [b"%d" % number for number in numbers]

    def values(self, topic: str) -> list[bytes]:
        """What it has."""
        return [each.value or b"" for each in self.pair.copied(topic).get(0, [])]

    def await_copied(self, topics_: Iterable[str]) -> None:
        """Wait until all is copied, and compare: nothing came twice."""
        for topic in topics_:
            wanted = self.wanted(topic)
            self.service.wait_for(f"{topic} is copied", lambda at=topic, all_=wanted: len(self.values(at)) >= len(all_))  # type: ignore[misc]
            assert self.values(topic) == wanted

    def await_idle(self) -> None:
        """Wait until all is copied and no partition has a producer any more."""
        for topic, made in self._made.items():
            self.service.await_idle(topic, made)

    def resume(self, *how: str | int, code: int = 0) -> Any:
        """Decide about what waits; returns what the command says."""
        return answer("resume", "-c", self.service.file, *how, code=code)


@pytest.fixture
def flow(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
    failpoints: Failpoints,
    monkeypatch: pytest.MonkeyPatch,
) -> Flow:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(CODE), os.environ.get("PYTHONPATH")])))
    pair = Pair(source_cluster.bootstrap, target_cluster.bootstrap, f"g{prefix[-7:-1]}", prefix)
    return Flow(pair, tmp_path, failpoints)


def test_nothing_comes_twice(flow: Flow) -> None:
    pair = flow.pair
    unknown, thirds, lost, strange, foreign = all_ = [
        pair.topic(name) for name in ("unknown", "thirds", "lost", "strange", "foreign")
    ]
    with flow.service:
        for topic in all_:
            flow.produce(topic, 100)
        flow.await_copied(all_)
        flow.await_idle()
        a_strangers_commit_replaces_one_of_unknown_outcome(flow, unknown)
        flow.await_idle()
        kill_after_a_commit_that_nobody_has_reported(flow, thirds, [lost, strange, foreign])
    topics.delete_group(pair.target, pair.group)
    topics.commit(pair.target, pair.group, pair.remote(strange), {0: 7})
    copied = len(flow.values(foreign))
    write(pair.target, pair.remote(foreign), [Made(None, b"somebody else's")])
    for topic in (thirds, lost, strange, foreign):
        flow.produce(topic, 10)
    with flow.another() as service:
        service.wait_for("all are blocked", lambda: service.metric("mirror_partitions", state="blocked") == len(all_))
        said = flow.resume("--continue", code=1)
        assert len(said["decided"]) == len(all_) and [*said["unable"]] == said["waiting"] == [f"{foreign}-0"]
        flow.await_copied([unknown, thirds, lost, strange])
        a_copy_with_a_record_of_somebody_else_is_left_to_people(flow, foreign, copied)
        assert service.terminate() == 0, service.tail()
        assert not service.noise, service.tail()


def a_strangers_commit_replaces_one_of_unknown_outcome(flow: Flow, topic: str) -> None:
    """The task does not know whether its transaction took effect, and what could tell it is gone."""
    flow.failpoints.arm("SIGSTOP", "before-recovery")
    flow.failpoints.arm("RAISE", "after-commit")
    flow.produce(topic, 30)
    worker = flow.failpoints.wait("before-recovery")
    assert flow.failpoints.wait("after-commit") == worker
    assert len(flow.values(topic)) > 100 * 2 // 3 + 1, "it took effect"
    topics.commit(flow.pair.target, flow.pair.group, flow.pair.remote(topic), {0: 3})
    os.kill(worker, signal.SIGCONT)
    flow.produce(topic, 10)
    said = flow.service.wait_for_event(BLOCKED, topic=topic)
    assert said["reason"].startswith(f"position 3 in group {flow.pair.group} was not committed by mirror")
    decide(flow.service, "--topic", topic, "--continue")
    flow.await_copied([topic])


def kill_after_a_commit_that_nobody_has_reported(flow: Flow, topic: str, others: list[str]) -> None:
    """The task of `topic` stops between the commit and the report. The others have nothing to commit by then."""
    for other in others:
        flow.produce(other, 30)
    flow.await_idle()
    before = flow.service.positions(topic)
    flow.failpoints.arm("SIGSTOP", "after-commit")
    flow.produce(topic, 30)
    flow.failpoints.wait("after-commit")
    assert flow.service.positions(topic) == before, "it is reported"
    flow.service.close()


@contextlib.contextmanager
def a_transaction_that_hangs_on_the_offset_map(flow: Flow) -> Iterator[None]:
    """While it is open, nobody can tell where the map ends."""
    stranger = producer(flow.pair.target, transactional_id=flow.pair.alias, transaction_timeout_ms=900_000)
    stranger.init_transactions(PATIENCE)
    stranger.begin_transaction()
    stranger.produce(f"mirror-offset-map.{flow.pair.alias}.internal", b"", b"no entry", partition=0)
    assert stranger.flush(PATIENCE) == 0
    yield
    stranger.abort_transaction(PATIENCE)


def a_copy_with_a_record_of_somebody_else_is_left_to_people(flow: Flow, topic: str, copied: int) -> None:
    said = flow.service.wait_for(
        "told", lambda: [each["reason"] for each in flow.service.find(BLOCKED, topic=topic) if "ends" in each["reason"]]
    )[0]
    assert f"--continue can't find where the copy in {flow.pair.remote(topic)} ends: its record at offset" in said
    assert "somebody else has written there" in said and said.endswith("decide with mirror resume --at or --from-start")
    assert flow.values(topic)[copied:] == [b"somebody else's"], "nothing was copied"
    with a_transaction_that_hangs_on_the_offset_map(flow):
        said = flow.resume("--topic", topic, "--continue", code=1)
        assert "is held by an open transaction" in said["unable"][f"{topic}-0"], "not what was said before"
        flow.resume("--topic", topic, "--partition", 0, "--at", copied)
    wanted = flow.wanted(topic)
    wanted.insert(copied, b"somebody else's")
    flow.service.wait_for("gone on", lambda: flow.values(topic) == wanted)
