"""Pause and resume: a topic, a partition and a flow, while the service runs and over its restart."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path

import pytest

from tests.harness import oracle, topics
from tests.harness.command import answer, decide, mirror
from tests.harness.configuration import AUTO
from tests.harness.load import Load, Made
from tests.harness.pair import Pair
from tests.harness.service import BLOCKED, RETRYING, TAKES_BATCHES, Service
from tests.harness.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.long]
RETENTION = 7 * 86_400  # seconds, Kafka's default


def partitions_in(service: Service, state: str) -> float:
    return service.metric("mirror_partitions", state=state)


def position(pair: Pair, topic: str, partition: int) -> int | None:
    return oracle.committed_position(pair.target, pair.group, pair.remote(topic), partition)


def on_target(pair: Pair, topic: str) -> int:
    return oracle.count(pair.copied(topic))


def copied(service: Service, topic: str, **partition: int) -> float:
    return service.metric("mirror_source_records_total", topic=topic, **partition)


@pytest.mark.both_paths
def test_a_paused_topic_stays_paused_over_a_restart_while_another_goes_on(pair: Pair, tmp_path: Path) -> None:
    held, free = pair.topic("held", 2), pair.topic("free", 2)
    service = pair.service(tmp_path)
    with Load(pair.source, {held: 2, free: 2}, rate=300) as load:
        with service:
            for topic, number in itertools.product((held, free), (0, 1)):
                each = partial(copied, service, topic, partition=number)
                service.wait_for(f"{topic}-{number} copied", lambda each=each: each() > 50)  # type: ignore[misc]
            said = answer("pause", "-c", service.file, "--topic", held)
            assert said == {
                "flow": pair.flow,
                "topic": held,
                "partition": None,
                "paused": True,
                "partitions": 2,
                "waiting": [],
                "served": True,
            }
            paused_at = [position(pair, held, number) for number in (0, 1)]
            before, others = on_target(pair, held), copied(service, free)
            # The command reads the reports, too, and may do so before the service.
            service.wait_for("it is counted", lambda: partitions_in(service, "paused") == 2)
            assert service.get("/readyz") == (200, "ok\n"), "who is paused has not failed"
            view = answer("status", "-c", service.file)["flows"][0]
            states = {(p["topic"], p["partition"]): p["state"] for p in view["partitions"]}
            assert states == {(t, n): "paused" if t == held else "running" for t in (held, free) for n in (0, 1)}
            assert view["orders"] == [f"topic {held}: paused"] and view["well"]
            lag = service.metric("mirror_source_topic_partition_lag", topic=held)
            service.wait_for("the other goes on", lambda: copied(service, free) > others + 300)
            service.wait_for(
                "lag is still told", lambda: service.metric("mirror_source_topic_partition_lag", topic=held) > lag + 300
            )
            service.wait_for("its retention", lambda: service.metric("mirror_retention_used_ratio") > 0)
            left = service.metric("mirror_retention_remaining_seconds")
            assert 0 < RETENTION - left < 600, "of a paused partition, too, though it is not fetched"
            assert 0 < service.metric("mirror_retention_used_ratio") < 600 / RETENTION
            # New partitions of a paused topic are paused too.
            topics.grow(pair.source, held, 3)
            service.wait_for("a third one paused", lambda: partitions_in(service, "paused") == 3)
            service.kill()
        with pair.service(tmp_path) as service:
            service.wait_for("the other goes on", lambda: copied(service, free) > 150)
            service.wait_for("still paused", lambda: partitions_in(service, "paused") == 3)
            assert [position(pair, held, number) for number in (0, 1)] == paused_at
            assert on_target(pair, held) == before

            ended = mirror("resume", "-c", service.file, "--topic", held, "--partition", 1)
            assert (ended.returncode, ended.stdout) == (0, f"{pair.flow}: partition {held}-1: resumed (1 partition)\n")
            service.wait_for("one partition goes on", lambda: copied(service, held, partition=1) > 300)
            assert position(pair, held, 0) == paused_at[0]
            assert answer("resume", "-c", service.file)["partitions"] == 5
            if pair.data_path == AUTO:
                service.wait_for_event(TAKES_BATCHES, topic=held, partition=0)
            load.stop()
            pair.await_same(held)
            pair.await_same(free)
            assert service.terminate() == 0, service.tail()
    ended = mirror("status", "-c", service.file, "--partitions")
    assert ended.returncode == 1 and "stopped in order" in ended.stdout and f"{held}-2" in ended.stdout
    pair.assert_settled(held)
    pair.assert_settled(free)


def test_an_order_without_a_service_stands(pair: Pair, tmp_path: Path) -> None:
    topic = pair.topic("later")
    service = pair.service(tmp_path)
    assert answer("status", "-c", service.file, code=1)["flows"][0]["state"] == "new"
    ended = mirror("pause", "-c", service.file)
    assert ended.returncode == 0, ended.stderr
    assert "when a service runs" in ended.stdout
    with Load(pair.source, {topic: 1}, rate=100) as load, service:
        load.wait_for(50)
        service.wait_for("paused from the first", lambda: partitions_in(service, "paused") == 1)
        assert position(pair, topic, 0) is None
        assert answer("resume", "-c", service.file)["waiting"] == []
        load.stop()
        pair.await_same(topic)
    wrong = mirror("pause", "-c", service.file, "--topic", "nobody-mirrors-this")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "does not mirror topic nobody-mirrors-this" in wrong.stderr
    assert mirror("pause", "-c", service.file, "--partition", 1).returncode == 2
    until("nothing left", lambda: not service.processes())


@pytest.mark.both_paths
def test_a_topic_that_is_recreated_while_paused_is_not_taken_for_the_old_one(pair: Pair, tmp_path: Path) -> None:
    """It is not even before the next plan, and although it is longer than the old one was."""
    topic = pair.topic("recreated")
    old, new = (
        [Made(None, b"%s %d" % (word, n)) for n in range(count)] for word, count in ((b"old", 100), (b"new", 300))
    )
    with pair.service(tmp_path, {"refresh_topics_interval": "1h"}) as service:
        pair.produce(topic, *old)
        pair.await_same(topic)
        answer("pause", "-c", service.file, "--topic", topic)
        topics.recreate(pair.source, topic)
        pair.produce(topic, *new)
        answer("resume", "-c", service.file, "--topic", topic)
        said = service.wait_for_event(RETRYING, topic=topic)
        assert "another of its name waits for the next plan" in said["reason"]
        assert (said["flow"], said["state"]) == (pair.flow, "retrying")
        assert on_target(pair, topic) == len(old)


def test_a_decision_lifts_no_pause(pair: Pair, tmp_path: Path) -> None:
    blocked, held = pair.topic("blocked"), pair.topic("held")
    with pair.service(tmp_path, {"producer_idle_timeout": "1s"}) as service:
        for topic in (blocked, held):
            pair.produce(topic, Made(None, b"first"))
            pair.await_same(topic)
        answer("pause", "-c", service.file, "--topic", held)
        nothing = mirror("resume", "-c", service.file, "--continue")
        assert (nothing.returncode, nothing.stdout.count("\n")) == (0, 1), nothing
        assert "no partition of all topics waits for this decision" in nothing.stdout
        service.await_idle(blocked, 1)
        topics.commit(pair.target, pair.group, pair.remote(blocked), {0: 0})
        pair.produce(blocked, Made(None, b"second"))
        service.wait_for_event(BLOCKED, topic=blocked)
        answer("pause", "-c", service.file, "--topic", blocked)
        said = decide(service, "--continue")
        (line,) = said["decided"]
        assert line.startswith(f"{blocked}-0 stays paused; once it is resumed, it continues after"), line
        assert (said["waiting"], said["served"]) == ([], True)
        view = answer("status", "-c", service.file)["flows"][0]
        assert {p["topic"]: p["state"] for p in view["partitions"]} == {blocked: "paused", held: "paused"}
        answer("resume", "-c", service.file, "--topic", blocked)
        pair.await_same(blocked)
        view = answer("status", "-c", service.file)["flows"][0]
        assert f"topic {held}: paused" in view["orders"]
        assert {p["topic"]: p["state"] for p in view["partitions"]}[held] == "paused"
        pair.produce(held, Made(None, b"second"))
        answer("resume", "-c", service.file)
        pair.await_same(held)
        assert service.terminate() == 0, service.tail()
    for topic in (blocked, held):
        pair.assert_settled(topic)
