"""Which path a partition takes, and that nothing swings to and fro."""

from __future__ import annotations

from dataclasses import dataclass

from mirror.clock import Clock
from mirror.control.data_path import BATCHES, RECORDS, DataPath
from mirror.task.path_memory import FIRST_STAY, LONGEST_STAY, SOON, STEADY, TOO_SLOW, TRIES, WITHIN_BATCH, PathMemory


@dataclass
class Moved(Clock):
    """A clock that the test moves."""

    time: float = 1_000.0

    def monotonic(self) -> float:
        return self.time

    def now(self) -> float:
        return self.time


def stay(memory: PathMemory, clock: Moved) -> float:
    """Seconds until it may return, which pass."""
    begun = clock.time
    while not memory.may_return:
        clock.time += 1
    return clock.time - begun


def test_a_path_has_a_beginning_and_a_reason() -> None:
    clock = Moved()
    memory = PathMemory(clock)
    assert not memory.take(BATCHES, ""), "the first one is no change"
    clock.time += 5
    assert not memory.take(BATCHES, "") and memory.path == DataPath(BATCHES, 1_000.0, "")
    assert memory.take(RECORDS, "compacted") and memory.path == DataPath(RECORDS, 1_005.0, "compacted")


def test_who_leaves_again_soon_stays_away_for_longer() -> None:
    clock, found = Moved(), list[float]()
    memory = PathMemory(clock)
    assert memory.may_return
    for _ in range(12):
        memory.take(BATCHES, "")
        clock.time += 1
        memory.left("compacted", None)
        memory.take(RECORDS, "compacted")
        assert memory.keeps_off == "compacted"
        found.append(stay(memory, clock))
        memory.returns()
        assert not memory.keeps_off
    assert found[:3] == [2 * FIRST_STAY, 4 * FIRST_STAY, 8 * FIRST_STAY] and found[-1] == LONGEST_STAY
    memory.take(BATCHES, "")
    clock.time += STEADY * LONGEST_STAY
    memory.left("compacted", None)
    assert stay(memory, clock) == FIRST_STAY, "it did well for long"


def test_who_was_told_too_late_where_to_end_is_told_again_soon_but_not_for_ever() -> None:
    clock, found = Moved(), list[float]()
    memory = PathMemory(clock)
    memory.left("compacted", None)
    for _ in range(2 * TRIES):
        found.append(stay(memory, clock))
        memory.wait()
        memory.told()
    assert found == [FIRST_STAY, *[SOON] * (TRIES - 1)] * 2


def test_a_look_that_found_no_answer_costs_no_whole_stay() -> None:
    clock = Moved()
    memory = PathMemory(clock)
    memory.left("too_slow", None)
    memory.wait()
    memory.unanswered()
    assert stay(memory, clock) == FIRST_STAY


def test_only_within_a_batch_it_is_known_where_that_is_over() -> None:
    memory = PathMemory(Moved())
    memory.left("too_large", 20)
    assert memory.end is None
    memory.left(WITHIN_BATCH, 20)
    assert memory.end == 20
    memory.returns()
    assert memory.end is None


def test_who_was_too_slow_for_long_did_not_do_well() -> None:
    """It copied nothing, and would copy nothing for as long again."""
    clock = Moved()
    memory = PathMemory(clock)
    memory.take(BATCHES, "")
    clock.time += STEADY * FIRST_STAY
    memory.left(TOO_SLOW, None)
    assert stay(memory, clock) == LONGEST_STAY
