"""The offset map and `mirror translate`: exact offsets, both ways, whatever has happened to the source and the copy."""

from __future__ import annotations

import itertools
import re
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from mirror.commands.translate import translate
from mirror.config.load import load
from mirror.demo.brokers import LocalCluster
from mirror.groups.map_cleaner import MapCleaning
from mirror.groups.seen import RECREATED
from mirror.groups.translation import Unknown
from mirror.groups.translator import Translator
from mirror.model import Partition
from mirror.settings import Flow
from mirror.target.offset_map import EVERY
from mirror.target.offset_syncs import OffsetSync
from tests.harness import oracle, topics
from tests.harness.command import answer, mirror
from tests.harness.compaction import write_again
from tests.harness.load import Load, Made, produce
from tests.harness.pair import Pair
from tests.harness.service import DECIDED, Service
from tests.harness.waiting import PATIENCE, until

pytestmark = [pytest.mark.slow, pytest.mark.long]
SMALL_TRANSACTIONS = pytest.mark.one_path  # which need batch_max_records: whole batches do not follow it
OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"


def numbers(first: int, count: int) -> list[Made]:
    return [Made(b"%d" % n, b"%d" % n) for n in range(first, first + count)]


def in_transactions(pair: Pair, topic: str, sizes: list[int]) -> None:
    """Produce one transaction of each size to the source; every fifth is aborted."""
    producer = Producer({"bootstrap.servers": pair.source, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(PATIENCE)
    at = 0
    for index, size in enumerate(sizes):
        producer.begin_transaction()
        for _ in range(size):
            at += 1
            producer.produce(topic, b"%d" % at, b"%d" % at, 0)
        if index % 5 == 4:
            producer.flush(PATIENCE)
            producer.abort_transaction(PATIENCE)
        else:
            producer.commit_transaction(PATIENCE)


def flow_of(service: Service) -> Flow:
    return load(service.file).flows[0]


def assert_exact(pair: Pair, service: Service, topic: str, begin: int = 0) -> None:
    """Each record that is at `begin` or after it on the target, both ways; and what is between two goes to the next.

    If the remote log was cut, those before the next entry of the map are not known: nothing can be counted there.
    """
    flow, partition = flow_of(service), Partition(topic, 0)
    here = [record.offset for record in oracle.read(pair.source, topic)[0]]
    there = [record.offset for record in pair.copied(topic)[0]]
    here = here[len(here) - len(there) :]
    pairs = [(up, down) for up, down in zip(here, there, strict=True) if down >= begin]
    assert pairs
    with closing(Translator(flow)) as translator:
        translator.refresh([partition])
        cut = [pair for pair in pairs if translator.to_downstream(partition, pair[0]).reason == Unknown.CUT.value]
        assert pairs[: len(cut)] == cut and len(cut) < (EVERY if begin else 1)
        assert all(translator.to_upstream(partition, down).reason == Unknown.CUT.value for _, down in cut)
        for up, down in pairs[len(cut) :]:
            assert translator.to_downstream(partition, up).translated == down
            assert translator.to_upstream(partition, down).translated == up
        gaps = [(up + 1, there[n + 1]) for n, up in enumerate(here[:-1]) if here[n + 1] != up + 1]
        for up, down in gaps:
            assert translator.to_downstream(partition, up).translated == down
        end = translator.end(partition)
        assert end.offset is not None and end.translated is not None and end.translated > there[-1], end
        ahead = translator.to_downstream(partition, end.offset + 1)
        assert (ahead.translated, ahead.reason) == (None, "not copied yet")


def entries(pair: Pair, topic: str) -> int:
    """How many entries of the topic are in the map."""
    stored = {
        record.key: record.value for record in oracle.read(pair.target, f"mirror-offset-map.{pair.alias}.internal")[0]
    }
    return sum(topic.encode() in (key or b"") and value is not None for key, value in stored.items())


@pytest.fixture(scope="module")
def running(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    data_path: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Pair, Service]]:
    pair = Pair(source_cluster.bootstrap, target_cluster.bootstrap, "map", "map-").by(data_path)
    # The tests change the remote topics' configurations themselves.
    settings = {"batch_max_records": 100, "on_data_loss": "skip", "sync_topic_configs": False}
    with pair.service(tmp_path_factory.mktemp("map"), settings) as service:
        yield pair, service
        pair.assert_path(service)
        assert service.terminate() == 0, service.tail()
        assert not service.noise


@pytest.mark.both_paths
def test_a_source_without_gaps(running: tuple[Pair, Service]) -> None:
    pair, service = running
    topic = pair.topic("plain")
    pair.produce(topic, *numbers(0, 2_500))
    pair.await_same(topic)
    assert_exact(pair, service, topic)
    assert 1 <= entries(pair, topic) <= 4, "one for each thousand records"


@pytest.mark.both_paths
def test_aborted_transactions_and_a_restart(running: tuple[Pair, Service]) -> None:
    pair, service = running
    topic = pair.topic("transactional")
    in_transactions(pair, topic, [3, 1, 40, 7, 5] * 20)
    pair.await_same(topic)
    service.kill_workers()
    in_transactions(pair, topic, [2, 300, 1] * 5)
    pair.await_same(topic)
    assert_exact(pair, service, topic)


def places(found: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    return [(each["partition"], each["offset"], each["translated"]) for each in found]


def test_a_groups_offsets(running: tuple[Pair, Service], capsys: pytest.CaptureFixture[str]) -> None:
    pair, service = running
    topic, group = pair.topic("consumed", 2), f"{pair.prefix}readers"
    for number in (0, 1):
        pair.produce(topic, *numbers(0, 50), partition=number)
    pair.await_same(topic)
    topics.commit(pair.source, group, topic, {0: 20, 1: 50})
    topics.commit(pair.target, group, pair.remote(topic), {0: 21})
    found = answer("translate", "-c", service.file, "--group", group)["offsets"]
    there = {n: [r.offset for r in records] for n, records in pair.copied(topic).items()}
    assert [(each["partition"], each["offset"]) for each in found] == [(0, 20), (1, 50)]
    assert found[0]["translated"] == there[0][20] and found[1]["translated"] > there[1][-1]
    examples = re.findall(r"^```python\n(.*?)^```", OPERATIONS.read_text(), re.MULTILINE | re.DOTALL)
    (example,) = [each for each in examples if "import api" in each]
    capsys.readouterr()
    exec(example.replace("mirror.yaml", str(service.file)).replace("billing", group), {})
    assert capsys.readouterr().out.splitlines() == [f"{topic}-{n} {at} {to} " for n, at, to in places(found)]
    shown = mirror("translate", "-c", service.file, "--group", group)
    assert shown.returncode == 0 and f"{topic}-0" in shown.stdout, shown
    ahead = mirror("translate", "-c", service.file, "--topic", topic, "--partition", 0, "--offset", 51)
    assert ahead.returncode == 1 and "not copied yet" in ahead.stdout, ahead
    (back,) = answer("translate", "-c", service.file, "--group", group, "--reverse")["offsets"]
    assert (back["topic"], back["partition"], back["offset"]) == (topic, 0, 21)
    assert back["translated"] == bisect_left(there[0], 21), "the source has no gaps"
    at = ("--topic", topic, "--partition", 1, "--offset", there[1][30])
    shown = mirror("translate", "-c", service.file, "--reverse", *at)
    assert re.search(rf"^{pair.remote(topic)}-1 +{there[1][30]} +{topic}-1 +30\b", shown.stdout, re.MULTILINE), shown
    wrong = mirror("translate", "-c", service.file, "--topic", topic)
    assert wrong.returncode == 2 and "--group" in wrong.stderr


@SMALL_TRANSACTIONS
def test_after_compaction_the_map_is_whole_and_the_offset_syncs_are_not(running: tuple[Pair, Service]) -> None:
    """MirrorMaker's topic has one key for a partition: of a group that lags, compaction takes the translation away."""
    pair, service = running
    topic, filler, syncs = pair.topic("lagging"), pair.topic("filler"), f"mm2-offset-syncs.{pair.alias}.internal"
    in_transactions(pair, topic, [50] * 40)
    pair.await_same(topic)
    before, own_map = entries(pair, topic), f"mirror-offset-map.{pair.alias}.internal"
    is_map_compacted = write_again(pair.target, own_map, topic.encode())

    def synced() -> int:
        found = [OffsetSync.decode(r.key or b"", r.value or b"") for r in oracle.read(pair.target, syncs)[0]]
        return sum(sync.topic == topic for sync in found)

    assert synced() > 20
    for own in (syncs, own_map):
        topics.configure(pair.target, own, segment_ms=500, min_cleanable_dirty_ratio=0.001)

    def compacted() -> bool:
        pair.produce(filler, *numbers(0, 1_500))  # the segment that is written to is never compacted
        return synced() <= 3 and is_map_compacted()

    until("compaction", compacted)
    assert entries(pair, topic) == before > 10
    assert_exact(pair, service, topic)


@SMALL_TRANSACTIONS
def test_entries_before_the_remote_log_go(running: tuple[Pair, Service]) -> None:
    pair, service = running
    topic = pair.topic("retained")
    flow = flow_of(service)

    def cycle(cleaning: MapCleaning) -> int:
        """Copy, and remove from the remote log all but the newest 1,200 records; how many entries are left."""
        in_transactions(pair, topic, [100] * 40)
        last = oracle.read(pair.source, topic)[0][-1].offset
        service.wait_for("copied", lambda: (service.positions(topic).get(0) or 0) > last)
        start, before = pair.copied(topic)[0][-1_200].offset, entries(pair, topic)
        topics.remove_records(pair.target, pair.remote(topic), start)
        assert before / 4 < cleaning.look() < before
        until("they are deleted", lambda: entries(pair, topic) < before * 3 / 4)
        assert_exact(pair, service, topic, start)
        return entries(pair, topic)

    with closing(MapCleaning(flow)) as cleaning:
        left = [cycle(cleaning) for _ in range(3)]
        assert max(left) <= 1.5 * left[0], "the map does not grow"
        (gone,) = translate(flow, {Partition(topic, 0): oracle.read(pair.source, topic)[0][0].offset})
        assert gone.translated is None and gone.reason.startswith("before the map")
        assert cleaning.look() == 0 and entries(pair, topic) == left[-1]


def test_entries_of_records_that_compaction_has_removed_go(running: tuple[Pair, Service]) -> None:
    """The start of a compacted log does not move, so the map would grow for ever."""
    pair, service = running
    topic, made = pair.topic("few-keys", cleanup_policy="compact"), itertools.count()
    service.wait_for("the remote topic", lambda: topics.partitions(pair.target, pair.remote(topic)) == 1)
    topics.configure(pair.target, pair.remote(topic), segment_ms=500, min_cleanable_dirty_ratio=0.001)

    def copy() -> int:
        """A transaction of two records with one of five keys; how many records the target has."""
        number = next(made)
        pair.produce(topic, *(Made(b"%d" % (number % 5), b"%d" % n) for n in (2 * number, 2 * number + 1)))
        service.wait_for("copied", lambda: (service.positions(topic).get(0) or 0) >= 2 * number + 2)
        return len(pair.copied(topic)[0])

    for _ in range(40):
        copy()
    until("compaction", lambda: copy() < 20)
    before = entries(pair, topic)
    assert before >= 40
    with closing(MapCleaning(flow_of(service), least=before)) as cleaning:
        cleaning.look()
        assert entries(pair, topic) >= before, "nothing is read while there are few"
    with closing(MapCleaning(flow_of(service), least=10)) as cleaning:
        assert cleaning.look() > before / 2
        until("they are deleted", lambda: entries(pair, topic) < before / 2)
        assert cleaning.look() == 0
    partition = Partition(topic, 0)
    with closing(Translator(flow_of(service))) as translator:
        translator.refresh([partition])
        for up, down in by_value(pair, topic):
            assert translator.to_downstream(partition, up).translated == down
            assert translator.to_upstream(partition, down).translated == up
        gone = translator.to_downstream(partition, 5)
        assert (gone.translated, gone.reason) == (None, Unknown.BEFORE_THE_MAP.value)
        assert translator.end(partition).translated is not None


def test_entries_of_a_remote_topic_that_was_deleted_go(running: tuple[Pair, Service]) -> None:
    """They go when two looks have not found the topic, because a broker may not know a new topic yet."""
    pair, service = running
    topic = pair.topic("remote-deleted")
    pair.produce(topic, *numbers(0, 10))
    pair.await_same(topic)
    assert entries(pair, topic) == 1
    before = topics.topic_id(pair.target, pair.remote(topic))
    topics.delete(pair.target, pair.remote(topic))

    def is_another() -> bool:
        exists = topics.partitions(pair.target, pair.remote(topic)) == 1
        return exists and topics.topic_id(pair.target, pair.remote(topic)) != before

    service.wait_for("the service has made it again", is_another)
    with closing(MapCleaning(flow_of(service))) as cleaning:
        assert (cleaning.look(), cleaning.look()) == (0, 1)
    until("its entry is deleted", lambda: entries(pair, topic) == 0)
    pair.produce(topic, *numbers(10, 40))
    service.wait_for("it is copied", lambda: [each.value for each in pair.copied(topic)[0][-1:]] == [b"49"])
    assert_exact(pair, service, topic)


def test_entries_of_a_remote_topic_that_has_another_name_by_now_stay(running: tuple[Pair, Service]) -> None:
    """The template was changed, and may be changed back. The topic of the new name has lost its first records."""
    pair, service = running
    topic = pair.topic("renamed")
    pair.produce(topic, *numbers(0, 10))
    pair.await_same(topic)
    flow = replace(flow_of(service), remote_topic="{source}-{topic}")
    with closing(MapCleaning(flow)) as cleaning:
        assert [cleaning.look() for _ in range(3)] == [0, 0, 0], "there is no topic of the new name yet"
        new = topics.create(pair.target, f"{pair.alias}-{topic}")
        produce(pair.target, new, numbers(0, 30))
        topics.remove_records(pair.target, new, 20)
        assert [cleaning.look() for _ in range(3)] == [0, 0, 0]
    assert_exact(pair, service, topic)


def by_value(pair: Pair, topic: str) -> list[tuple[int, int]]:
    """The upstream and the downstream offset of each record that is on both sides; all have values of their own."""
    here = {record.value: record.offset for record in oracle.read(pair.source, topic)[0]}
    there = pair.copied(topic)[0]
    return [(here[record.value], record.offset) for record in there if record.value in here]


@pytest.mark.both_paths
def test_a_topic_that_was_deleted_and_created_again(running: tuple[Pair, Service]) -> None:
    """The offsets of the new topic are translated, and those of the old one are not taken for them."""
    pair, service = running
    topic = pair.topic("again")
    pair.produce(topic, *numbers(0, 50))
    pair.await_same(topic)
    old = [record.offset for record in pair.copied(topic)[0]]
    mirror("pause", "-c", service.file, "--topic", topic)
    topics.recreate(pair.source, topic)
    pair.produce(topic, *numbers(100, 30))
    (unknown,) = translate(flow_of(service), {Partition(topic, 0): 7})
    assert unknown.translated is None and unknown.reason == RECREATED, "7 is an offset of the new topic"
    mirror("resume", "-c", service.file, "--topic", topic)
    service.wait_for("the new topic is copied", lambda: len(pair.copied(topic)[0]) == 80)
    flow, partition = flow_of(service), Partition(topic, 0)
    pairs = by_value(pair, topic)
    assert len(pairs) == 30
    with closing(Translator(flow)) as translator:
        translator.refresh([partition])
        for up, down in pairs:
            assert translator.to_downstream(partition, up).translated == down
            assert translator.to_upstream(partition, down).translated == up
        for down in old:
            assert translator.to_upstream(partition, down).reason.startswith("before the map")


@pytest.mark.both_paths
def test_a_remote_topic_that_is_deleted_under_load(running: tuple[Pair, Service]) -> None:
    """An open session does not go on in the new topic: its positions and map entries would name the old one."""
    pair, service = running
    topic = pair.topic("gone-under-load")
    with Load(pair.source, {topic: 1}, rate=300) as load:
        for _ in range(3):
            load.wait_for(load.counts.total + 300)
            service.wait_for("a position is reported", lambda: service.positions(topic).get(0))
            since = len(service.events)
            topics.delete(pair.target, pair.remote(topic))
            service.wait_for_event(DECIDED, since=since, topic=topic)
    last = oracle.read(pair.source, topic)[0][-1].value
    service.wait_for("the rest is copied", lambda: last in [r.value for r in pair.copied(topic).get(0, [])])
    assert_exact(pair, service, topic)


def test_a_compacted_topic(running: tuple[Pair, Service]) -> None:
    """Each transaction has an entry, so that nothing has to be counted after either side was compacted.

    The source is compacted while the flow does not read it: mirror copies a log with gaps.
    """
    pair, service = running
    soon: dict[str, Any] = {"segment_ms": 500, "min_cleanable_dirty_ratio": 0.001}
    topic = pair.topic("compacted", cleanup_policy="compact", **soon)
    service.wait_for("its partition is copied", lambda: list(service.positions(topic)) == [0])
    paused = answer("pause", "-c", service.file, "--topic", topic)
    assert not paused["waiting"], paused

    def overwrite(begin: int) -> None:
        for first in range(begin, begin + 600, 60):
            pair.produce(topic, *[Made(b"%d" % (n % 7), b"%d" % n) for n in range(first, first + 60)])

    def more() -> None:
        pair.produce(topic, Made(b"more", b"more %d" % time.monotonic_ns()))

    def has_gaps() -> bool:
        more()
        return len(oracle.read(pair.source, topic)[0]) < 300

    overwrite(0)
    service.wait_for("the source is compacted", has_gaps)
    answer("resume", "-c", service.file, "--topic", topic)
    overwrite(600)
    last = b"1199"
    service.wait_for("copied", lambda: last in [record.value for record in pair.copied(topic)[0]])

    def compacted() -> bool:
        """True if many records that the flow has counted are gone. A quick cleaner is faster than a reader."""
        more()
        copied = service.metric("mirror_source_records_total", topic=topic)
        return copied - len(pair.copied(topic)[0]) > 100

    service.wait_for("the remote topic is compacted", compacted)
    partition, pairs = Partition(topic, 0), by_value(pair, topic)
    with closing(Translator(flow_of(service))) as translator:
        translator.refresh([partition])
        for up, down in pairs:
            assert translator.to_downstream(partition, up).translated == down
            assert translator.to_upstream(partition, down).translated == up


def test_where_others_write_to_the_remote_topic_nothing_is_guessed(running: tuple[Pair, Service]) -> None:
    """mirror can't tell its own records from theirs where it has to count. Where an entry has them, it need not."""
    pair, service = running
    topic = pair.topic("written")
    pair.produce(topic, *numbers(0, 10))
    pair.await_same(topic)
    pair.produce(topic, *numbers(10, 10))
    pair.await_same(topic)
    at, partition = [record.offset for record in oracle.read(pair.source, topic)[0]], Partition(topic, 0)
    there = [record.offset for record in pair.copied(topic)[0]]
    (counted,) = translate(flow_of(service), {partition: at[15]})
    assert counted.translated == there[15]
    produce(pair.target, pair.remote(topic), [Made(None, b"foreign")])
    with closing(Translator(flow_of(service))) as translator:
        translator.refresh([partition])
        assert translator.to_downstream(partition, at[0]).translated == there[0]
        # Usually the position does not say where its own records end, and theirs may be among them.
        down, up = translator.to_downstream(partition, at[15]), translator.to_upstream(partition, there[15])
        for found, right in ((down, there[15]), (up, at[15])):
            assert found.translated == right or found.reason == Unknown.NOT_EXACT.value, found
