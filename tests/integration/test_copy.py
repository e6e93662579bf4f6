"""Records arrive byte for byte as they were."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.harness import oracle, topics
from tests.harness.configuration import RECORDS
from tests.harness.load import Load, Made, mixed, produce
from tests.harness.pair import Pair
from tests.harness.service import PASSED_OVER, Service
from tests.harness.waiting import until

HOUR = 3_600_000  # ms
DAY = 24 * HOUR


@pytest.mark.both_paths
def test_every_mix_of_null_and_empty(shared: Pair) -> None:
    topic = shared.topic("mix", 3)
    with Load(shared.source, {topic: 3}, make=mixed) as load:
        load.wait_for(6_000)
        load.stop()
    source = shared.await_same(topic)
    shared.assert_settled(topic)
    seen = {(record.key and b"key", record.value and b"value") for records in source.values() for record in records}
    assert len(seen) == 9, "null, empty and full keys with null, empty and full values"


@pytest.mark.both_paths
def test_headers_in_order_with_duplicates_and_nulls(shared: Pair) -> None:
    topic = shared.topic("headers")
    many: list[tuple[str, bytes | None]] = [("b", b"1"), ("a", b"2"), ("b", b""), ("b", None), ("", b"no name")]
    shared.produce(
        topic,
        Made(b"k", b"v", many),
        Made(b"k", b"v"),
        Made(None, None, [("ключ-鍵-🔑", "значение".encode()), ("bytes", bytes(range(256)))]),
        Made(b"k", b"v", [(f"h{number % 7}", b"%d" % number) for number in range(200)]),
    )
    source = shared.await_same(topic)
    assert source[0][0].headers == tuple(many)


@pytest.mark.both_paths
def test_timestamps_old_and_in_the_future(shared: Pair) -> None:
    # Kafka 4 refuses what is more than an hour ahead, unless the topic says otherwise; the remote one always does.
    topic = shared.topic("times", message_timestamp_after_max_ms=40_000 * DAY, retention_ms=-1)
    now = int(time.time() * 1000)
    wanted = [1, now - 20_000 * DAY, now + 30_000 * DAY, now, now - 1]
    for number, timestamp in enumerate(wanted):
        shared.produce(topic, Made(None, b"%d" % number), timestamp=timestamp)
    shared.await_same(topic)
    assert [record.timestamp for record in shared.copied(topic)[0]] == wanted


@pytest.mark.both_paths
def test_no_timestamp(shared: Pair) -> None:
    topic = shared.topic("never")
    shared.produce(topic, Made(None, b"never"), timestamp=-1)
    source = shared.await_same(topic)
    assert source[0][0].timestamp == -1


@pytest.mark.both_paths
def test_the_brokers_time_of_append(shared: Pair) -> None:
    topic = shared.topic("appended", message_timestamp_type="LogAppendTime")
    shared.produce(topic, *(Made(b"k", b"%d" % number) for number in range(100)), timestamp=1)
    source = shared.await_same(topic)
    assert source[0][0].timestamp > time.time() * 1000 - HOUR, "the broker gave it"
    # The remote topic must keep the source's time, so it may not have a clock of its own.
    assert topics.configuration(shared.target, shared.remote(topic))["message.timestamp.type"] == "CreateTime"


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.both_paths
def test_compressed_batches(shared: Pair, codec: str) -> None:
    topic = shared.topic(codec)
    made = [Made(b"%d" % number, b"x" * 100 + b"%d" % number) for number in range(5_000)]
    shared.produce(topic, *made, compression_type=codec)
    assert [record.key for record in shared.await_same(topic)[0]] == [each.key for each in made]


@pytest.mark.parametrize(
    ("size", "config"), [(900_000, {}), (1_040_000, {}), (5_000_000, {"max_message_bytes": 6_000_000})]
)
@pytest.mark.both_paths
def test_large_records(shared: Pair, size: int, config: dict[str, int]) -> None:
    topic = shared.topic("large", **config)
    before, large, after = Made(None, b"before"), Made(b"large", b"L" * size), Made(None, b"after")
    shared.produce(topic, before, large, after, message_max_bytes=10_000_000)
    shared.await_same(topic)


def test_an_empty_topic_exists_with_its_partitions(shared: Pair) -> None:
    topic = shared.topic("empty", 3)
    until("the remote topic", lambda: topics.partitions(shared.target, shared.remote(topic)) == 3)
    assert shared.copied(topic) == {0: [], 1: [], 2: []}


def test_records_of_other_topics_stay_where_they_are(shared: Pair) -> None:
    wanted = shared.topic("wanted")
    internal, foreign = shared.topic("x.internal"), topics.create(shared.source, f"not-{shared.prefix}")
    for topic in (internal, foreign, wanted):
        shared.produce(topic, Made(None, b"here"))
    shared.await_same(wanted)
    assert not shared.copied(internal) and not shared.copied(foreign)


@pytest.mark.both_paths
def test_records_of_somebody_else_in_a_remote_topic_are_told_with_their_offsets(
    shared: Pair, shared_service: Service
) -> None:
    topic = shared.topic("written-to")
    remote, message = shared.remote(topic), "somebody else writes to the remote topic"

    def counted() -> float:
        return shared_service.metric("mirror_foreign_offsets_total", topic=topic)

    for value in (b"1", b"2"):
        shared.produce(topic, Made(None, value))
        shared.await_same(topic)
    shared_service.wait_for("counted", lambda: shared_service.metric("mirror_source_records_total", topic=topic) == 2)
    assert counted() == 0, "markers are nobody's"
    produce(shared.target, remote, [Made(None, b"theirs"), Made(None, b"theirs")])
    shared.produce(topic, Made(None, b"3"))
    shared_service.wait_for("it is counted", lambda: counted() == 2)
    (said,) = shared_service.find(message, topic=topic)
    theirs = [record.offset for record in shared.copied(topic)[0] if record.value == b"theirs"]
    assert [said["first_offset"], said["last_offset"]] == theirs
    shared_service.wait_for("shown", lambda: f"at offsets {theirs[0]} to {theirs[1]}" in shared_service.get("/")[1])


@pytest.mark.both_paths
def test_metrics_tell_what_was_copied(shared: Pair, shared_service: Service) -> None:
    topic = shared.topic("counted", 2)
    with Load(shared.source, {topic: 2}) as load:
        load.wait_for(1_000)
        counts = load.stop()
    shared.await_same(topic)
    labels = {"source": shared.alias, "target": "backup", "topic": topic}
    shared_service.wait_for(
        "all records counted", lambda: shared_service.metric("mirror_source_records_total", **labels) == counts.total
    )
    content = oracle.read(shared.source, topic)
    size = sum(len(r.key or b"") + len(r.value or b"") for records in content.values() for r in records)
    counted = shared_service.metric("mirror_source_bytes_total", **labels)
    assert counted == size if shared.data_path == RECORDS else counted > size, "whole batches count as they are"
    latency = "mirror_source_replication_latency_seconds_count"
    assert shared_service.metric(latency, topic=topic) == counts.total
    shared_service.wait_for("no lag", lambda: shared_service.metric("mirror_source_topic_partition_lag", **labels) == 0)


def test_a_topic_that_gets_another_remote_name_is_copied_anew(pair: Pair, tmp_path: Path) -> None:
    """From its first record on, also where lost data is passed over: the former copy's position says nothing."""
    topic = pair.topic("renamed")
    pair.produce(topic, *(Made(None, b"%d" % number) for number in range(50)))
    with pair.service(tmp_path) as service:
        pair.await_same(topic)
        assert service.terminate() == 0, service.tail()
    name = f"{pair.alias}.another-name"
    renamed = {"topic_settings": {topic: {"remote_topic": name}}, "on_data_loss": "skip"}
    with Service(pair.settings(renamed), tmp_path) as service:
        oracle.await_same(pair.source, pair.target, topic, name)
        assert not service.find(PASSED_OVER)
        assert service.terminate() == 0, service.tail()
