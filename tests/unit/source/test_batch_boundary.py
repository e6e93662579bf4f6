"""Where the batch path can begin, as the batches themselves say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from mirror.batches.headers import LOG_APPEND_TIME
from mirror.errors import Refused, Unavailable
from mirror.source.batch_boundary import boundary
from mirror.source.fetch_memory import MemoryBounds
from mirror.wire.error_codes import CODES
from tests.unit.source.test_batch_fetcher import TOPIC, fetched, fetching, log, reply


def largest() -> int:
    return 10_000


async def found(records: Callable[[int], bytes], at: int) -> int | None:
    """The boundary that is found in a log of which an answer from an offset on has these records."""
    async with fetching() as (fetcher, source):

        async def answer() -> None:
            while True:
                asked, future = await source.asked.get()
                offsets = [offset for offset, _, _ in asked.positions.values()]
                future.set_result(reply(*(fetched(0, records(offset)) for offset in offsets)))

        answering = asyncio.create_task(answer())
        try:
            return await boundary(fetcher, TOPIC, 0, at, largest)
        finally:
            answering.cancel()


def held(*batches: tuple[int, int, bytes]) -> Callable[[int], bytes]:
    """A log of batches, each with its first and last offset: an answer has what is not before the fetched offset."""
    return lambda offset: b"".join(data for _, last, data in batches if last >= offset)


FITS = held((5, 9, log(5, 5)), (10, 14, log(10, 5)), (15, 19, log(15, 5)))


@pytest.mark.parametrize(("at", "begin"), [(5, 5), (10, 10), (7, 10), (14, 15), (19, 20)])
def test_the_next_batch_begins_there(at: int, begin: int) -> None:
    """An answer's last stable offset, 90 here, is no end."""
    records = held((5, 9, log(5, 5)), (10, 14, log(10, 5)), (15, 19, log(15, 5)), (20, 89, log(20, 70)))
    assert asyncio.run(found(records, at)) == begin


def test_nothing_follows_the_last_batch() -> None:
    """The next batch will begin at the end of the log."""
    assert asyncio.run(found(held((85, 89, log(85, 5))), 87)) == 90
    assert asyncio.run(found(held(), 90)) == 90


@pytest.mark.parametrize("at", [5, 7, 10])
def test_batches_that_do_not_fit_are_no_place_to_begin(at: int) -> None:
    late = log(15, 5, attributes=LOG_APPEND_TIME)
    assert asyncio.run(found(held((5, 9, log(5, 5)), (10, 14, log(10, 5)), (15, 19, late)), at)) is None


def test_it_does_not_wait_while_other_partitions_have_nothing() -> None:
    """The request of the fetch session lasts until one of them has something. Meanwhile the record path would go on."""

    async def run() -> None:
        async with fetching() as (fetcher, source):
            fetcher.open(TOPIC, 1, 0)
            idle, _ = await source.asked.get()
            looking = asyncio.create_task(boundary(fetcher, TOPIC, 0, 7, largest))
            for begin in (7, 10):
                asked, future = await source.asked.get()
                assert (asked.positions, asked.wait, asked.session) == ({0: (begin, 4, -1)}, 0, (0, -1))
                future.set_result(reply(fetched(0, FITS(begin))))
            assert (await looking, idle.wait) == (10, 500)
            assert fetcher.memory.used == fetcher.memory.bounds.answer, "what was looked at is free again"

    asyncio.run(run())


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "TOPIC_AUTHORIZATION_FAILED"])
def test_a_source_that_does_not_answer(error: str) -> None:
    async def run() -> None:
        async with fetching() as (fetcher, source):
            looking = asyncio.create_task(boundary(fetcher, TOPIC, 0, 5, largest))
            _, future = await source.asked.get()
            future.set_result(reply(fetched(0, error=CODES[error])))
            with pytest.raises(Unavailable, match="t-0"):
                await looking
            assert source.forgotten == [0]
            source.unknown = Refused("not allowed", 29)
            with pytest.raises(Refused):
                await boundary(fetcher, TOPIC, 0, 5, largest)
            assert source.asked.empty()

    asyncio.run(run())


def test_a_quota_says_nothing_against_a_leader() -> None:
    async def run() -> None:
        async with fetching() as (fetcher, source):
            looking = asyncio.create_task(boundary(fetcher, TOPIC, 0, 5, largest))
            _, future = await source.asked.get()
            future.set_result(reply(throttled=True))
            with pytest.raises(Unavailable, match="t-0"):
                await looking
            assert not source.forgotten

    asyncio.run(run())


def test_what_the_fetcher_has_no_room_for_is_looked_at_later() -> None:
    async def run() -> None:
        async with fetching(MemoryBounds(total=2**20 - 1)) as (fetcher, source):
            with pytest.raises(Unavailable, match="room"):
                await boundary(fetcher, TOPIC, 0, 5, largest)
            assert source.asked.empty()

    asyncio.run(run())


def test_an_empty_answer_before_the_end_says_nothing() -> None:
    with pytest.raises(Unavailable):
        asyncio.run(found(held(), 80))
