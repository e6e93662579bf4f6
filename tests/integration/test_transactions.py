"""A source with transactions: what is aborted never appears, what is open holds back what follows."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition

from tests.harness import oracle, topics
from tests.harness.load import Load, Made, producer
from tests.harness.pair import Pair
from tests.harness.service import RETRYING, Service
from tests.harness.together import together
from tests.harness.waiting import until

pytestmark = pytest.mark.both_paths

READ_COMMITTED, READ_UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


@contextlib.contextmanager
def transactional(bootstrap: str) -> Iterator[Producer]:
    more = {"message_timeout_ms": 30_000, "transaction_timeout_ms": 900_000}  # as long as a broker allows
    to = producer(bootstrap, transactional_id=f"test-{uuid.uuid4().hex}", **more)
    to.init_transactions(30)
    to.begin_transaction()
    yield to


def put(to: Producer, topic: str, values: list[bytes], partition: int = 0) -> None:
    for value in values:
        to.produce(topic, value, partition=partition)
    assert to.flush(30) == 0


def await_stable(bootstrap: str, topic: str) -> None:
    """Wait until nothing is open on a topic: markers are written a little after the transaction has ended."""

    def is_stable() -> bool:
        stable, last = (oracle.ends(bootstrap, topic, kind) for kind in (READ_COMMITTED, READ_UNCOMMITTED))
        return stable == last

    until("the stable ends", is_stable)


def values(records: oracle.Records, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in records[partition]]


def test_committed_and_aborted(shared: Pair) -> None:
    topic = shared.topic("mixed", 2)
    with Load(shared.source, {topic: 2}, transaction=20, abort_every=3) as load:
        load.wait_for(1_000)
        counts = load.stop()
    assert counts.aborted.total() > 0
    source = shared.await_same(topic)
    assert oracle.count(source) == counts.total, "the judge itself does not see aborted records"
    shared.assert_settled(topic)


def test_an_open_transaction_holds_back_what_follows(shared: Pair) -> None:
    topic = shared.topic("open", 2)
    shared.produce(topic, Made(None, b"before"))
    with transactional(shared.source) as to:
        put(to, topic, [b"open 1", b"open 2"])
        shared.produce(topic, Made(None, b"after"))
        shared.produce(topic, Made(None, b"witness"), partition=1)
        # When the other partition is there, this one could be too.
        shared.await_same(topic)
        assert values(shared.copied(topic)) == [b"before"]
        shared.assert_settled(topic)
        to.commit_transaction(30)
    await_stable(shared.source, topic)
    shared.await_same(topic)
    assert values(shared.copied(topic)) == [b"before", b"open 1", b"open 2", b"after"]
    shared.assert_settled(topic)


def test_an_aborted_transaction_lets_go_of_what_follows(shared: Pair) -> None:
    topic = shared.topic("aborted")
    with transactional(shared.source) as to:
        put(to, topic, [b"never"] * 10)
        shared.produce(topic, Made(None, b"after"))
        to.abort_transaction(30)
    await_stable(shared.source, topic)
    shared.await_same(topic)
    assert values(shared.copied(topic)) == [b"after"]


def test_positions_go_after_markers(pair: Pair, tmp_path: Path) -> None:
    together(
        partial(a_position_before_a_marker_goes_after_it, pair.other("stopped"), tmp_path),
        partial(more_idle_partitions_than_producers_may_be_open, pair.other("idle"), tmp_path),
    )


def a_position_before_a_marker_goes_after_it(pair: Pair, tmp_path: Path) -> None:
    """It moves although there is nothing to copy: a marker that the source deletes later must not look like a loss."""
    topic = pair.topic("stopped")
    with transactional(pair.source) as to:
        put(to, topic, [b"copied"])
        to.commit_transaction(30)
    # As a service that was killed right after the record has left it.
    topics.create(pair.target, pair.remote(topic))
    topics.commit(pair.target, pair.group, pair.remote(topic), {0: 1}, topics.ours(pair.source, topic))
    with pair.service(tmp_path) as service:
        known = (pair.target, pair.group, pair.remote(topic), 0)
        service.wait_for("a position after the marker", lambda: oracle.committed_position(*known) == 2)
        assert service.terminate() == 0
    assert not values(pair.copied(topic))


def more_idle_partitions_than_producers_may_be_open(pair: Pair, tmp_path: Path) -> None:
    """Each has to go past the marker at its end, though the next one closes its producer."""
    topic = pair.topic("idle", 4)
    with transactional(pair.source) as to:
        for number in range(4):
            put(to, topic, [b"copied"], number)
        to.commit_transaction(30)
    with pair.service(tmp_path, {"producers_max": 1, "transaction_threads": 1, "tasks_max": 1}) as service:
        known = (pair.target, pair.group, pair.remote(topic))
        service.await_plan()
        service.wait_for(
            "positions after the markers",
            lambda: [oracle.committed_position(*known, number) for number in range(4)] == [2] * 4,
        )
    pair.assert_settled(topic)


def test_a_tail_of_nothing_but_aborted_records_is_no_lag(shared: Pair, shared_service: Service) -> None:
    topic = shared.topic("tail", 2)
    shared.produce(topic, Made(None, b"one"))
    # Partition 0 has a record before the aborted ones, partition 1 nothing else.
    for _ in range(3):
        with transactional(shared.source) as to:
            put(to, topic, [b"never"] * 5, 0)
            put(to, topic, [b"never"] * 5, 1)
            to.abort_transaction(30)
    await_stable(shared.source, topic)
    assert oracle.ends(shared.source, topic, READ_COMMITTED) == {0: 19, 1: 18}
    shared.await_same(topic)
    lag = "mirror_source_topic_partition_lag"
    shared_service.wait_for(
        "no lag", lambda: [shared_service.metric(lag, topic=topic, partition=number) for number in (0, 1)] == [0, 0]
    )
    shared.assert_settled(topic)


def test_a_transaction_that_hangs_on_the_target_is_waited_for(shared: Pair, shared_service: Service) -> None:
    together(*(partial(it_is_waited_for, shared, shared_service, held) for held in ("records", "position")))


def it_is_waited_for(shared: Pair, shared_service: Service, held: str) -> None:
    """It hangs as if its markers were lost. Copying waits, because the next transaction would end this one as well.

    It has to be there before the partition is taken over, which the batch path does at once.
    """
    name = f"hanging-{held}"
    remote = topics.create(shared.target, shared.remote(shared.prefix + name))
    with transactional(shared.target) as to:
        if held == "records":
            put(to, remote, [b"never"])
            ((producer_id, epoch, start),) = topics.open_transactions(shared.target, remote)
            whose = f" of producer id {producer_id} (epoch {epoch}, start offset {start});"
        else:
            whose = ";"  # whose it is, is told for records only
            member = Consumer({"bootstrap.servers": shared.target, "group.id": shared.group})
            to.send_offsets_to_transaction([TopicPartition(remote, 0, 0)], member.consumer_group_metadata(), 30)
            member.close()
        topic = shared.topic(name)
        shared.produce(topic, Made(None, b"one"))
        reason = f"held by an open transaction{whose}"
        shared_service.wait_for(
            "told", lambda: any(reason in each["reason"] for each in shared_service.find(RETRYING, topic=topic))
        )
        assert oracle.count(shared.copied(topic)) == 0
        to.abort_transaction(30)
    shared.await_same(topic)
    shared.assert_settled(topic)
