"""When the main thread counts as hung."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mirror.task.reading_watch import HUNG_AFTER, LOOK_MAX, ReadingWatch


class World:
    """A clock, and a main thread that goes on when `loops` grows."""

    def __init__(self) -> None:
        self.now, self.loops = 1_000.0, 0
        clock: Any = SimpleNamespace(monotonic=lambda: self.now)
        self.watch = ReadingWatch(lambda: self.loops, clock)

    def looks(self, seconds: float, times: int) -> list[bool]:
        found = []
        for _ in range(times):
            self.now += seconds
            found.append(self.watch.hangs())
        return found


def test_a_thread_whose_loop_stands_still_hangs_after_a_while() -> None:
    world = World()
    found = world.looks(1.0, 40)
    assert found.index(True) == HUNG_AFTER, "the first look begins the count"


def test_each_loop_begins_the_count_anew() -> None:
    world = World()
    for _ in range(5):
        assert not any(world.looks(1.0, int(HUNG_AFTER) - 1))
        world.loops += 1
    assert world.looks(1.0, int(HUNG_AFTER) + 1) == [False] * int(HUNG_AFTER) + [True]


def test_a_process_that_was_suspended_does_not_hang() -> None:
    world = World()
    world.looks(1.0, 2)
    assert world.looks(3_600.0, 1) == [False], "it counts as LOOK_MAX"
    assert world.looks(1.0, int(HUNG_AFTER - 2 * LOOK_MAX)).count(True) == 0
