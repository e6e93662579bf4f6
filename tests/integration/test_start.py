"""Where a flow starts: earliest, latest, a time; and never again elsewhere. And what compaction has left."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from mirror.local_kafka import LocalCluster
from tests.harness import oracle, topics
from tests.harness.configuration import Settings
from tests.harness.load import Made
from tests.harness.oracle import committed_position
from tests.harness.pair import Pair
from tests.harness.service import Service
from tests.harness.waiting import until

KEYS = [b"k%d" % number for number in range(10)]


def made(name: str, numbers: range) -> list[Made]:
    return [Made(None, f"{name} {number}".encode()) for number in numbers]


def values(pair: Pair, topic: str, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in pair.copied(topic).get(partition, [])]


def together(flows: dict[Pair, str | int]) -> Settings:
    """One service for several flows; each begins at its `start`."""
    all_of_them: Settings = {"clusters": {}, "flows": []}
    for pair, start in flows.items():
        one = pair.settings({"start": str(start)})
        clusters = {**all_of_them["clusters"], **one["clusters"]}
        all_of_them = {**one, "clusters": clusters, "flows": [*all_of_them["flows"], *one["flows"]]}
    return {**all_of_them, "spark": {"master": "local[3]"}}


def compacted(pair: Pair) -> str:
    """A topic that the broker has compacted: one record for each key, tombstones among them, and gaps."""
    topic = pair.topic(
        "compacted", cleanup_policy="compact", segment_ms=100, min_cleanable_dirty_ratio=0.01, max_compaction_lag_ms=100
    )
    quick = ConfigEntry("log.cleaner.backoff.ms", "100", incremental_operation=AlterConfigOpType.SET)
    broker = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[quick])
    topics.admin(pair.source).incremental_alter_configs([broker])[broker].result(30)
    pair.produce(topic, *(Made(key, b"%d" % turn) for turn in range(50) for key in KEYS))
    pair.produce(topic, *(Made(key, None) for key in KEYS[:3]))
    ticks = 0

    def is_compacted() -> bool:
        # Only a record that comes later closes a segment, and only a closed one is compacted.
        nonlocal ticks
        ticks += 1
        pair.produce(topic, Made(b"tick %d" % ticks, b""))
        records = oracle.read(pair.source, topic)[0]
        return len(records) == len(KEYS) + ticks

    until("the broker has compacted", is_compacted)
    return topic


def test_starts(source_cluster: LocalCluster, target_cluster: LocalCluster, prefix: str, tmp_path: Path) -> None:
    source, target = source_cluster.bootstrap, target_cluster.bootstrap
    name = f"s{prefix[-7:-1]}"
    early, late, at = (Pair(source, target, f"{name}-{start}", prefix) for start in ("early", "late", "at"))
    began = int(time.time() * 1000) - 3_600_000
    topic = early.topic("old", 2)
    for number, record in enumerate(made("old", range(10))):
        early.produce(topic, record, timestamp=began + number)
    early.produce(topic, *made("side", range(3)), partition=1, timestamp=began)
    gaps = compacted(early)
    settings = together({early: "earliest", late: "latest", at: began + 5})

    with Service(settings, tmp_path) as service:
        early.await_same(topic)
        early.await_same(gaps)
        for pair, first, side in ((late, 10, 3), (at, 5, 3)):
            for partition, start in ((0, first), (1, side)):
                # What is committed before any record comes does not depend on when it comes.
                service.wait_for(
                    f"{pair.alias} has a position",
                    lambda p=pair, n=partition: held(p, topic, n) is not None,  # type: ignore[misc]
                )
                position = held(pair, topic, partition)
                assert position == start or (pair is at and position == 10), f"{pair.alias} {partition}"
        early.produce(topic, *made("new", range(5)))
        expected = {early: range(10), late: range(0), at: range(5, 10)}
        new = [record.value for record in made("new", range(5))]
        for pair, old in expected.items():
            wanted = [record.value for record in made("old", old)] + new
            until(f"{pair.alias} has what it should", lambda p=pair, w=wanted: values(p, topic) == w)  # type: ignore[misc]
        # A topic that appears while a flow runs was never seen: it is copied as a whole.
        appeared = early.topic("appeared")
        early.produce(appeared, *made("at once", range(20)))
        for pair in expected:
            pair.await_same(appeared)
        assert service.terminate() == 0, service.tail()

    early.produce(topic, *made("down", range(5)))
    early.produce(topic, *made("down side", range(2)), partition=1)
    unseen = early.topic("unseen")
    early.produce(unseen, *made("unseen", range(20)))
    down = [record.value for record in made("down", range(5))]
    with Service(settings, tmp_path):
        for pair, old in expected.items():
            wanted = [record.value for record in made("old", old)] + new + down
            until(f"{pair.alias} missed nothing", lambda p=pair, w=wanted: values(p, topic) == w, 60)  # type: ignore[misc]
            pair.await_same(unseen)
        side = [record.value for record in made("down side", range(2))]
        for pair in (late, at):
            until(f"{pair.alias} missed nothing", lambda p=pair: values(p, topic, 1) == side)  # type: ignore[misc]

    left = early.copied(gaps)[0]
    assert {record.key for record in left if record.value is None} == set(KEYS[:3]), "tombstones"
    assert oracle.read(source, gaps)[0][-1].offset > len(left), "there were gaps"
    assert topics.config(target, early.remote(gaps))["cleanup.policy"] == "compact"
    oracle.assert_positions(source, target, gaps, early.remote(gaps), early.group)


def held(pair: Pair, topic: str, partition: int) -> int | None:
    return committed_position(pair.target, pair.group, pair.remote(topic), partition)
