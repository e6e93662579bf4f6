"""How much the fetcher of whole batches asks for, and for which partitions."""

from __future__ import annotations

import pytest

from mirror.source.batch_feed import Feed
from mirror.source.fetch_memory import FetchMemory, MemoryBounds
from mirror.wire.fetch import TopicKey

BOUNDS = MemoryBounds(total=100, answer=20, partition=20, batch=3)


def nothing(*_: object) -> None:
    """Nobody waits for room."""


def wanted(memory: FetchMemory, found: dict[int, Feed], answer: int) -> list[int]:
    """The feeds that may get more by such an answer."""
    room = memory.room(answer)
    return [number for number, feed in found.items() if room and room.has(feed)]


def feeds(*sizes: int) -> dict[int, Feed]:
    """Feeds with so many bytes that wait."""
    found = {}
    for number, size in enumerate(sizes):
        found[number] = Feed(TopicKey("t", b"t" * 16), number, 0, -1, lambda: 1000)
        found[number].size = size
    return found


@pytest.mark.parametrize(
    ("held", "reserved", "expected"),
    [
        (0, 0, [0, 1, 2, 4, 5]),  # all but the full one
        (50, 0, [0, 1, 2, 4, 5]),
        (51, 0, [0, 4, 5]),  # more than half: only what has nothing
        (30, 25, [0, 1, 2, 4, 5]),  # what others may get does not count there
        (55, 0, [0, 4, 5]),
        (56, 0, [0, 4]),  # the last quarter: nothing that was slow
        (67, 0, [0, 4]),
        (68, 0, [4]),  # its second half: only what was quick
        (80, 0, [4]),
        (81, 0, []),  # an answer has no room
        (60, 21, []),
    ],
)
def test_who_is_asked_for(held: int, reserved: int, expected: list[int]) -> None:
    memory, found = FetchMemory(BOUNDS, nothing), feeds(0, 1, 19, 20, 0, 0)
    found[4].is_quick, found[5].is_quick = True, False
    memory.hold(held)
    with memory.reserve(reserved):
        assert wanted(memory, found, memory.answer(1)) == expected


def test_a_batch_needs_more_than_its_bytes() -> None:
    found = feeds(13, 13)
    found[0].batches, found[1].batches = 2, 3
    assert wanted(FetchMemory(BOUNDS, nothing), found, 20) == [0]


@pytest.mark.parametrize(("brokers", "answer"), [(1, 20), (2, 12), (5, 5), (25, 1)])
def test_the_brokers_share_a_quarter(brokers: int, answer: int) -> None:
    """Every broker may be asked, however many there are: none holds so much yet that another has to wait."""
    memory = FetchMemory(BOUNDS, nothing)
    assert memory.answer(brokers) == answer
    assert brokers * answer <= BOUNDS.total // 4


def test_what_is_free_again_is_told() -> None:
    told: list[int] = []
    memory = FetchMemory(BOUNDS, lambda: told.append(memory.held))
    held = memory.hold(70)
    held.retain()
    assert memory.is_scarce and memory.room(20) and not told
    held.release()
    assert told == [0] and not memory.is_scarce


def test_only_those_are_told_who_lacked_room() -> None:
    """With hundreds of brokers, most wait for partitions that are full, and not for memory."""
    told: list[int] = []
    memory = FetchMemory(BOUNDS, lambda: told.append(memory.held))
    memory.hold(70)
    held = [memory.hold(size) for size in (1, 2, 3)]
    for each in held:
        each.retain()
    held[0].release()
    assert not told, "nobody has asked"
    assert memory.room(20)  # but not for those that are slow
    held[1].release()
    held[2].release()
    assert told == [73], "once, until somebody asks again"


@pytest.mark.parametrize(("held", "told"), [(70, [10]), (60, [])])
def test_what_an_answer_does_not_take_is_told(held: int, told: list[int]) -> None:
    """It had nothing. Whoever had no room beside it has it now."""
    found: list[int] = []
    memory = FetchMemory(BOUNDS, lambda: found.append(memory.bounds.total - memory.used - 20))
    memory.hold(held)
    with memory.reserve(20):
        assert (memory.room(20) is None) == bool(told) and not found
    assert found == told
