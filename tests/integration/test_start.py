"""Where a flow starts: earliest, latest, a time; and never again elsewhere. And what compaction has left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from confluent_kafka import OFFSET_END
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from mirror.config.load import load
from mirror.demo.brokers import LocalCluster
from mirror.groups.group_choice import GroupOutcome
from mirror.groups.group_sync import GroupSync
from tests.harness import configuration, oracle, topics
from tests.harness.command import answer
from tests.harness.load import Made
from tests.harness.oracle import committed_position
from tests.harness.pair import Pair
from tests.harness.service import BLOCKED, DECIDED, RETRYING, Service
from tests.harness.together import together
from tests.harness.waiting import until

WITHOUT_POSITION = "has no position: they may be copied twice"
KEYS = [b"k%d" % number for number in range(10)]


def made(name: str, numbers: range) -> list[Made]:
    return [Made(None, f"{name} {number}".encode()) for number in numbers]


def values(pair: Pair, topic: str, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in pair.copied(topic).get(partition, [])]


def await_values(pair: Pair, topic: str, wanted: list[Made], partition: int = 0) -> None:
    expected = [each.value for each in wanted]
    until(f"{pair.alias} has all that it should, and nothing else", lambda: values(pair, topic, partition) == expected)


def await_position(pair: Pair, topic: str, partition: int) -> int:
    """The position that is committed before there is any record."""

    def position() -> tuple[int] | None:
        at = committed_position(pair.target, pair.group, pair.remote(topic), partition)
        return None if at is None else (at,)

    found = until(f"{pair.alias} has a position in {topic}-{partition}", position)
    assert found
    return found[0]


@contextmanager
def quick_cleaner(bootstrap: str) -> Iterator[None]:
    """The broker looks all the time for what it can compact, and afterwards as seldom as usual."""

    def alter(operation: AlterConfigOpType, value: str | None) -> None:
        entry = ConfigEntry("log.cleaner.backoff.ms", value, incremental_operation=operation)
        broker = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        topics.admin(bootstrap).incremental_alter_configs([broker])[broker].result(30)

    alter(AlterConfigOpType.SET, "100")
    try:
        yield
    finally:
        alter(AlterConfigOpType.DELETE, None)


def compacted(pair: Pair) -> str:
    """A topic that the broker has compacted: one record for each key, tombstones among them, and gaps."""
    topic = pair.topic(
        "compacted", cleanup_policy="compact", segment_ms=100, min_cleanable_dirty_ratio=0.01, max_compaction_lag_ms=100
    )
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

    with quick_cleaner(pair.source):
        until("the broker has compacted", is_compacted)
    return topic


def test_starts(
    source_cluster: LocalCluster, target_cluster: LocalCluster, pair: Pair, prefix: str, tmp_path: Path
) -> None:
    together(
        partial(starts, source_cluster, target_cluster, prefix, pair.data_path, tmp_path),
        partial(records_without_a_position_wait_for_a_decision, pair.other("renamed"), tmp_path),
        partial(the_way_back_copies_only_what_programs_have_written, pair.other("back"), tmp_path),
    )


def starts(
    source_cluster: LocalCluster, target_cluster: LocalCluster, prefix: str, data_path: str, tmp_path: Path
) -> None:
    source, target = source_cluster.bootstrap, target_cluster.bootstrap
    name = f"s{prefix[-7:-1]}"
    early, late, at = (
        Pair(source, target, f"{name}-{start}", prefix).by(data_path) for start in ("early", "late", "at")
    )
    began = int(time.time() * 1000) - 3_600_000
    topic = early.topic("old", 2)
    for number, record in enumerate(made("old", range(10))):
        early.produce(topic, record, timestamp=began + number)
    early.produce(topic, *made("side", range(3)), partition=1, timestamp=began)
    gaps = compacted(early)
    expired = early.topic("expired")
    early.produce(expired, *made("gone", range(5)))
    topics.remove_records(source, expired, OFFSET_END)
    starts = {early: "earliest", late: "latest", at: began + 5}
    flows = configuration.together(*(pair.settings({"start": str(start)}) for pair, start in starts.items()))
    settings = {**flows, "spark": {"master": "local[3]"}}

    with Service(settings, tmp_path) as service:
        early.await_same(topic)
        early.await_same(gaps)
        assert [await_position(late, topic, partition) for partition in (0, 1)] == [10, 3]
        assert await_position(late, expired, 0) == 5
        # A group that has read all gets the first offset there, before anything is copied.
        read = ("--flow", late.flow, "--topic", topic, "--partition", 1, "--offset", 3)
        (translated,) = answer("translate", "-c", service.file, *read)["offsets"]
        assert (translated["translated"], translated["reason"]) == (0, "")
        who_has_read_all_reads_the_first_copies(service, early, late, expired)
        # After the newest record there is no offset for a time: that means the end.
        assert await_position(at, topic, 1) == 3
        await_values(at, topic, made("old", range(5, 10)))
        new = made("new", range(5))
        early.produce(topic, *new)
        old = {early: made("old", range(10)), late: [], at: made("old", range(5, 10))}
        for pair, before in old.items():
            await_values(pair, topic, before + new)
        # A topic that appears while a flow runs was never seen: it is copied as a whole.
        appeared = early.topic("appeared")
        early.produce(appeared, *made("at once", range(20)))
        for pair in old:
            pair.await_same(appeared)
        assert service.terminate() == 0, service.tail()

    down, side = made("down", range(5)), made("down side", range(2))
    early.produce(topic, *down)
    early.produce(topic, *side, partition=1)
    unseen = early.topic("unseen")
    early.produce(unseen, *made("unseen", range(20)))
    with Service(settings, tmp_path) as service:
        for pair, before in old.items():
            pair.await_same(unseen)
            await_values(pair, topic, before + new + down)
        for pair in (late, at):
            await_values(pair, topic, side, partition=1)

    left = early.copied(gaps)[0]
    assert {record.key for record in left if record.value is None} == set(KEYS[:3]), "tombstones"
    assert oracle.read(source, gaps)[0][-1].offset > len(left), "there were gaps"
    assert topics.configuration(target, early.remote(gaps))["cleanup.policy"] == "compact"
    oracle.assert_positions(source, target, gaps, early.remote(gaps), early.group)


def who_has_read_all_reads_the_first_copies(service: Service, early: Pair, late: Pair, topic: str) -> None:
    """The source's records have expired, and none was copied.

    Where the flow began at the end, there is a position, and the offset is exact. Where it began at the beginning there
    is none, and nobody knows whether there was one.
    """
    group = f"reads-{topic}"
    topics.commit(early.source, group, topic, {0: 5})
    found = {each.name: each for each in load(service.file).flows}
    for pair, outcome, there in ((early, GroupOutcome.UNTRANSLATED, None), (late, GroupOutcome.EXACT, 0)):
        flow = found[pair.flow]
        flow = replace(flow, groups=replace(flow.groups, sync=True, include=(group,)))
        with closing(GroupSync(flow)) as sync:
            (one,) = sync.round(3600)
        assert (one.outcome, one.lag, one.committed) == (outcome, 0, there), one
    new = made("first", range(3))
    early.produce(topic, *new)
    for pair in (early, late):
        await_values(pair, topic, new)
    assert oracle.next_values(late.target, late.remote(topic), group) == [each.value for each in new]


def records_without_a_position_wait_for_a_decision(pair: Pair, tmp_path: Path) -> None:
    """They would come twice, for nobody knows of which of the source's they are copies."""
    topic = pair.topic("renamed", 2)
    pair.produce(topic, *made("old", range(10)))
    with pair.service(tmp_path) as service:
        pair.await_same(topic)
        service.wait_for("its position is reported", lambda: service.positions(topic).get(0) == 10)
    assert not any(map(service.find, (RETRYING, BLOCKED))), service.tail()
    renamed = {"group": f"{pair.group}-renamed"}
    with pair.service(tmp_path, renamed) as service:
        said = service.wait_for_event(BLOCKED, topic=topic)
        assert WITHOUT_POSITION in said["reason"] and said["partition"] == 0
        (shown,) = answer("plan", "-c", service.file)["flows"]
        assert [WITHOUT_POSITION in each["blocked"] for each in shown["partitions"]] == [True, False]
        checked = answer("check", "-c", service.file)["checks"]
        assert any(WITHOUT_POSITION in each["said"] for each in checked)
        pair.produce(topic, *made("side", range(3)), partition=1)
        await_values(pair, topic, made("side", range(3)), partition=1)
        assert values(pair, topic) == [each.value for each in made("old", range(10))]
        # Nothing was ever copied to the other partition, and that needs no decision.
        assert not service.find(BLOCKED, topic=topic, partition=1)
    with pair.service(tmp_path, {**renamed, "append_to_existing": "true"}) as service:
        await_values(pair, topic, [*made("old", range(10))] * 2)
        service.wait_for_event(DECIDED, topic=topic, partition=0)


def the_way_back_copies_only_what_programs_have_written(pair: Pair, tmp_path: Path) -> None:
    """With the same names on both sides, as docs/operations.md tells it ("The way back"): forth, back and forth."""
    forth = replace(pair, template="{topic}")
    back = replace(forth, source=pair.target, target=pair.source, alias=f"{pair.alias}2")
    topic = forth.topic("same")
    same: dict[str, object] = {"replication_policy": "identity", "append_to_existing": True}
    both: list[Made] = []
    for turn, (here, group) in enumerate([(forth, "first"), (back, "second"), (forth, "third")]):
        began, new = datetime.now(UTC).isoformat(), made(f"turn {turn}", range(10))
        both += new
        with here.service(tmp_path, {**same, "group": f"{here.group}-{group}", "start": began}) as service:
            service.await_plan()
            here.produce(topic, *new)
            await_values(here, topic, both)
            assert service.terminate() == 0, service.tail()
        assert [each.value for each in oracle.read(here.source, topic)[0]] == [each.value for each in both]
