"""The batch path: whole batches, exactly once, whoever wrote them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import IsolationLevel

from mirror.demo.brokers import LocalCluster
from mirror.errors import OutcomeUnknown
from mirror.source.fetch_memory import MemoryBounds
from mirror.target import batch_session
from mirror.target.batch_take_over import Owner, TakenOver, take_over
from mirror.target.offset_map import decode_key, decode_value
from mirror.target.offset_syncs import OffsetSync
from mirror.target.take_over_places import Places
from mirror.task import batch_copier
from mirror.wire.cluster import Cluster
from mirror.wire.requests import Request
from mirror.wire.transactional import Entered, Identity, end_txn
from tests.harness import load, oracle, topics
from tests.harness.batch_path import BatchPath, between
from tests.harness.load import Load, Made, mixed
from tests.harness.pair import Pair
from tests.harness.waiting import PATIENCE
from tests.harness.written import batches_of, dotted, java_produces

pytestmark = [pytest.mark.slow, pytest.mark.one_path]


@pytest.fixture
def batches(pair: Pair, tmp_path: Path) -> BatchPath:
    return between(pair, tmp_path)


def assert_copied(batches: BatchPath) -> None:
    """Every record once, in order. Each sync names a record and its copy, and the map leads to every copy."""
    source, remote = oracle.read(batches.source, batches.topic), oracle.read(batches.target, batches.remote)
    oracle.compare(source, remote)
    where = {up.offset: down.offset for up, down in zip(source[0], remote[0], strict=True)}
    told = oracle.read(batches.target, batches.flow.offset_syncs_topic)[0]
    found = [OffsetSync.decode(each.key or b"", each.value or b"") for each in told]
    assert found and all(where[each.upstream] == each.downstream for each in found)
    mapped = oracle.read(batches.target, batches.flow.offset_map_topic)[0]
    entries = [decode_value(decode_key(each.key or b"")[1], each.value or b"") for each in mapped]
    assert sum(each.records + each.counted_before for each in entries) <= len(where)
    for entry in entries:
        for number in range(entry.records):
            assert where[entry.to_upstream(entry.downstream + number)] == entry.downstream + number
    assert all(after.is_next_to(before) for before, after in pairwise(entries))


def test_batches_of_every_codec_and_client(batches: BatchPath) -> None:
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        records = [mixed(number) for number in range(2_000)]
        load.produce(batches.source, batches.topic, records, compression_type=codec, batch_size=5_000)
        if codec in ("snappy", "lz4"):  # for which Java's client has framings of its own
            java_produces(batches.source, batches.topic, [dotted(n) for n in range(500)], codec)
    batches.copy_all()
    assert not batches.left and not batches.failures
    assert_copied(batches)


def test_small_batches_of_both_clients_are_merged(batches: BatchPath) -> None:
    """Also beside transactions and compressed batches, which are not. Syncs and the map name the right offsets."""
    for round_ in range(3):
        records = [mixed(number) for number in range(400)]
        load.produce(batches.source, batches.topic, records, batch_num_messages=1 + 4 * (round_ % 2))
        java_produces(batches.source, batches.topic, [dotted(n) for n in range(100)], size=1)
        load.produce(batches.source, batches.topic, records[:20], batch_num_messages=1, compression_type="lz4")
        with Load(batches.source, {batches.topic: 1}, transaction=5, abort_every=3) as running:
            running.wait_for(60)
    source = batches_of(batches.source, batches.topic)
    assert sum(each.records == 1 and not each.attributes for each in source) > 1000
    batches.copy_all()
    assert not batches.left and not batches.failures
    assert_copied(batches)
    small = [each for each in batches_of(batches.target, batches.remote) if each.records <= 5]
    assert len(small) < len(source) - 1000


def test_large_batches_are_copied_whole(pair: Pair, tmp_path: Path) -> None:
    """Up to what the remote topic takes. If its limit falls meanwhile, the record path gets what it refuses."""
    batches = between(pair, tmp_path)
    batches.largest = 8 * 2**20
    for topic, where in ((batches.topic, batches.source), (batches.remote, batches.target)):
        topics.configure(where, topic, max_message_bytes=batches.largest)
    large = [Made(b"%d" % size, b"x" * size) for size in (2**20, 5 * 2**20, 10, 2 * 2**20, 7 * 2**20)]
    load.produce(batches.source, batches.topic, large, message_max_bytes=2**23, linger_ms=0)
    batches.copy_all()
    assert not batches.left and not batches.failures
    assert_copied(batches)
    assert max(len(each.data) for each in batches_of(batches.target, batches.remote)) > 7 * 2**20
    topics.configure(batches.target, batches.remote, max_message_bytes=2**20)
    load.produce(batches.source, batches.topic, large[1:2], message_max_bytes=2**23)
    batches.run(lambda: bool(batches.left))
    assert (batches.left[0].reason, batches.left[0].at) == ("target_refuses", len(large))


def test_a_request_that_brokers_do_not_read_is_made_of_single_records(pair: Pair, tmp_path: Path) -> None:
    """The remote topic would take the batch, but a broker closes the connection when so large a request comes."""
    with LocalCluster("target", tmp_path, properties={"socket.request.max.bytes": 2**21}) as target:
        batches = between(replace(pair, target=target.bootstrap), tmp_path)
        batches.largest = 8 * 2**20
        for topic, where in ((batches.topic, batches.source), (batches.remote, batches.target)):
            topics.configure(where, topic, max_message_bytes=batches.largest)
        load.produce(batches.source, batches.topic, [Made(b"small", b"x")])
        batches.copy_all()
        load.produce(batches.source, batches.topic, [Made(b"large", b"x" * 3 * 2**20)], message_max_bytes=2**23)
        batches.run(lambda: bool(batches.left))
        assert (batches.left[0].reason, batches.left[0].at) == ("too_large", 1)
        assert oracle.count(oracle.read(batches.target, batches.remote)) == 1


def test_nothing_of_aborted_transactions_arrives(batches: BatchPath) -> None:
    """The position moves past what is not copied, and the copy is live."""
    with Load(batches.source, {batches.topic: 1}, transaction=20, abort_every=3) as running:
        batches.run(lambda: running.counts.total >= 600)
        running.stop()
        assert running.counts.aborted.total() > 100
    batches.copy_all()
    assert_copied(batches)
    end = oracle.ends(batches.source, batches.topic, IsolationLevel.READ_COMMITTED)[0]
    batches.run(lambda: batches.books[0].known.offset >= end)
    oracle.assert_positions(batches.source, batches.target, batches.topic, batches.remote, batches.flow.group)


def some_time_after(condition: Callable[[], bool], seconds: float) -> Callable[[], bool]:
    """True once so many seconds have passed since the condition came true.

    The next transaction begins a little after a commit: its first batch waits until the last one's markers stand.
    """
    since: list[float] = []

    def passed() -> bool:
        if not since and condition():
            since.append(time.monotonic())
        return bool(since) and time.monotonic() >= since[0] + seconds

    return passed


def test_a_partition_that_has_something_to_copy_is_taken_over_first(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others come later, whether or not they ever have something."""
    many, live = 20, 17
    batches, taken = between(pair, tmp_path, placed=[[1]] * many), list[int]()
    batches.places = Places(1)

    async def taking(target: Cluster, owner: Owner, *rest: Any) -> TakenOver:
        while not taken and not batches.places._first:  # the first one has its place before anything was fetched
            await asyncio.sleep(0.01)
        taken.append(owner.partition)
        return await take_over(target, owner, *rest)

    monkeypatch.setattr(batch_copier, "take_over", taking)
    load.produce(batches.source, batches.topic, [mixed(number) for number in range(100)], partition=live)
    batches.run(lambda: batches.copied == 100 and len(taken) == many)
    assert taken[1] == live and sorted(taken) == [*range(many)], taken
    oracle.compare(oracle.read(batches.source, batches.topic), oracle.read(batches.target, batches.remote))
    assert not batches.left and not batches.failures


@pytest.mark.parametrize("foreign", [False, True])
def test_a_first_transaction_that_fails_leaves_nothing_that_is_seen(
    foreign: bool, batches: BatchPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the partition is copied on. But if the remote topic has visible records without a position, it is doubted."""
    ends = list[Identity]()

    def fails_first(by: Identity, commit: bool) -> Request[Entered]:
        ends.append(by)
        if len(ends) == 1:
            raise OutcomeUnknown("the first transaction fails")
        return end_txn(by, commit)

    monkeypatch.setattr(batch_session, "end_txn", fails_first)
    load.produce(batches.source, batches.topic, [mixed(number) for number in range(5_000)], batch_size=50_000)
    if foreign:
        load.produce(batches.target, batches.remote, [Made(b"foreign", b"x")])
        batches.run(lambda: bool(batches.left))
        assert batches.left[0].reason == "doubted" and not ends
        return
    batches.copy_all()
    assert batches.failures == ["OutcomeUnknown: the first transaction fails"] and not batches.left
    assert len(ends) > 1
    assert_copied(batches)


def copy_while(batches: BatchPath, write: Callable[[], None]) -> None:
    """Have others write between two of our transactions, and copy on until that is counted."""
    ours, written = [mixed(number) for number in range(10)], False
    load.produce(batches.source, batches.topic, ours)

    def counted() -> bool:
        nonlocal written
        if batches.copied == len(ours) and not written:
            write()
            load.produce(batches.source, batches.topic, ours)
            written = True
        return batches.copied == 2 * len(ours) and batches.books[0].counters.foreign > 0

    batches.run(counted)
    assert not batches.left and batches.books[0].counters.foreign == 3


def test_records_of_others_are_counted_although_they_end_a_transaction(pair: Pair, tmp_path: Path) -> None:
    """A sync for each record says where it is: if the records are elsewhere, it is not committed."""
    batches = between(pair, tmp_path, offset_lag_max=0)
    copy_while(batches, lambda: load.produce(batches.target, batches.remote, [Made(b"theirs", b"x")] * 3))
    (failure,) = batches.failures
    assert failure.startswith("Interleaved")


def test_records_of_others_are_counted_while_their_transaction_is_open(pair: Pair, tmp_path: Path) -> None:
    batches = between(pair, tmp_path, offset_lag_max=1_000)
    stranger = load.producer(batches.target, transactional_id=batches.topic, transaction_timeout_ms=900_000)
    stranger.init_transactions(PATIENCE)

    def write() -> None:
        stranger.begin_transaction()
        for _ in range(3):
            stranger.produce(batches.remote, b"theirs", partition=0)
        assert stranger.flush(PATIENCE) == 0

    copy_while(batches, write)
    assert not batches.failures
    stranger.abort_transaction(PATIENCE)


def test_a_copier_that_is_stopped_anywhere_goes_on(batches: BatchPath, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stopped in the middle of transactions again and again, and the next owner fences, loads and seeks."""
    monkeypatch.setattr(batch_copier, "TRANSACTION_MAX", 100_000)
    records = [Made(b"%d" % number, b"v" * 100) for number in range(50_000)]
    load.produce(batches.source, batches.topic, records, batch_size=8_000)
    batches.memory = MemoryBounds(partition_answer=60_000)
    left_open = rounds = 0
    while left_open < 3:
        rounds += 1
        batches.again()
        batches.run(some_time_after(lambda: batches.copied >= 500, rounds % 10 * 0.006))
        left_open += bool(oracle.hanging(batches.target, batches.remote))
        assert oracle.count(oracle.read(batches.target, batches.remote)) < len(records)
    batches.copy_all()
    assert_copied(batches)
    assert not oracle.hanging(batches.target, batches.remote)


def test_what_leaves_the_batch_path(pair: Pair, tmp_path: Path) -> None:
    """The copier leaves at the first batch that does not fit, and copies what is before it."""
    cases: dict[str, tuple[Made, dict[str, object]]] = {
        "too_large": (Made(b"large", b"x" * 20_000), {}),
        "log_append_time": (Made(b"late", b"x"), {"message_timestamp_type": "LogAppendTime"}),
    }
    for reason, (made, config) in cases.items():
        batches = between(pair.other(reason.replace("_", "")), tmp_path)
        batches.largest = 10_000
        load.produce(batches.source, batches.topic, [mixed(number) for number in range(100)])
        if config:
            topics.configure(batches.source, batches.topic, **config)
        load.produce(batches.source, batches.topic, [made])
        batches.run(lambda batches=batches: bool(batches.left))  # type: ignore[misc]
        assert (batches.left[0].reason, batches.left[0].at) == (reason, 100)
        assert oracle.count(oracle.read(batches.target, batches.remote)) == 100
        assert oracle.committed_position(batches.target, batches.flow.group, batches.remote, 0) == 100
