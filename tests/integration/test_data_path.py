"""`data_path: auto`: partitions are copied in whole batches where that can be done, and record by record elsewhere."""

from __future__ import annotations

import functools
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from mirror.batches.codecs import LZ4, NONE
from mirror.batches.records import Content
from tests.harness import batches, load, oracle, topics
from tests.harness.command import answer
from tests.harness.load import Load, Made
from tests.harness.pair import Pair
from tests.harness.service import TAKES_BATCHES, TAKES_RECORDS, Service
from tests.harness.waiting import until
from tests.harness.wire_producer import ALL, WireProducer
from tests.harness.written import batches_of

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.one_path]

AUTO = {"data_path": "auto"}
SIZE, BATCHES, START = 1_000, 4, 1_500  # records of a batch, batches, and where copying begins: within the second one


def partition(service: Service, topic: str, number: int = 0) -> dict[str, Any]:
    """What the service says of a partition; empty if it says nothing yet."""
    (flow,) = json.loads(service.get("/status")[1])["flows"]
    found = [each for each in flow["topics"] if each["topic"] == topic]
    return next((each for each in found[0]["partitions"] if each["partition"] == number), {}) if found else {}


def await_path(service: Service, topic: str, name: str, number: int = 0) -> dict[str, Any]:
    def there() -> dict[str, Any] | None:
        found = partition(service, topic, number)
        return found if found.get("path") == name and found["state"] == "running" else None

    found = service.wait_for(f"{topic} by {name}", there)
    assert found is not None
    return found


def test_whole_batches_are_copied_and_what_does_not_fit_goes_record_by_record(pair: Pair, tmp_path: Path) -> None:
    """There and back, while records come: each hand-over is a take-over as any other.

    Idle partitions stay on the batch path, whose fetch requests wait for them: nothing of the others may wait for that.
    """
    topic, idle = pair.topic("t", 2), pair.topic("idle", 3)
    with (
        Load(pair.source, {topic: 2}, rate=500, transaction=20, abort_every=3) as running,
        pair.service(tmp_path, AUTO) as service,
    ):
        for number in (0, 1):
            assert not await_path(service, topic, "batches", number)["path_reason"]
        running.wait_for(running.counts.total + 500)
        topics.configure(pair.source, topic, message_timestamp_type="LogAppendTime")
        left = await_path(service, topic, "records")
        await_path(service, topic, "records", 1)
        await_path(service, idle, "batches")
        assert left["path_reason"] == "log_append_time" and left["path_since"] > 0
        why = functools.partial(service.metric, "mirror_record_path_partitions", topic=topic, reason="log_append_time")
        service.wait_for("both counted", lambda: why() == 2)
        view = answer("status", "-c", service.file)["flows"][0]["partitions"]
        assert {each["path"] for each in view} <= {"records", "batches"}
        running.wait_for(running.counts.total + 500)
        topics.configure(pair.source, topic, message_timestamp_type="CreateTime")
        await_path(service, topic, "batches")
        assert service.find(TAKES_BATCHES, topic=topic, partition=0)
        running.stop()
        pair.await_same(topic)
        pair.assert_settled(topic)
        assert service.terminate() == 0, service.tail()
        assert not service.noise, service.tail()


def within_batch(pair: Pair, topic: str, tmp_path: Path, batch: int) -> int:
    """Copy record by record until a position is committed within a batch, and be killed there."""
    position: int | None = 0
    while not position or not position % batch:
        with pair.service(tmp_path, {"batch_max_records": 70, "throttle": "20KiB"}) as service:
            before = position or 0

            def moved(before: int = before) -> bool:
                return (oracle.committed_position(pair.target, pair.group, pair.remote(topic), 0) or 0) > before

            until("a position", moved)
            service.kill()
        position = oracle.committed_position(pair.target, pair.group, pair.remote(topic), 0)
    return position


def test_a_flow_that_was_copied_by_records_goes_on_in_batches_and_back(pair: Pair, tmp_path: Path) -> None:
    """It begins within a batch, which is copied by records up to its end only. Workers are killed on the way."""
    topic = pair.topic("t")
    records = [Made(b"%d" % number, b"v" * 50) for number in range(50_000)]
    load.produce(pair.source, topic, records, linger_ms=1_000, batch_num_messages=SIZE, batch_size=1_000_000)
    position = within_batch(pair, topic, tmp_path, SIZE)
    assert position < len(records)
    with pair.service(tmp_path, AUTO) as service:
        service.wait_for_event(TAKES_BATCHES, topic=topic)
        await_path(service, topic, "batches")
        (left,) = service.find(TAKES_RECORDS, topic=topic)
        assert left["reason"] == "position_within_batch"
        pair.await_same(topic)
        whole = [each for each in batches_of(pair.target, pair.remote(topic)) if each.records == SIZE]
        assert len(whole) == len(records) // SIZE - position // SIZE - 1, "each after the one that it began within"
        with Load(pair.source, {topic: 1}, rate=300) as running:
            for _ in range(3):
                running.wait_for(running.counts.total + 450)
                service.kill_workers()
            running.wait_for(running.counts.total + 450)
            await_path(service, topic, "batches")
            service.rewrite(service.file.read_text().replace("data_path: auto", "data_path: records"))
            os.kill(service.pid, signal.SIGHUP)
            assert not await_path(service, topic, "records")["path_reason"]
            running.wait_for(running.counts.total + 500)
            running.stop()
        pair.await_same(topic)
        pair.assert_settled(topic)


def fill(pair: Pair, topic: str, codec: int, began: int) -> None:
    """Write batches whose records have a time each millisecond."""
    to = WireProducer(pair.source)
    for first in range(0, BATCHES * SIZE, SIZE):
        made = [(n, began + first + n, Content(b"%d" % (first + n), b"v" * 50, ())) for n in range(SIZE)]
        assert to.send(None, topic, batches.batch(made, codec), 0, ALL).base_offset() == first
    to.forget()


def test_a_start_at_a_time_within_a_batch(pair: Pair, tmp_path: Path) -> None:
    """Nothing before it is copied, and nothing after it is lost. The batches after that one are copied whole."""
    began = int(time.time() * 1_000) - 3_600_000
    found = {codec: pair.topic(f"codec{codec}") for codec in (NONE, LZ4)}
    for codec, topic in found.items():
        fill(pair, topic, codec, began)
    with pair.service(tmp_path, {**AUTO, "start": str(began + START)}) as service:
        for topic in found.values():
            assert service.wait_for_event(TAKES_RECORDS, topic=topic)["reason"] == "position_within_batch"
            service.wait_for_event(TAKES_BATCHES, topic=topic)
            await_path(service, topic, "batches")
            pair.produce(topic, Made(b"live", b"x"))
            wanted = {0: oracle.read(pair.source, topic)[0][START:]}
            assert oracle.count(wanted) == BATCHES * SIZE - START + 1
            until("all is copied", lambda: oracle.count(pair.copied(topic)) >= oracle.count(wanted))  # noqa: B023
            oracle.compare(wanted, pair.copied(topic))
            whole = [each for each in batches_of(pair.target, pair.remote(topic)) if each.records == SIZE]
            assert len(whole) == BATCHES - 2
            assert partition(service, topic)["path"] == "batches" and len(service.find(TAKES_RECORDS, topic=topic)) == 1
        assert service.terminate() == 0, service.tail()
        assert not service.noise, service.tail()
    for topic in found.values():
        oracle.assert_positions(pair.source, pair.target, topic, pair.remote(topic), pair.group)
        assert not oracle.hanging(pair.target, pair.remote(topic))


def test_a_batch_may_be_as_large_as_the_remote_topic_takes(pair: Pair, tmp_path: Path) -> None:
    """The remote topic is created with the source topic's limit, and the plan says it to the task."""
    topic = pair.topic("t", max_message_bytes=2**22)
    with pair.service(tmp_path, AUTO) as service:
        await_path(service, topic, "batches")
        pair.produce(topic, Made(b"large", b"x" * 3 * 2**20), message_max_bytes=2**23)
        pair.produce(topic, Made(b"small", b"x"))
        pair.await_same(topic)
        assert partition(service, topic)["path"] == "batches" and not service.find(TAKES_RECORDS, topic=topic)
        assert not service.noise, service.tail()
