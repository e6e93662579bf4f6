"""The fetcher of whole batches: what it asks for, what it keeps in memory, and what it hands over."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Sequence, Set
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.batches.codecs import LZ4
from mirror.batches.headers import LOG_APPEND_TIME, TRANSACTIONAL
from mirror.batches.records import Content
from mirror.errors import LoginRefused, Malformed, Refused, Unavailable, WireError
from mirror.source import batch_feed, batch_fetcher, batch_reading, broker_fetches, fetched_partitions
from mirror.source.batch_feed import Feed, LeaveBatchPath, Span
from mirror.source.batch_fetcher import BatchFetcher
from mirror.source.fetch_memory import FetchMemory, MemoryBounds, Room
from mirror.source.fetch_session import SessionFeeds
from mirror.wire.access import Address
from mirror.wire.cluster import Cluster
from mirror.wire.cursor import Cursor
from mirror.wire.error_codes import CODES
from mirror.wire.fetch import FetchAnswer, PartitionAnswer, TopicKey
from mirror.wire.metadata import Leader
from mirror.wire.requests import Api, Request
from mirror.wire.writer import Writer
from tests.harness import batches

TOPIC = TopicKey("t", b"t" * 16)
EVERYTHING = 2**30


def log(first: int, count: int, size: int = 10, **more: Any) -> bytes:
    """One batch."""
    return batches.batch([(n, n, Content(b"%d" % n, b"x" * size, ())) for n in range(first, first + count)], **more)


@dataclass
class Asked:
    """A Fetch request as it came."""

    node: int
    session: tuple[int, int]
    wait: int  # ms
    positions: dict[int, tuple[int, int, int]]  # by partition: offset, the leader's epoch, the last batch's
    forgotten: list[int]
    most: int  # bytes
    rack: str = ""


Reply = Callable[[Asked], FetchAnswer | WireError | None]


@dataclass
class Source:
    """Stands in for a cluster with nodes 1 and 2: each request waits until a test answers it."""

    leaders: dict[int, int] = field(default_factory=dict)  # by partition; node 1 if not given
    topic_id_: bytes = TOPIC.id
    unknown: WireError | None = None
    refused: WireError | None = None  # by each connection
    epoch: int = 4
    version_: int = 17
    quiet_until: float = 0.0
    closed: WireError | None = None
    asked: asyncio.Queue[tuple[Asked, asyncio.Future[FetchAnswer]]] = field(default_factory=asyncio.Queue)
    forgotten: list[int] = field(default_factory=list)
    replicas_: Sequence[int] = (1, 2)
    refreshed: list[Set[str]] = field(default_factory=list)
    hints: list[tuple[int, Leader, Address | None]] = field(default_factory=list)

    async def leader(self, topic: str, partition: int) -> Leader:
        if self.unknown:
            raise self.unknown
        return Leader(self.leaders.get(partition, 1), self.epoch)

    def topic_id(self, topic: str) -> bytes:
        return self.topic_id_

    def replicas(self, topic: str, partition: int) -> Sequence[int]:
        return self.replicas_

    def known_leader(self, topic: str, partition: int) -> Leader:
        return Leader(self.leaders.get(partition, 1), self.epoch)

    async def refresh(self, topics: Set[str]) -> None:
        self.refreshed.append(topics)

    def forget_leader(self, topic: str, partition: int) -> None:
        self.forgotten.append(partition)

    def hint(self, topic: str, partition: int, leader: Leader, address: Address | None) -> None:
        self.hints.append((partition, leader, address))

    async def connection(self, node: int, purpose: str) -> Connected:
        if self.refused:
            raise self.refused
        return Connected(self, node)


@dataclass(frozen=True)
class Connected:
    """A connection to one of its brokers."""

    source: Source
    node: int

    def version(self, api: Api) -> int:
        return api.version({api.key: (0, self.source.version_)})

    @property
    def closed(self) -> WireError | None:
        return self.source.closed

    @property
    def quiet_until(self) -> float:
        return self.source.quiet_until

    async def ask(self, request: Request[FetchAnswer]) -> FetchAnswer:
        return await self.send(request)

    def send(self, request: Request[FetchAnswer]) -> asyncio.Future[FetchAnswer]:
        writer = Writer(17, True)
        request.write(writer)
        answer = Cursor(b"".join(writer.parts), 17, True)
        wait, _, most, _ = answer.int32(), answer.int32(), answer.int32(), answer.int8()
        session = answer.int32(), answer.int32()
        positions = {number: rest for _, (number, *rest) in answer.by_topic_id(_wanted, 33)}
        forgotten = [number for some in answer.array(_forgotten, 18) for number in some]
        where = {n: (a, b, c) for n, (a, b, c) in positions.items()}
        asked = Asked(self.node, session, wait, where, forgotten, most, answer.string())
        future: asyncio.Future[FetchAnswer] = asyncio.get_running_loop().create_future()
        self.source.asked.put_nowait((asked, future))
        return future


def _wanted(answer: Cursor) -> tuple[int, int, int, int]:
    number, epoch, offset, fetched = answer.int32(), answer.int32(), answer.int64(), answer.int32()
    answer.int64(), answer.int32()
    answer.tags()
    return number, offset, epoch, fetched


def _forgotten(answer: Cursor) -> list[int]:
    answer.uuid()
    found = answer.array(Cursor.int32, 4)
    answer.tags()
    return found


def fetched(partition: int, records: bytes = b"", error: int = 0, **more: Any) -> tuple[bytes, PartitionAnswer]:
    """An answer for one partition."""
    rest = {"stable": 90, "aborted": (), "diverging": None, "leader": None, "preferred": -1, "high": 95, **more}
    return TOPIC.id, PartitionAnswer(partition, error, records=memoryview(bytearray(records)), **rest)


def reply(
    *partitions: tuple[bytes, PartitionAnswer],
    error: int = 0,
    session: int = 77,
    size: int = 0,
    throttled: bool = False,
) -> FetchAnswer:
    size = size or sum(len(each.records) for _, each in partitions)
    return FetchAnswer(error, session, partitions, {2: ("b", 2)}, size, throttled)


@contextlib.asynccontextmanager
async def fetching(memory: MemoryBounds | None = None, rack: str = "") -> AsyncIterator[tuple[BatchFetcher, Source]]:
    source = Source()
    fetcher = BatchFetcher(cast(Cluster, source), memory or MemoryBounds(), rack)
    try:
        async with asyncio.timeout(20):
            yield fetcher, source
    finally:
        await fetcher.stop()


async def taken(feed: Feed, most: int = EVERYTHING, count: int = EVERYTHING) -> list[Span]:
    """What comes next."""
    assert await feed.wait()
    return feed.take(most, count)


async def read(feed: Feed, most: int = EVERYTHING, count: int = EVERYTHING) -> list[tuple[int, int]]:
    """The batches that come next, by first and last offset. They are given back."""
    spans = await taken(feed, most, count)
    give_back(feed, spans)
    return [(batch.first, batch.last) for span in spans for batch in span.batches]


def give_back(feed: Feed, spans: list[Span]) -> None:
    for span in spans:
        feed.done(span)


def test_a_session_asks_only_for_what_has_changed() -> None:
    async def run() -> None:
        async with fetching() as (fetcher, source):
            first, second = fetcher.open(TOPIC, 0, 10, epoch=3), fetcher.open(TOPIC, 1, 20)
            asked, future = await source.asked.get()
            assert (asked.session, asked.wait) == ((0, 0), 500)
            assert asked.positions == {0: (10, 4, 3), 1: (20, 4, -1)}
            future.set_result(reply(fetched(0, log(10, 5) + log(15, 2)), fetched(1)))
            asked, future = await source.asked.get()
            assert (asked.session, asked.positions, asked.forgotten) == ((77, 1), {0: (17, 4, 0)}, [])
            assert await read(first) == [(10, 16)]
            future.set_result(reply(fetched(1, log(20, 1))))
            asked, future = await source.asked.get()
            assert (asked.session, asked.positions) == ((77, 2), {1: (21, 4, 0)})
            assert await read(second) == [(20, 20)]
            fetcher.close(second)
            future.set_result(reply())
            asked, future = await source.asked.get()
            assert (asked.positions, asked.forgotten) == ({}, [1])
            assert fetcher.memory.used == fetcher.memory.bounds.answer, "only what is asked for"

    asyncio.run(run())


def test_a_request_costs_what_has_changed() -> None:
    """Among very many partitions that have nothing, as few are looked at as have records."""
    many, looked = 2_000, list[Feed]()
    has = Room.has

    def counted(room: Room, feed: Feed) -> bool:
        looked.append(feed)
        return has(room, feed)

    async def run() -> None:
        async with fetching() as (fetcher, source):
            feeds = [fetcher.open(TOPIC, number, 0) for number in range(many)]
            asked, future = await source.asked.get()
            found = len(asked.positions)
            while found < many:  # they come in while the first are asked for
                future.set_result(reply())
                asked, future = await source.asked.get()
                found += len(asked.positions)
            for round_ in range(10):
                looked.clear()
                busy = [round_, many - 1 - round_]
                future.set_result(reply(*(fetched(each, log(0, 1)) for each in busy)))
                asked, future = await source.asked.get()
                assert asked.positions == {each: (1, 4, 0) for each in busy} and not asked.forgotten
                assert {feed.partition for feed in looked} == {*busy}
                for each in busy:
                    await read(feeds[each])
                future.set_result(reply())
                asked, future = await source.asked.get()
                assert not asked.positions

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Room, "has", counted)
        asyncio.run(run())


def test_a_lost_session_begins_again() -> None:
    async def run() -> None:
        async with fetching() as (fetcher, source):
            feed = fetcher.open(TOPIC, 0, 0)
            _, future = await source.asked.get()
            future.set_result(reply(fetched(0, log(0, 5))))
            for error in ("FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "FETCH_SESSION_TOPIC_ID_ERROR"):
                _, future = await source.asked.get()
                future.set_result(reply(error=CODES[error], session=0))
                asked, future = await source.asked.get()
                assert (asked.session, asked.positions) == ((77, 0), {0: (5, 4, 0)}), "another one in its place"
                future.set_result(reply(fetched(0)))
            assert await read(feed) == [(0, 4)] and not source.forgotten

    asyncio.run(run())


def test_a_session_ends_with_the_fetcher() -> None:
    """Or the broker would keep it for minutes, and may have no room for another one."""

    async def run() -> None:
        source = Source()
        fetcher = BatchFetcher(cast(Cluster, source), MemoryBounds())
        fetcher.open(TOPIC, 0, 0)
        _, future = await source.asked.get()
        future.set_result(reply(fetched(0, log(0, 5))))
        await source.asked.get()
        await fetcher.stop()
        last, _ = source.asked.get_nowait()
        assert (last.session, last.positions) == ((77, -1), {})

    asyncio.run(run())


def test_a_partition_that_is_not_taken_does_not_hold_up_others() -> None:
    async def run() -> None:
        async with fetching(MemoryBounds(batch=0, partition=200)) as (fetcher, source):
            slow, other = fetcher.open(TOPIC, 0, 0), fetcher.open(TOPIC, 1, 0)
            _, future = await source.asked.get()
            future.set_result(reply(fetched(0, log(0, 9, 40)), fetched(1, log(0, 1))))
            asked, future = await source.asked.get()
            assert (asked.positions, asked.forgotten, asked.wait) == ({1: (1, 4, 0)}, [0], 20)
            assert await read(slow) == [(0, 8)] and await read(other) == [(0, 0)]
            future.set_result(reply())
            asked, _ = await source.asked.get()
            assert (asked.positions, asked.wait) == ({0: (9, 4, 0)}, 500)

    asyncio.run(run())


def test_a_partition_that_waits_for_room_costs_few_requests() -> None:
    """While nothing moves, the broker may wait for longer and longer. It answers at once when records come."""

    async def run() -> None:
        async with fetching(MemoryBounds(batch=0, partition=200)) as (fetcher, source):
            full, other = fetcher.open(TOPIC, 0, 0), fetcher.open(TOPIC, 1, 0)
            _, future = await source.asked.get()
            future.set_result(reply(fetched(0, log(0, 9, 40))))
            waits = list[int]()
            while sum(waits) < 3_000:  # ms
                asked, future = await source.asked.get()
                waits.append(asked.wait)
                future.set_result(reply(fetched(1)))  # its high watermark has moved, as with an open transaction
            assert len(waits) < 20 and waits[:3] == [20, 30, 45] and max(waits) == 500
            asked, future = await source.asked.get()
            future.set_result(reply(fetched(1, log(0, 1))))
            asked, future = await source.asked.get()
            assert asked.wait == 20, "records have come"
            future.set_result(reply())
            asked, future = await source.asked.get()
            assert asked.wait == 30
            assert await read(full) == [(0, 8)] and await read(other) == [(0, 0)]
            future.set_result(reply())
            asked, future = await source.asked.get()
            assert asked.wait == 500, "none is full"
            future.set_result(reply(fetched(0, log(9, 9, 40))))
            asked, _ = await source.asked.get()
            assert asked.wait == 20

    asyncio.run(run())


def test_a_partition_that_has_room_again_is_asked_for() -> None:
    """Its answer is still in memory, because another partition is not copied yet."""

    async def run() -> None:
        async with fetching(MemoryBounds(batch=0, partition=50)) as (fetcher, source):
            first, second = fetcher.open(TOPIC, 0, 0), fetcher.open(TOPIC, 1, 0)
            _, future = await source.asked.get()
            future.set_result(reply(fetched(0, log(0, 9)), fetched(1, log(0, 9))))
            spans = await taken(second)
            await asyncio.sleep(0.01)
            assert source.asked.empty(), "both are full"
            assert await read(first) == [(0, 8)]
            asked, _ = await source.asked.get()
            assert (asked.positions, asked.forgotten) == ({0: (9, 4, 0)}, [1])
            give_back(second, spans)

    asyncio.run(run())


def test_memory_has_a_bound_and_is_free_when_the_last_batch_is() -> None:
    """The batches of an answer are parts of it: while one is used, all of it is."""

    async def run() -> None:
        data = log(10, 10, 40)
        async with fetching(MemoryBounds(batch=0, total=2700, answer=600)) as (fetcher, source):
            first, second = fetcher.open(TOPIC, 0, 10), fetcher.open(TOPIC, 1, 10)
            for at in (10, 20):
                _, future = await source.asked.get()
                future.set_result(reply(fetched(0, log(at, 10, 40)), fetched(1, log(at, 10, 40))))
            while fetcher.memory.used != 4 * len(data):
                await asyncio.sleep(0)
            await asyncio.sleep(0.05)
            assert source.asked.empty(), "no room for another answer"
            spans = await taken(first)
            give_back(first, spans)
            assert fetcher.memory.used == 4 * len(data)
            (span,) = await taken(second, count=1)
            second.done(span)
            assert fetcher.memory.used == 2 * len(data)
            await source.asked.get()
            assert fetcher.memory.used == 2 * len(data) + 600
            fetcher.close(second)
            assert fetcher.memory.used == 600

    asyncio.run(run())


def test_the_memory_of_an_answer_is_kept_before_the_broker_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """There was room for it. Meanwhile others may take all that is left."""
    connecting = asyncio.Event()

    async def never(*_: object) -> Connected:
        connecting.set()
        await asyncio.sleep(3600)
        raise AssertionError

    monkeypatch.setattr(Source, "connection", never)

    async def run() -> None:
        async with fetching() as (fetcher, _):
            fetcher.open(TOPIC, 0, 5)
            await connecting.wait()
            assert fetcher.memory.reserved == fetcher.answer_max

    asyncio.run(run())


def test_what_is_given_back_concerns_one_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be hundreds, which all wait for partitions that are full."""
    many, asked_for, following = 30, list[SessionFeeds](), SessionFeeds.next

    def counted(feeds: SessionFeeds, room: Room) -> Any:
        asked_for.append(feeds)
        return following(feeds, room)

    monkeypatch.setattr(SessionFeeds, "next", counted)

    async def run() -> None:
        async with fetching(MemoryBounds(batch=0, partition=50)) as (fetcher, source):
            source.leaders = {number: number for number in range(many)}
            feeds = [fetcher.open(TOPIC, number, 0) for number in range(many)]
            for _ in range(many):
                asked, future = await source.asked.get()
                future.set_result(reply(fetched(asked.node, log(0, 9))))
            spans = [await taken(feed) for feed in feeds]
            await asyncio.sleep(0.02)
            asked_for.clear()
            give_back(feeds[7], spans[7])
            asked, _ = await source.asked.get()
            assert asked.positions == {7: (9, 4, 0)} and len(asked_for) == 1

    asyncio.run(run())


def test_a_broker_that_lacked_room_beside_others_gets_it() -> None:
    """One of them has answered with nothing. Nothing else becomes free."""

    async def run() -> None:
        async with fetching(MemoryBounds(batch=0, total=80, answer=20)) as (fetcher, source):
            source.leaders = {0: 1, 1: 2, 2: 3}
            fetcher.memory.hold(50)  # by partitions that are stuck
            futures = []
            for partition in range(2):
                fetcher.open(TOPIC, partition, 0)
                futures.append((await source.asked.get())[1])
            assert fetcher.memory.used == 80, "the first one was alone"
            fetcher.open(TOPIC, 2, 0)
            await asyncio.sleep(0.02)
            assert source.asked.empty()
            futures[0].set_result(reply())
            found = {(await source.asked.get())[0].node for _ in range(2)}
            assert found == {1, 3}

    asyncio.run(run())


@pytest.fixture
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who gives its records back at once is quick, however busy the machine is."""
    monkeypatch.setattr(batch_feed, "time", SimpleNamespace(monotonic=lambda: 0.0))


@pytest.mark.parametrize("slow", [1, 2, 6, 12])
@pytest.mark.parametrize("busy", [0, 3])
@pytest.mark.usefixtures("no_time_passes")
def test_slow_partitions_hold_up_no_others(slow: int, busy: int) -> None:
    """None of the slow ones gives anything back, and the busy ones always have more. The live one gets its records."""

    async def run() -> None:
        live, batch = slow + busy, len(log(0, 1, 1000))
        memory = MemoryBounds(
            batch=0, total=80 * batch, answer=10 * batch, partition=20 * batch, partition_answer=2 * batch
        )
        async with fetching(memory) as (fetcher, source):
            feeds = [fetcher.open(TOPIC, number, 0) for number in range(live + 1)]
            in_session: set[int] = set()
            starved = False
            for round_ in range(60):
                asked, future = await source.asked.get()
                in_session = (in_session | asked.positions.keys()) - (set(asked.forgotten) - asked.positions.keys())
                assert live in in_session or (asked.wait == 20 and not starved), "what it has is being copied: soon"
                starved = live not in in_session
                # One slow partition after the other gets its first records, each in a large answer.
                having = [each for each in sorted(in_session) if each >= slow or round_ >= 5 * each][-9:]
                sizes = {each: 3000 if slow <= each < live else 1000 for each in having}
                future.set_result(
                    reply(*(fetched(each, log(feeds[each].position, 1, size)) for each, size in sizes.items()))
                )
                assert starved or await read(feeds[live])
                for each in feeds[slow:live]:
                    give_back(each, each.take(EVERYTHING, EVERYTHING))
                assert fetcher.memory.used <= memory.total
            assert all(each.size for each in feeds[:slow])

    asyncio.run(run())


@pytest.mark.parametrize("slow", [30, 200])
@pytest.mark.usefixtures("no_time_passes")
def test_very_many_slow_partitions_leave_room_for_a_live_one(slow: int) -> None:
    """None of them gives anything back. The live one, which was quick before, is asked for again and again."""

    async def run() -> None:
        batch = len(log(0, 1, 1000))
        memory = MemoryBounds(batch=0, total=40 * batch, answer=4 * batch, partition=10 * batch, partition_answer=batch)
        async with fetching(memory) as (fetcher, source):
            feeds = [fetcher.open(TOPIC, number, 0) for number in range(slow + 1)]
            in_session, starved = set[int](), False
            for _ in range(100):
                asked, future = await source.asked.get()
                in_session = (in_session | asked.positions.keys()) - (set(asked.forgotten) - asked.positions.keys())
                having = [*sorted(in_session, reverse=True)][: asked.most // batch]
                found = feeds[slow].position > 0
                assert slow in having or not found or (asked.wait == 20 and not starved), "what it has is being copied"
                starved = found and slow not in having
                future.set_result(reply(*(fetched(each, log(feeds[each].position, 1, 1000)) for each in having)))
                assert slow not in having or await read(feeds[slow])
                assert fetcher.memory.used <= memory.total
            assert fetcher.memory.held > memory.total / 2 and not any(each.is_quick for each in feeds[:slow])

    asyncio.run(run())


def test_an_answer_that_nobody_expected_holds_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other answers need the room, whatever goes wrong while this one is read."""

    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(batch_reading, "committed", fails)

    async def run() -> None:
        async with fetching() as (fetcher, source):
            feed = fetcher.open(TOPIC, 0, 0)
            _, future = await source.asked.get()
            future.set_result(reply(fetched(0, log(0, 5))))
            with pytest.raises(LeaveBatchPath, match="defect at offset 0"):
                await taken(feed)
            assert fetcher.memory.used == 0

    asyncio.run(run())


def test_only_so_much_is_taken_at_once() -> None:
    async def run() -> None:
        async with fetching() as (fetcher, source):
            feed = fetcher.open(TOPIC, 0, 0)
            for at in range(0, 50, 10):
                _, future = await source.asked.get()
                future.set_result(reply(fetched(0, log(at, 5, codec=LZ4) + log(at + 5, 5, codec=LZ4))))
            await source.asked.get()
            size = feed.size // 10
            held = fetcher.memory.used
            assert await read(feed, most=1) == [(0, 4)], "at least one batch"
            assert fetcher.memory.used == held, "the other one is in the same memory"
            (span,) = await taken(feed, most=3 * size // 2)
            assert (span.start, span.end, span.size) == (5, 10, len(span.batches[0].data))
            feed.done(span)
            spans = await taken(feed, count=3)
            assert [(each.start, each.end) for each in spans] == [(10, 20), (20, 25)]
            assert await read(feed, count=2) == [(25, 29), (30, 34)], "in order, and not twice"
            give_back(feed, spans)
            assert await read(feed) == [(35, 39), (40, 44), (45, 49)]
            assert (feed.size, fetcher.memory.used) == (0, fetcher.memory.bounds.answer), "each answer's memory is free"

    asyncio.run(run())


def test_a_full_feed_is_waited_for_or_its_end_or_some_time() -> None:
    async def run() -> None:
        async with fetching() as (fetcher, source):
            feed = fetcher.open(TOPIC, 0, 0)
            assert not await feed.wait(0.01), "nothing has come"
            _, future = await source.asked.get()
            future.set_result(reply(fetched(0, log(0, 5))))
            _, future = await source.asked.get()
            assert await feed.wait(0.01, least=EVERYTHING), "something has come, if not enough"
            full = asyncio.create_task(feed.wait(60, least=feed.size + 1))
            future.set_result(reply(fetched(0, log(5, 5))))
            assert await full
            ended = asyncio.create_task(feed.wait(60, least=EVERYTHING))
            _, future = await source.asked.get()
            future.set_result(reply(fetched(0, error=CODES["CORRUPT_MESSAGE"])))
            assert await ended and await read(feed) == [(0, 4), (5, 9)]
            with pytest.raises(LeaveBatchPath):
                await feed.wait()

    asyncio.run(run())


@pytest.mark.parametrize(("later", "reason"), [(False, "let_go"), (True, "obsolete")])
def test_a_feed_ends_for_the_first_reason_unless_it_is_dropped(later: bool, reason: str) -> None:
    async def run() -> None:
        feed = Feed(TOPIC, 0, 5, -1, lambda: EVERYTHING)
        feed.end(LeaveBatchPath("let_go", 5))
        feed.end(LeaveBatchPath("refused", 5))  # as for a request that was under way
        if later:
            feed.end(LeaveBatchPath("obsolete", 5), drop=True)
        with pytest.raises(LeaveBatchPath, match=f"{reason} at offset 5"):
            await feed.wait()

    asyncio.run(run())


def test_a_broker_without_room_for_sessions_is_asked_for_everything() -> None:
    async def run() -> None:
        async with fetching() as (fetcher, source):
            feed = fetcher.open(TOPIC, 0, 0)
            for at, before, now in ((0, 0, 77), (5, 77, 0), (10, 0, 0), (15, 0, 0)):
                asked, future = await source.asked.get()
                assert (asked.session, asked.positions) == ((before, bool(before)), {0: (at, 4, 0 if at else -1)})
                future.set_result(reply(fetched(0, log(at, 5)), session=now))
                assert await read(feed) == [(at, at + 4)]

    asyncio.run(run())


def test_an_answer_for_many_partitions_lets_others_have_their_turn() -> None:
    """Meanwhile the loop runs what else there is to do."""
    many = 20 * broker_fetches.AT_ONCE
    turns: list[int] = []

    async def others(feeds: list[Feed]) -> None:
        while feeds[-1].drained:
            turns.append(sum(not each.drained for each in feeds))
            await asyncio.sleep(0)

    async def run() -> None:
        async with fetching() as (fetcher, source):
            feeds = [fetcher.open(TOPIC, number, 0) for number in range(many)]
            asked, future = await source.asked.get()
            while len(asked.positions) < many:  # they come in while the first are asked for
                future.set_result(reply())
                asked, future = await source.asked.get()
            future.set_result(reply(*(fetched(number, log(0, 1)) for number in range(many))))
            await others(feeds)
            steps = [after - before for before, after in itertools.pairwise(turns)]
            assert len(turns) > 15 and max(steps) <= broker_fetches.AT_ONCE, turns

    asyncio.run(run())


@pytest.mark.parametrize("good", [False, True])
def test_a_broker_whose_answers_can_not_be_read_keeps_no_partition(
    good: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Perhaps its batches are larger than the wire client takes; the record path may say so. One is no reason."""
    monkeypatch.setattr(fetched_partitions, "RETRY", 0.001)
    most = broker_fetches.UNREADABLE_MAX

    async def run() -> None:
        async with fetching() as (fetcher, source):
            feed = fetcher.open(TOPIC, 0, 5)
            for number in range(2 * most if good else most):
                _, future = await source.asked.get()
                if good and number == most - 1:
                    future.set_result(reply(fetched(0, log(5, 1))))
                else:
                    if not good:  # no connection is opened at once
                        future.set_exception(Unavailable("closed"))
                        _, future = await source.asked.get()
                    future.set_exception(Malformed("1 GB"))
            if good:
                assert await read(feed) == [(5, 5)]
            with pytest.raises(LeaveBatchPath, match=f"unreadable at offset {5 + good}"):
                await taken(feed)
            assert "can't be read: 1 GB" in caplog.text

    asyncio.run(run())


def test_markers_and_aborted_records_are_left_out() -> None:
    async def run() -> None:
        async with fetching() as (fetcher, source):
            feed = fetcher.open(TOPIC, 0, 0)
            aborted = log(0, 3, attributes=TRANSACTIONAL, producer=7)
            other = log(3, 2, attributes=TRANSACTIONAL, producer=8)
            data = aborted + other + batches.marker(5, 7, commit=False) + batches.marker(6, 8, commit=True)
            _, future = await source.asked.get()
            future.set_result(reply(fetched(0, data, aborted=[(7, 0)])))
            (span,) = await taken(feed)
            assert [(each.first, each.last) for each in span.batches] == [(3, 4)] and (span.start, span.end) == (0, 7)
            _, future = await source.asked.get()
            future.set_result(reply(fetched(0, batches.marker(7, 9, commit=False) + batches.raw(b"", 0, 8, 12))))
            (span,) = await taken(feed)
            assert not span.batches and (span.start, span.end, span.size) == (7, 13, 0), "the position moves"

    asyncio.run(run())


def test_answers_without_records_hold_no_memory_however_many_wait() -> None:
    """Nobody takes them, and another partition gets its live records."""

    async def run() -> None:
        memory = MemoryBounds(batch=0, total=60_000, answer=10_000, partition=10_000)
        async with fetching(memory) as (fetcher, source):
            aborted, live = fetcher.open(TOPIC, 0, 0), fetcher.open(TOPIC, 1, 0)
            for at in range(100):
                _, future = await source.asked.get()
                first = log(0, 1) if not at else log(at, 1, 9_000, attributes=TRANSACTIONAL, producer=7)
                answers = fetched(0, first, aborted=[(7, 1)]), fetched(1, log(at, 1))
                future.set_result(reply(*answers))
                assert await read(live) == [(at, at)]
                assert fetcher.memory.held < 10_000
            (span,) = await taken(aborted)
            assert (span.start, span.end, len(span.batches)) == (0, 100, 1)
            aborted.done(span)
            assert fetcher.memory.held == 0

    asyncio.run(run())


def test_a_long_run_of_small_batches_is_merged_or_goes_by_records() -> None:
    async def run() -> None:
        async with fetching() as (fetcher, source):
            first, second = fetcher.open(TOPIC, 0, 0), fetcher.open(TOPIC, 1, 0)
            plain = b"".join(log(at, 1) for at in range(2 * batch_reading.MANY))
            for end in (batch_reading.MANY, 2 * batch_reading.MANY + 1):
                packed = b"".join(log(each, 1, codec=LZ4) for each in range(second.position, end))
                _, future = await source.asked.get()
                future.set_result(reply(fetched(0, plain), fetched(1, packed)))
                plain = b""
            assert await read(first) == [(0, 2 * batch_reading.MANY - 1)]
            assert len(await read(second)) == batch_reading.MANY
            with pytest.raises(LeaveBatchPath, match=f"small_batches at offset {batch_reading.MANY}"):
                await taken(second)

    asyncio.run(run())


def test_small_batches_become_no_larger_than_is_wanted_when_they_come() -> None:
    """A throttle asks for less. A batch that is larger than that comes as it is."""

    async def run() -> None:
        most, plain, large = 5 * len(log(0, 1)), b"".join(log(at, 1) for at in range(12)), log(12, 1, 3_000)
        async with fetching() as (fetcher, source):
            first, second = (fetcher.open(TOPIC, number, 0, largest_merged=lambda: most) for number in (0, 1))
            _, future = await source.asked.get()
            future.set_result(reply(fetched(0, plain + large)))
            assert await read(first) == [(0, 4), (5, 9), (10, 11), (12, 12)]
            most = 2**20
            _, future = await source.asked.get()
            future.set_result(reply(fetched(1, plain + large)))
            assert await read(second) == [(0, 12)]

    asyncio.run(run())


def test_others_have_their_turn_while_many_small_batches_are_read() -> None:
    """A broker may answer with a hundred thousand of them."""

    async def run() -> None:
        count, each = 8, b"".join(log(at, 1) for at in range(1_000))
        async with fetching(MemoryBounds(batch=0)) as (fetcher, source):
            feeds = [fetcher.open(TOPIC, number, 0) for number in range(count)]
            asked, future = await source.asked.get()
            known = len(asked.positions)
            while known < count:
                future.set_result(reply())
                asked, future = await source.asked.get()
                known += len(asked.positions)
            future.set_result(reply(*(fetched(number, each) for number in range(count))))
            turns = 0
            while not feeds[-1].size:
                await asyncio.sleep(0)
                turns += 1
            assert turns >= count

    asyncio.run(run())


def test_a_throttled_request_says_what_is_wanted_when_it_is_sent() -> None:
    """The broker reads nothing from the connection meanwhile (KIP-219)."""

    async def run() -> None:
        async with fetching() as (fetcher, source):
            loop = asyncio.get_running_loop()
            first = fetcher.open(TOPIC, 0, 0)
            _, future = await source.asked.get()
            source.quiet_until = until = loop.time() + 0.2
            future.set_result(reply(throttled=True))
            await asyncio.sleep(0.1)
            fetcher.close(first)
            fetcher.open(TOPIC, 1, 7)
            asked, _ = await source.asked.get()
            assert loop.time() >= until and (asked.positions, asked.forgotten) == ({1: (7, 4, -1)}, [0])

    asyncio.run(run())


def test_a_throttled_broker_that_goes_away_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one may lead its partitions by now."""
    monkeypatch.setattr(broker_fetches, "QUIET_LOOK", 0.01)

    async def run() -> None:
        async with fetching() as (fetcher, source):
            fetcher.open(TOPIC, 0, 0)
            _, future = await source.asked.get()
            source.quiet_until = asyncio.get_running_loop().time() + 60
            future.set_result(reply(throttled=True))
            await asyncio.sleep(0.1)
            assert source.asked.empty()
            source.closed = Unavailable("closed")
            await source.asked.get()

    asyncio.run(run())


def test_how_large_a_batch_may_be_is_asked_when_it_comes() -> None:
    """The target's limit may change, and memory has a limit, whatever the target takes."""

    async def run() -> None:
        large, limit = log(0, 1, 3000), 10_000
        async with fetching(MemoryBounds(largest=len(large))) as (fetcher, source):
            first, second = (
                fetcher.open(TOPIC, 0, 0, largest=lambda: limit),
                fetcher.open(TOPIC, 1, 0, largest=lambda: limit),
            )
            _, future = await source.asked.get()
            future.set_result(reply(fetched(0, large), fetched(1, log(0, 1, 3001))))
            assert await read(first) == [(0, 0)]
            with pytest.raises(LeaveBatchPath, match="too_large at offset 0"):
                await taken(second)
            limit = len(large) - 1
            _, future = await source.asked.get()
            future.set_result(reply(fetched(0, log(1, 1, 3000))))
            with pytest.raises(LeaveBatchPath, match="too_large at offset 1"):
                await taken(first)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("partition", "reason", "at"),
    [
        (fetched(0, log(5, 5) + log(10, 5, attributes=LOG_APPEND_TIME)), "log_append_time", 10),
        (fetched(0, log(5, 5) + log(10, 5, size=3000)), "too_large", 10),
        (fetched(0, log(5, 5) + log(12, 5, last=20)), "compacted", 10),
        (fetched(0, log(5, 5) + batches.message(10, 1, b"", b"")), "old_format", 10),
        (fetched(0, log(0, 10)), "position_within_batch", 5),
        (fetched(0, log(5, 5)[:-1] + b"?"), "unreadable", 5),
        (fetched(0, log(0, 5)), "unreadable", 5),
        (fetched(0, log(5, 5)[:-1]), "unreadable", 5),
        (fetched(0, error=CODES["OFFSET_OUT_OF_RANGE"]), "out_of_range", 5),
        (fetched(0, error=CODES["CORRUPT_MESSAGE"]), "unreadable", 5),
        (fetched(0, error=CODES["TOPIC_AUTHORIZATION_FAILED"]), "refused", 5),
        (fetched(0, error=9999), "refused", 5),
        (fetched(0, diverging=(3, 4)), "diverged", 5),
    ],
)
def test_what_leaves_the_batch_path(partition: tuple[bytes, PartitionAnswer], reason: str, at: int) -> None:
    """What was before it is copied first."""

    async def run() -> None:
        async with fetching() as (fetcher, source):
            feed = fetcher.open(TOPIC, 0, 5, largest=lambda: 1000)
            _, future = await source.asked.get()
            future.set_result(reply(partition))
            if at > 5:
                assert await read(feed) == [(5, 9)]
            with pytest.raises(LeaveBatchPath) as left:
                await taken(feed)
            assert (left.value.reason, left.value.at) == (reason, at)
            await asyncio.sleep(0.02)
            assert source.asked.empty() and fetcher.memory.used == 0, "nothing more is asked for"

    asyncio.run(run())


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"])
def test_another_leader_is_asked(error: str) -> None:
    async def run() -> None:
        async with fetching() as (fetcher, source):
            feed, other = fetcher.open(TOPIC, 0, 5), fetcher.open(TOPIC, 1, 0)
            _, future = await source.asked.get()
            source.leaders[0] = 2
            future.set_result(reply(fetched(0, error=CODES[error], leader=Leader(2, 9)), fetched(1, log(0, 1))))
            assert await read(other) == [(0, 0)]
            found = {}
            for _ in range(2):
                asked, future = await source.asked.get()
                found[asked.node] = (asked.positions, asked.forgotten)
                if asked.node == 2:
                    future.set_result(reply(fetched(0, log(5, 1)), session=88))
            assert found == {1: ({1: (1, 4, 0)}, [0]), 2: ({0: (5, 4, -1)}, [])}
            assert await read(feed) == [(5, 5)]
            assert source.forgotten == [0] and source.hints == [(0, Leader(2, 9), ("b", 2))]

    asyncio.run(run())


def test_a_leader_that_is_cut_off_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers without an error that there is nothing new. A partition that moves needs no look."""
    monkeypatch.setattr(batch_fetcher, "LOOK_INTERVAL", 0.02)

    async def run() -> None:
        async with fetching() as (fetcher, source):
            moving = fetcher.open(TOPIC, 1, 0)
            _, future = await source.asked.get()
            while not (still := [each for each in source.refreshed if each]):
                await asyncio.sleep(0.01)
            assert still[0] == {"t"} and not source.forgotten
            feed = fetcher.open(TOPIC, 0, 5)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            fetcher.close(moving)  # not before, or a look could end the broker that has no partition
            source.leaders[0] = 2
            future.set_result(reply())
            asked, future = await source.asked.get()
            while asked.node == 1:
                future.set_result(reply())
                asked, future = await source.asked.get()
            assert (asked.node, asked.positions) == (2, {0: (5, 4, -1)})
            future.set_result(reply(fetched(0, log(5, 1)), session=88))
            assert await read(feed) == [(5, 5)]

    asyncio.run(run())


def test_a_leader_that_comes_back_is_asked_with_its_new_epoch() -> None:
    """It comes back before the session has forgotten the partition, which would go on with the old epoch."""

    async def run() -> None:
        async with fetching() as (fetcher, source):
            fetcher.open(TOPIC, 0, 5)
            _, future = await source.asked.get()
            source.epoch = 6
            future.set_result(reply(fetched(0, error=CODES["FENCED_LEADER_EPOCH"])))
            asked, _ = await source.asked.get()
            assert (asked.session, asked.positions) == ((77, 1), {0: (5, 6, -1)})

    asyncio.run(run())


def test_a_broker_that_is_away_loses_its_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetched_partitions, "RETRY", 0.001)

    async def run() -> None:
        async with fetching() as (fetcher, source):
            feeds = [fetcher.open(TOPIC, number, 5) for number in range(2)]
            _, future = await source.asked.get()
            source.leaders = {0: 2, 1: 2}
            future.set_exception(Unavailable("closed"))
            asked, future = await source.asked.get()
            while len(asked.positions) < 2:  # perhaps one was placed before the other
                future.set_result(reply())
                following, future = await source.asked.get()
                asked.positions.update(following.positions)
                asked.node = following.node
            assert asked.node == 2 and asked.positions == {0: (5, 4, -1), 1: (5, 4, -1)}
            future.set_result(reply(fetched(0, log(5, 1)), fetched(1, log(5, 1))))
            assert [await read(feed) for feed in feeds] == [[(5, 5)]] * 2

    asyncio.run(run())


def test_a_request_that_fails_late_takes_nothing_from_the_next_copier(monkeypatch: pytest.MonkeyPatch) -> None:
    """The partition has another feed by then, which goes on."""
    monkeypatch.setattr(fetched_partitions, "RETRY", 0.001)

    async def run() -> None:
        async with fetching() as (fetcher, source):
            first = fetcher.open(TOPIC, 0, 5)
            _, future = await source.asked.get()
            fetcher.close(first)
            second = fetcher.open(TOPIC, 0, 7)
            for _ in range(5):  # it is placed, while the request for the first one is under way
                await asyncio.sleep(0)
            future.set_exception(Unavailable("closed"))
            asked, future = await source.asked.get()
            assert asked.positions == {0: (7, 4, -1)}
            future.set_result(reply(fetched(0, log(7, 1))))
            assert await read(second) == [(7, 7)]

    asyncio.run(run())


@pytest.mark.parametrize("how", ["error", "time"])
def test_the_nearest_replica_is_asked_until_it_fails(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that lags may not know the offset, which proves nothing (KIP-392)."""
    if how == "time":
        monkeypatch.setattr(batch_fetcher, "FOLLOWED", 0.05)
        monkeypatch.setattr(batch_fetcher, "LOOK_INTERVAL", 0.02)

    async def run() -> None:
        async with fetching() as (fetcher, source):
            feed = fetcher.open(TOPIC, 0, 5)
            _, future = await source.asked.get()
            future.set_result(reply(fetched(0, preferred=2)))
            asked, future = await source.asked.get()
            if asked.session[1] < 0:  # the leader's session has no partition any more, and may end first
                asked, future = await source.asked.get()
            assert (asked.node, asked.session, asked.positions) == (2, (0, 0), {0: (5, 4, -1)})
            error = CODES["OFFSET_OUT_OF_RANGE"] if how == "error" else 0
            future.set_result(reply(fetched(0, b"" if error else log(5, 1), error=error)))
            asked, future = await source.asked.get()
            while how == "time" and (asked.node == 2 or asked.session[1] < 0):
                future.set_result(reply(session=88))
                asked, future = await source.asked.get()
            assert asked.node == 1 and asked.positions == {0: (5, 4, -1) if error else (6, 4, 0)}
            assert not feed.ended

    asyncio.run(run())


@pytest.mark.parametrize("how", ["away", "damaged", "CORRUPT_MESSAGE", "KAFKA_STORAGE_ERROR"])
def test_no_nearer_replica_is_named_for_a_while_after_one_has_failed(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader would name it again at once. What it has damaged, the leader may have as it was written."""
    monkeypatch.setattr(batch_fetcher, "LEADERS", 0.5)
    damaged = bytearray(log(5, 2))
    damaged[-1] ^= 1

    async def run() -> None:
        async with fetching(rack="b") as (fetcher, source):
            feed = fetcher.open(TOPIC, 0, 5)
            asked, future = await source.asked.get()
            assert asked.rack == "b"
            future.set_result(reply(fetched(0, preferred=2)))
            while asked.node == 1:  # it may be told first that it has no partition any more
                asked, future = await source.asked.get()
            if how == "away":
                future.set_exception(Unavailable("closed"))
            else:
                error = CODES.get(how, 0)
                future.set_result(reply(fetched(0, b"" if error else bytes(damaged), error=error)))
            while asked.node == 2:
                asked, future = await source.asked.get()
            assert (asked.positions, asked.rack) == ({0: (5, 4, -1)}, "")
            future.set_result(reply(fetched(0, log(5, 2))))
            assert await read(feed) == [(5, 6)]
            await asyncio.sleep(0.5)
            for _ in range(2):  # one is under way
                asked, future = await source.asked.get()
                future.set_result(reply())
            assert asked.rack == "b" and not feed.ended

    asyncio.run(run())


def test_a_replica_that_works_does_not_vouch_for_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaders are asked for longer and longer while one of them can't be reached."""
    monkeypatch.setattr(batch_fetcher, "LEADERS", 1.0)
    now = 100.0

    async def run() -> None:
        nonlocal now
        async with fetching(rack="b") as (fetcher, _):
            monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
            feed = Feed(TOPIC, 0, 5, -1, lambda: EVERYTHING)
            feed.follows_until = 1.0
            led = []
            for _ in range(4):
                fetcher.distrust(feed, 2)
                fetcher.trust(3)
                begun = now
                while not fetcher.rack:
                    now += 0.1
                led.append(now - begun)
            assert [0.5 * 2**n <= each <= 2**n + 0.2 for n, each in enumerate(led)] == [True] * 4
            fetcher.trust(2)
            fetcher.distrust(feed, 2)
            now += 1.0
            assert fetcher.rack

    asyncio.run(run())


@pytest.mark.parametrize("again", [False, True])
def test_a_follower_that_does_not_know_the_epoch_proves_nothing(again: bool) -> None:
    """It may lag. If the leader names it again, it has all records before the position: the log was cut."""

    async def run() -> None:
        async with fetching() as (fetcher, source):
            feed = fetcher.open(TOPIC, 0, 5, epoch=3)
            asked, future = await source.asked.get()
            for round_ in range(2 if again else 1):
                future.set_result(reply(fetched(0, preferred=2)))
                while asked.node == 1:  # it may be told first that it has no partition any more
                    asked, future = await source.asked.get()
                future.set_result(reply(fetched(0, diverging=(2, 4)), session=88))
                if round_ == 0:
                    asked, future = await source.asked.get()
                    assert (asked.node, asked.positions) == (1, {0: (5, 4, 3)})
            if again:
                with pytest.raises(LeaveBatchPath, match="diverged at offset 5"):
                    await taken(feed)
            else:
                future.set_result(reply(fetched(0, log(5, 1))))
                assert await read(feed) == [(5, 5)]

    asyncio.run(run())


def test_only_a_replica_is_followed() -> None:
    """A broker that names ever other ones costs nothing but requests to the leader."""

    async def run() -> None:
        async with fetching() as (fetcher, source):
            feed = fetcher.open(TOPIC, 0, 5)
            for node in range(3, 9):
                asked, future = await source.asked.get()
                assert asked.node == 1
                future.set_result(reply(fetched(0, preferred=node)))
            asked, future = await source.asked.get()
            assert source.forgotten == [0] * 6 and len(fetcher._brokers) == 1, "perhaps the metadata is old"
            source.replicas_ = (1, 9)
            future.set_result(reply(fetched(0, preferred=9)))
            asked, future = await source.asked.get()
            assert asked.node == 9
            future.set_result(reply(fetched(0, log(5, 1))))
            assert await read(feed) == [(5, 5)]

    asyncio.run(run())


def test_a_broker_that_has_no_partition_any_more_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_fetcher, "LOOK_INTERVAL", 0.02)

    async def run() -> None:
        async with fetching() as (fetcher, source):
            feed = fetcher.open(TOPIC, 0, 5)
            _, future = await source.asked.get()
            task = fetcher._brokers[1].task
            future.set_result(reply(fetched(0, preferred=2)))
            asked, future = await source.asked.get()
            while not task.done():
                await asyncio.sleep(0.01)
            assert asked.node == 2 and fetcher._brokers.keys() == {2}
            future.set_result(reply(fetched(0, log(5, 1))))
            assert await read(feed) == [(5, 5)]
            fetcher.close(feed)
            while fetcher._brokers:
                await asyncio.sleep(0.01)
            again = fetcher.open(TOPIC, 0, 6)
            asked, future = await source.asked.get()
            ends = list[tuple[int, int]]()
            while asked.node != 1 or asked.session[1] < 0:  # the last request to the other one, and the session's end
                ends += [asked.session] if asked.session[1] < 0 else []
                asked, future = await source.asked.get()
            assert set(ends) == {(77, -1)}
            assert (asked.session, asked.positions) == ((0, 0), {0: (6, 4, -1)})
            future.set_result(reply(fetched(0, log(6, 1))))
            assert await read(again) == [(6, 6)]

    asyncio.run(run())


def test_a_topic_that_was_created_again() -> None:
    async def run() -> None:
        async with fetching() as (fetcher, source):
            feed = fetcher.open(TOPIC, 0, 5)
            _, future = await source.asked.get()
            source.topic_id_ = b"u" * 16
            future.set_result(reply(fetched(0, error=CODES["UNKNOWN_TOPIC_ID"])))
            with pytest.raises(LeaveBatchPath, match="recreated at offset 5"):
                await taken(feed)
            assert source.forgotten
            source.forgotten.clear()
            again = fetcher.open(TOPIC, 0, 5)
            with pytest.raises(LeaveBatchPath, match="recreated at offset 5"):
                await taken(again)
            assert source.forgotten == [0], "the next one does not go by what was known"

    asyncio.run(run())


@pytest.mark.parametrize("where", ["metadata", "fetch"])
def test_what_only_a_person_can_end_is_for_the_record_path(where: str) -> None:
    """It has the policies for that. If the partition were taken over again and again, the target would suffer."""

    async def run() -> None:
        async with fetching() as (fetcher, source):
            if where == "metadata":
                source.unknown = Refused("no", CODES["TOPIC_AUTHORIZATION_FAILED"])
            feed = fetcher.open(TOPIC, 0, 5)
            if where == "fetch":
                _, future = await source.asked.get()
                future.set_result(reply(error=CODES["CLUSTER_AUTHORIZATION_FAILED"]))
            with pytest.raises(LeaveBatchPath, match="refused at offset 5"):
                await taken(feed)

    asyncio.run(run())


@pytest.mark.parametrize("where", ["metadata", "fetch"])
def test_a_refused_login_is_like_a_source_that_does_not_answer(where: str) -> None:
    """The partition waits on the batch path, and goes on with another password."""

    async def run() -> None:
        async with fetching() as (fetcher, source):
            refused = LoginRefused("no", CODES["SASL_AUTHENTICATION_FAILED"])
            if where == "metadata":
                source.unknown = refused
            else:
                source.refused = refused
            feed = fetcher.open(TOPIC, 0, 5)
            await asyncio.sleep(0.2)
            assert not feed.ended and source.asked.empty()
            source.unknown = source.refused = None
            await source.asked.get()

    asyncio.run(run())


def test_an_answer_that_can_not_be_read_is_told() -> None:
    async def run() -> None:
        async with fetching() as (fetcher, source):
            source.unknown = Malformed("no topic")
            feed = fetcher.open(TOPIC, 0, 5)
            with pytest.raises(Malformed):
                await taken(feed)

    asyncio.run(run())


def test_a_defect_of_ours_is_no_silence(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with fetching() as (fetcher, source):
            feed = fetcher.open(TOPIC, 0, 5)
            _, future = await source.asked.get()
            future.set_exception(ZeroDivisionError())
            with pytest.raises(LeaveBatchPath, match="defect at offset 5"):
                await taken(feed)
            assert "ZeroDivisionError" in caplog.text
            fetcher.open(TOPIC, 1, 0)
            await source.asked.get()

    asyncio.run(run())


@pytest.mark.parametrize("where", [(FetchMemory, "room"), (Source, "leader")])
def test_a_defect_outside_of_a_request_is_no_silence(where: tuple[type, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The defect comes before a broker is asked, or before it is known which one has to be asked."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    async def run() -> None:
        async with fetching() as (fetcher, source):
            monkeypatch.setattr(*where, broken)
            feed = fetcher.open(TOPIC, 0, 5)
            with pytest.raises(LeaveBatchPath, match="defect at offset 5"):
                await taken(feed)
            monkeypatch.undo()
            fetcher.open(TOPIC, 1, 0)
            await source.asked.get()

    asyncio.run(run())


@pytest.mark.parametrize("version", [4, 12])
def test_a_source_that_does_not_know_topics_by_id(version: int) -> None:
    async def run() -> None:
        async with fetching() as (fetcher, source):
            source.version_ = version
            with pytest.raises(LeaveBatchPath, match="source_too_old"):
                await taken(fetcher.open(TOPIC, 0, 5))

    asyncio.run(run())
