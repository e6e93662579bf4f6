"""A source whose answers are well formed and wrong: it costs few requests and little memory, and skips nothing."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.batches.codecs import LZ4
from mirror.batches.fitting import RECORDS_MAX
from mirror.batches.headers import HEADER
from mirror.errors import Malformed
from mirror.source.batch_feed import Feed, Held, LeaveBatchPath
from mirror.source.batch_reading import MANY, read
from mirror.source.fetch_memory import BOUNDS, MemoryBounds
from mirror.wire.error_codes import CODES
from mirror.wire.fetch import FetchAnswer, PartitionAnswer
from tests.harness import batches
from tests.unit.source.test_batch_fetcher import TOPIC, Asked, Source, fetched, fetching, log, reply, taken

LOST = CODES["FETCH_SESSION_ID_NOT_FOUND"]
FOR = 0.6  # seconds
FEW = 30  # requests in that time; without back-off there are thousands
LAST = 2**63 - 1

Lie = Callable[[Asked], FetchAnswer]


def by_turns(*lies: FetchAnswer) -> Lie:
    """One after the other, for ever."""
    count = 0

    def lie(_: Asked) -> FetchAnswer:
        nonlocal count
        count += 1
        return lies[count % len(lies)]

    return lie


@pytest.mark.parametrize(
    "lie",
    [
        lambda _: reply(error=LOST, session=0),
        by_turns(reply(error=LOST, session=0), reply()),
        lambda _: reply(),
        lambda _: reply(session=0),
        lambda _: reply(session=-5),
        lambda _: reply(fetched(0)),
        lambda _: reply((b"?" * 16, fetched(0, log(5, 5))[1])),
        lambda _: reply(fetched(7, log(5, 5))),
        lambda _: reply(fetched(0, preferred=1)),
        lambda asked: reply(fetched(0, preferred=3 - asked.node)),
        lambda _: reply(fetched(0, preferred=2**31 - 1)),
        lambda _: reply(fetched(0, error=CODES["NOT_LEADER_OR_FOLLOWER"])),
        lambda _: reply(error=CODES["UNKNOWN_TOPIC_ID"]),
        lambda _: reply(error=-1),
    ],
)
def test_answers_that_bring_nothing_are_asked_for_rarely(lie: Lie) -> None:
    """They come at once, where a broker that has nothing would wait."""

    async def run() -> None:
        async with fetching() as (fetcher, source):
            feeds = [fetcher.open(TOPIC, 0, 5) for _ in range(1)]
            until = asyncio.get_running_loop().time() + FOR
            count = 0
            try:
                async with asyncio.timeout_at(until):
                    while True:
                        asked, future = await source.asked.get()
                        count += 1
                        future.set_result(lie(asked))
            except TimeoutError:
                assert count <= FEW and feeds[0].position == 5

    asyncio.run(run())


async def outcome(answer: FetchAnswer, feed: Feed, source: Source) -> LeaveBatchPath | None:
    """What a feed makes of an answer: why it ends, or that it goes on."""
    _, future = await source.asked.get()
    future.set_result(answer)
    try:
        while await feed.wait(0.2):
            for span in feed.take(2**30, 2**30):
                feed.done(span)
    except LeaveBatchPath as left:
        return left
    return None


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        (batches.raw(b"", 1, LAST, LAST), "unreadable"),
        (batches.raw(b"", 0, 5, 5) + batches.raw(b"", 2, LAST - 1, LAST), "unreadable"),
        (batches.message(LAST, 1, b"", b""), "unreadable"),
        (batches.raw(b"", 2**31 - 1, 5, 5 + 2**31 - 2), "too_many_records"),
        (batches.raw(b"", RECORDS_MAX + 1, 5, 5 + RECORDS_MAX), "too_many_records"),
        (log(9, 1) + log(5, 4), "unreadable"),
        (struct.pack(">qiib", 5, 2**31 - 1, 0, 2) + bytes(100), "unreadable"),
        (struct.pack(">qiib", 5, -1, 0, 2) + bytes(100), "unreadable"),
        (bytes(12), "unreadable"),
    ],
)
def test_what_a_batch_says_of_itself_ends_only_its_partition(
    records: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its checksum is right. The other partitions of the answer are none the worse for it."""

    async def run() -> None:
        async with fetching() as (fetcher, source):
            feed, other = fetcher.open(TOPIC, 0, 5), fetcher.open(TOPIC, 1, 0)
            left = await outcome(reply(fetched(0, records), fetched(1, log(0, 5))), feed, source)
            assert left is not None and left.reason == reason
            (span,) = await taken(other)
            other.done(span)
            assert span.end == 5 and not other.ended and fetcher.memory.held == 0

    asyncio.run(run())
    assert not [each for each in caplog.records if each.exc_info], "it is no defect"


def test_what_is_not_a_batch_of_an_answer_is_held_too() -> None:
    """The memory of an answer is free when its last batch is: also what else was in it."""

    async def run() -> None:
        async with fetching() as (fetcher, source):
            feed = fetcher.open(TOPIC, 0, 0)
            _, future = await source.asked.get()
            future.set_result(reply(fetched(0, log(0, 5)), size=2**29))
            (span,) = await taken(feed)
            assert fetcher.memory.held == 2**29 + fetcher.memory.bounds.batch
            await asyncio.sleep(0.02)
            assert source.asked.empty(), "there is no room"
            feed.done(span)
            assert fetcher.memory.held == 0

    asyncio.run(run())


def test_more_than_was_asked_for_is_not_read() -> None:
    """Each batch costs many times its bytes. What is left out is asked for again."""
    empty = b"".join(batches.raw(b"", 0, n, n) for n in range(30_000))  # 1.8 MB

    async def run() -> None:
        async with fetching() as (fetcher, source):
            feed = fetcher.open(TOPIC, 0, 0)
            _, future = await source.asked.get()
            again = fetched(0, b"".join(batches.raw(b"", 0, n, n) for n in range(20_000, 21_000)))
            future.set_result(reply(fetched(0, empty), again))
            asked, _ = await source.asked.get()
            assert 17_000 < asked.positions[0][0] < 17_500 and asked.positions[0][0] == feed.position

    asyncio.run(run())


EXTREME = st.sampled_from([0, 1, 5, 6, 9, 2**31 - 1, 2**62, LAST - 1, LAST])


@st.composite
def lying(draw: st.DrawFn) -> bytes:
    """A batch with a right checksum that says anything."""
    first = draw(st.one_of(st.integers(0, 20), EXTREME))
    last = min(LAST, first + draw(st.one_of(st.integers(0, 5), st.just(2**31 - 1))))
    count = draw(st.one_of(st.just(last - first + 1), st.integers(0, 6), st.just(2**32 - 1))) & 0xFFFFFFFF
    time_ = draw(st.sampled_from([0, -1, 1, -(2**63), LAST]))
    flags = draw(st.sampled_from([0, 0x10, 0x20, 0x30, 0x08, 0x07, -1]))
    return batches.raw(draw(st.binary(max_size=12)), count, first, last, time_, time_, flags, draw(st.integers(-1, 2)))


@given(
    st.lists(lying(), max_size=5).map(b"".join),
    st.lists(st.tuples(st.integers(-1, 2), st.one_of(st.integers(-5, 20), EXTREME)), max_size=5),
    st.integers(0, 8),
)
def test_whatever_batches_say_what_is_read_goes_forwards(
    records: bytes, aborted: list[tuple[int, int]], position: int
) -> None:
    counted: list[int] = []
    feed = Feed(TOPIC, 0, position, -1, lambda: 2**20)
    held = Held(7, counted.append)
    held.retain()
    with contextlib.suppress(Malformed):
        read(feed, PartitionAnswer(0, 0, 5, aborted, memoryview(bytearray(records)), None, None, -1, 5), held, BOUNDS)
    held.release()
    assert feed.position >= position and struct.pack(">q", feed.position)
    at = position
    for span in feed.take(2**30, 2**30):
        assert span.start == at and (not span.batches or span.batches[0].first >= at)
        for before, after in zip(span.batches, span.batches[1:], strict=False):
            assert before.last < after.first
        assert all(each.records == each.last - each.first + 1 <= RECORDS_MAX for each in span.batches)
        assert not span.batches or span.batches[-1].last < span.end
        at = span.end
        feed.done(span)
    assert at == feed.position and counted == [7, -7] and feed.size == feed.batches == 0


def test_a_transaction_has_a_bounded_number_of_records() -> None:
    """Batches say how many they have. Each needs a few bytes only, and syncs are made by that number."""
    many = b"".join(batches.raw(b"", RECORDS_MAX, n * RECORDS_MAX, (n + 1) * RECORDS_MAX - 1) for n in range(20))
    counted: list[int] = []
    feed, held = Feed(TOPIC, 0, 0, -1, lambda: 2**20), Held(7, counted.append)
    read(feed, PartitionAnswer(0, 0, 5, (), memoryview(bytearray(many)), None, None, -1, 5), held, BOUNDS)
    taken_: list[Any] = []
    while spans := feed.take(2**30, 500):
        taken_.append(sum(each.records for span in spans for each in span.batches))
        for span in spans:
            feed.done(span)
    assert taken_ == [RECORDS_MAX] * 20 and counted == [7, -7]


def test_reading_takes_a_time_that_depends_on_what_was_asked_for() -> None:
    records = memoryview(bytearray(batches.raw(b"", 0, 0, 0) * 500_000))  # 30 MB, which repeat an offset
    feed, held = Feed(TOPIC, 0, 0, -1, lambda: 2**20), Held(7, lambda _: None)
    begun = time.process_time()
    with pytest.raises(Malformed):
        read(feed, PartitionAnswer(0, 0, 5, (), records, None, None, -1, 5), held, BOUNDS)
    assert time.process_time() - begun < 1.0


@pytest.mark.parametrize("honest", [True, False])
def test_many_tiny_batches_take_no_more_memory_than_the_bound(honest: bool) -> None:
    """Python needs for each of them seven times its bytes. That counts, and less is asked for."""
    bounds, partitions = MemoryBounds(total=2**23, answer=2**20, partition=2**20), 8

    def answer(asked: Asked, feeds: list[Feed]) -> FetchAnswer:
        """An honest broker sends what was asked for, another one always as many as whole batches are copied of."""
        count = min(asked.most // HEADER // partitions, MANY) if honest else MANY
        logs: dict[int, bytes] = {}
        for at in {feed.position for feed in feeds}:
            logs[at] = b"".join(batches.raw(b"", 1, n, n, attributes=LZ4) for n in range(at, at + count))
        return reply(*(fetched(number, logs[feed.position]) for number, feed in enumerate(feeds)))

    async def run() -> None:
        async with fetching(bounds) as (fetcher, source):
            feeds = [fetcher.open(TOPIC, number, 0) for number in range(partitions)]
            tracemalloc.start()
            try:
                with contextlib.suppress(TimeoutError):
                    while True:
                        async with asyncio.timeout(1):
                            asked, future = await source.asked.get()
                        future.set_result(answer(asked, feeds))
                        del future
                assert bounds.total / 2 < fetcher.memory.held < bounds.total + bounds.answer
                assert tracemalloc.get_traced_memory()[0] < fetcher.memory.held
            finally:
                tracemalloc.stop()
            assert asked.most < bounds.answer / 5
            assert not honest or all(feed.position for feed in feeds), "each has got something"
            for feed in feeds:
                for span in feed.take(2**30, 2**30):
                    feed.done(span)
            assert fetcher.memory.held == 0

    asyncio.run(run())
