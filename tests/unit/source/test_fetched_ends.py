"""Where partitions end, as answers to Fetch say it. What an answer leaves out has not changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.errors import Unavailable
from mirror.source import fetch_session, fetched_partitions
from mirror.source.batch_fetcher import BatchFetcher
from mirror.source.fetch_memory import MemoryBounds
from mirror.source.fetch_session import ENDS_KEPT
from mirror.wire.error_codes import CODES
from mirror.wire.fetch import FetchAnswer, PartitionAnswer
from mirror.wire.metadata import Leader
from tests.unit.source.test_batch_fetcher import TOPIC, Source, fetched, fetching, give_back, log, read, reply, taken

Answers = asyncio.Future[FetchAnswer]
TOLD = {0: (5, 9), 1: (5, 5)}


def ends(fetcher: BatchFetcher) -> dict[int, tuple[int, int]]:
    """Last stable offset and high watermark, by partition."""
    assert all(topic == TOPIC.id for topic, _ in fetcher.ends)
    return {number: (each.stable, each.high) for (_, number), each in fetcher.ends.items()}


def told(then: Callable[[BatchFetcher, Source, Answers], Coroutine[Any, Any, None]]) -> None:
    """Two partitions without new records are fetched, and the broker has said where they end. Then the next request."""

    async def run() -> None:
        async with fetching() as (fetcher, source):
            for number in TOLD:
                fetcher.open(TOPIC, number, 5)
            _, future = await source.asked.get()
            assert ends(fetcher) == {}
            future.set_result(reply(*(fetched(n, stable=stable, high=high) for n, (stable, high) in TOLD.items())))
            _, future = await source.asked.get()
            assert ends(fetcher) == TOLD
            await then(fetcher, source, future)

    asyncio.run(run())


def test_an_answer_that_leaves_a_partition_out_says_that_it_ends_there() -> None:
    async def then(fetcher: BatchFetcher, source: Source, future: Answers) -> None:
        future.set_result(reply())
        _, future = await source.asked.get()
        assert ends(fetcher) == TOLD
        future.set_result(reply(fetched(1, log(5, 2), stable=7, high=8)))
        await source.asked.get()
        assert ends(fetcher) == {0: (5, 9), 1: (7, 8)}

    told(then)


def test_it_ends_there_also_for_the_next_copier() -> None:
    """The broker does not say it again, because the session goes on."""

    async def then(fetcher: BatchFetcher, source: Source, future: Answers) -> None:
        (feed,) = [each for each in fetcher._brokers[1].feeds.feeds.values() if each.partition == 1]
        fetcher.close(feed)
        fetcher.open(TOPIC, 1, 7)
        await asyncio.sleep(0.01)  # it is placed, while the request of the first one is under way
        future.set_result(reply(fetched(1, log(5, 2), stable=7, high=8)))
        asked, _ = await source.asked.get()
        assert asked.positions == {1: (7, 4, -1)} and ends(fetcher) == {0: (5, 9), 1: (7, 8)}

    told(then)


@pytest.mark.parametrize(
    "partition",
    [
        fetched(0, error=CODES["NOT_LEADER_OR_FOLLOWER"], stable=-1, high=-1),
        fetched(0, error=CODES["UNKNOWN_TOPIC_ID"], stable=-1, high=-1),  # it was deleted, and perhaps created again
        fetched(0, stable=4, high=9),  # of a new leader that does not know how far it goes (KIP-207)
    ],
)
def test_a_broker_that_does_not_lead_does_not_say_it(partition: tuple[bytes, PartitionAnswer]) -> None:
    async def then(fetcher: BatchFetcher, source: Source, future: Answers) -> None:
        future.set_result(reply(partition))
        await source.asked.get()
        assert ends(fetcher) == {1: (5, 5)}

    told(then)


def test_a_nearer_replica_does_not_say_it() -> None:
    """It may be behind."""

    async def then(fetcher: BatchFetcher, source: Source, future: Answers) -> None:
        future.set_result(reply(fetched(0, preferred=2)))
        requests = [await source.asked.get() for _ in range(2)]
        for asked, answer in requests:
            answer.set_result(reply(fetched(0, stable=5, high=9)) if asked.node == 2 else reply())
        assert {(await source.asked.get())[0].node for _ in requests} == {1, 2}
        assert ends(fetcher) == {1: (5, 5)}

    told(then)


def test_another_leader_says_it() -> None:
    async def then(fetcher: BatchFetcher, source: Source, future: Answers) -> None:
        source.leaders[0] = 2
        future.set_result(reply(fetched(0, error=CODES["FENCED_LEADER_EPOCH"], leader=Leader(2, 9))))
        asked, future = await source.asked.get()
        while asked.node != 2:
            asked, future = await source.asked.get()
        future.set_result(reply(fetched(0, stable=6, high=6), session=88))
        await source.asked.get()
        assert ends(fetcher) == {0: (6, 6), 1: (5, 5)}

    told(then)


def test_a_broker_that_is_away_does_not_say_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetched_partitions, "RETRY", 0.001)

    async def then(fetcher: BatchFetcher, source: Source, future: Answers) -> None:
        future.set_exception(Unavailable("closed"))
        await source.asked.get()
        assert ends(fetcher) == {}

    told(then)


def test_another_session_says_it_anew() -> None:
    async def then(fetcher: BatchFetcher, source: Source, future: Answers) -> None:
        future.set_result(reply(error=CODES["FETCH_SESSION_ID_NOT_FOUND"], session=0))
        _, future = await source.asked.get()
        assert ends(fetcher) == {}
        future.set_result(reply(fetched(0, stable=6, high=6), fetched(1, stable=5, high=5), session=0))
        _, future = await source.asked.get()
        assert ends(fetcher) == {0: (6, 6), 1: (5, 5)}, "also of a broker that has no room for one"

    told(then)


@pytest.mark.parametrize("throttled", [False, True])
def test_it_is_not_known_any_more_if_the_broker_says_nothing(throttled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that throttles answers, but leaves out what has changed, too."""
    now = [1_000.0]
    monkeypatch.setattr(fetch_session, "time", SimpleNamespace(monotonic=lambda: now[0]))

    async def then(fetcher: BatchFetcher, source: Source, future: Answers) -> None:
        now[0] += ENDS_KEPT - 0.1
        assert ends(fetcher) == TOLD
        future.set_result(reply(throttled=throttled))
        _, future = await source.asked.get()
        now[0] += 0.2
        assert ends(fetcher) == ({} if throttled else TOLD)
        now[0] += ENDS_KEPT
        assert ends(fetcher) == {}, "no answer"
        future.set_result(reply())
        await source.asked.get()
        assert ends(fetcher) == TOLD, "nothing has changed"

    told(then)


def test_it_is_not_known_while_others_are_fetched_and_this_one_has_no_room() -> None:
    async def run() -> None:
        async with fetching(MemoryBounds(batch=0, partition=200)) as (fetcher, source):
            slow, _ = fetcher.open(TOPIC, 0, 0), fetcher.open(TOPIC, 1, 0)
            _, future = await source.asked.get()
            future.set_result(reply(fetched(0, log(0, 9, 40)), fetched(1)))
            asked, future = await source.asked.get()
            assert asked.forgotten == [0] and ends(fetcher) == {1: (90, 95)}
            await read(slow)
            future.set_result(reply())
            asked, future = await source.asked.get()
            assert asked.positions == {0: (9, 4, 0)} and ends(fetcher) == {1: (90, 95)}
            future.set_result(reply(fetched(0, stable=91, high=96)))
            await source.asked.get()
            assert ends(fetcher) == {0: (91, 96), 1: (90, 95)}

    asyncio.run(run())


def test_a_session_that_rests_while_nobody_has_room_goes_on() -> None:
    """The broker remembers what it has said."""

    async def run() -> None:
        async with fetching(MemoryBounds(batch=0, partition=50)) as (fetcher, source):
            feed = fetcher.open(TOPIC, 0, 0)
            _, future = await source.asked.get()
            future.set_result(reply(fetched(0, log(0, 9), stable=9, high=9)))
            spans = await taken(feed)
            await asyncio.sleep(0.01)
            assert source.asked.empty()
            give_back(feed, spans)
            _, future = await source.asked.get()
            future.set_result(reply())
            await source.asked.get()
            assert ends(fetcher) == {0: (9, 9)}

    asyncio.run(run())


def test_it_is_said_after_very_many_small_batches_too() -> None:
    """Their records are left out, and are asked for again. The broker will not say again where they end."""

    async def run() -> None:
        async with fetching(MemoryBounds(batch=10**6)) as (fetcher, source):
            for number in range(9):
                fetcher.open(TOPIC, number, 0)
            asked, future = await source.asked.get()
            assert len(asked.positions) == 9
            small = b"".join(log(at, 1) for at in range(0, 40, 2))
            future.set_result(reply(*(fetched(number, small) for number in range(8)), fetched(8, stable=0, high=7)))
            asked, _ = await source.asked.get()
            assert (asked.positions, asked.forgotten) == ({}, [0]), "only the first one has got something"
            assert ends(fetcher)[8] == (0, 7)

    asyncio.run(run())
