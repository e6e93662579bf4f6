"""Before a producer is opened, the ones unused for longest are closed."""

from __future__ import annotations

from mirror.task.producer_budget import ProducerBudget


class Holding:
    """A partition with a producer."""

    def __init__(self, last_used: float, busy: bool = False) -> None:
        self.last_used = last_used
        self.has_producer = True
        self.busy = busy

    def close_idle_producer(self) -> bool:
        closed = self.has_producer and not self.busy
        self.has_producer = self.has_producer and self.busy
        return closed


def open_after(most: int, *held: Holding) -> list[float]:
    budget = ProducerBudget(most)
    for each in held:
        budget.opened(each)
        budget.opened(each)  # a take-over after a doubt counts once
    budget.make_room()
    return [each.last_used for each in held if each.has_producer]


def test_as_long_as_there_is_room_nothing_is_closed() -> None:
    assert open_after(3, Holding(1), Holding(2)) == [1, 2]


def test_the_ones_unused_for_longest_are_closed() -> None:
    assert open_after(3, Holding(5), Holding(2), Holding(9), Holding(1)) == [5, 9]


def test_one_whose_step_runs_is_left_alone() -> None:
    assert open_after(2, Holding(1, busy=True), Holding(2), Holding(3)) == [1]
    assert open_after(1, Holding(1, busy=True), Holding(2, busy=True)) == [1, 2]


def test_one_that_was_discarded_counts_no_more() -> None:
    gone, idle = Holding(1), Holding(2)
    gone.has_producer = False
    assert open_after(2, gone, idle) == [2]
