"""The throttle of a task, on a clock that the test moves."""

from __future__ import annotations

import heapq
from collections import Counter

import pytest

from mirror.batches.merging import MERGED_MAX
from mirror.clock import Clock
from mirror.control.throttle_shares import OF_FLOW, Share
from mirror.task.rate_limits import AT_ONCE, BURST, GROW_AFTER, Bucket, RateLimits, Turns

RATE = 1_000.0


class SetClock(Clock):
    """Stands still unless it is set."""

    def __init__(self) -> None:
        self.time = 50.0

    def monotonic(self) -> float:
        return self.time


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


def share(rate: float) -> Share:
    return Share(int(rate), rate)


def limits(clock: Clock, **rates: float) -> RateLimits:
    """The rate limits of a task with these shares; that of the flow is called `flow`."""
    found = RateLimits(clock)
    found.follow(named(**rates))
    return found


def named(**rates: float) -> dict[str, Share]:
    return {OF_FLOW if name == "flow" else name: share(rate) for name, rate in rates.items()}


class Copying:
    """Partitions that copy whatever they may: `records` of `size` bytes wait in each, for ever."""

    def __init__(self, clock: SetClock, limits: RateLimits, topics: list[str], size: int = 10) -> None:
        self.clock = clock
        self.limits = limits
        self.size = size
        self.copied: Counter[int] = Counter()  # bytes, by partition
        self.largest = 0  # bytes in one transaction
        self.asked = 0
        self._topics = topics
        self._turns = [Turns(clock) for _ in topics]
        self._due = [(clock.time, index) for index in range(len(topics))]

    def forget(self) -> None:
        for turns in self._turns:
            turns.forget()
        self._due = [(self.clock.time, index) for _, index in self._due]

    def run(self, seconds: float, lasts: float = 0.01) -> int:
        """Make all steps that are due in this time, each of which takes `lasts`. Returns the bytes copied."""
        before, end = self.copied.total(), self.clock.time + seconds
        while self._due[0][0] < end:
            due, index = heapq.heappop(self._due)
            self.clock.time = max(self.clock.time, due)
            turns, buckets = self._turns[index], self.limits.of(self._topics[index])
            self.asked += 1
            most = turns.take(buckets, 100_000)
            assert (most == 0) is turns.waiting
            if most:
                size = max(self.size, most // self.size * self.size)
                self.copied[index] += size
                self.largest = max(self.largest, size)
                turns.copied(size)
            heapq.heappush(self._due, (max(turns.until, self.clock.time + lasts), index))
        self.clock.time = end
        return self.copied.total() - before


def test_without_a_throttle_nobody_needs_a_turn(clock: SetClock) -> None:
    assert limits(clock).of("a") == ()
    assert limits(clock, b=RATE).of("a") == ()


@pytest.mark.parametrize("partitions", [1, 3, 50])
def test_the_rate_is_kept_and_reached(clock: SetClock, partitions: int) -> None:
    copying = Copying(clock, limits(clock, flow=RATE), ["a"] * partitions)
    copying.run(20)
    assert copying.run(100) == pytest.approx(100 * RATE, rel=0.03)
    assert copying.largest <= RATE, "a transaction has at most a second's worth"


def test_each_partition_has_its_turn(clock: SetClock) -> None:
    copying = Copying(clock, limits(clock, flow=RATE), ["a"] * 50)
    copying.run(200)
    assert min(copying.copied.values()) > 0.7 * max(copying.copied.values())
    copying.asked = 0
    before = dict(copying.copied)
    copying.run(15)
    assert all(copying.copied[index] > before[index] for index in before), "a queue of 50 takes about seven seconds"
    assert copying.asked < 2 * 15 * 10, "whoever waits is not woken in vain"


def test_a_record_larger_than_a_turn_is_paid_for_after_it(clock: SetClock) -> None:
    copying = Copying(clock, limits(clock, flow=RATE), ["a"], size=5_000)
    copying.run(10)
    assert copying.run(100) == pytest.approx(100 * RATE, abs=5_000)


def test_who_was_idle_may_copy_no_more_than_a_moment_has_saved(clock: SetClock) -> None:
    copying = Copying(clock, limits(clock, flow=RATE), ["a"])
    clock.time += 1_000
    assert copying.run(0.001, lasts=0.0001) <= BURST * RATE + RATE


def test_what_was_reserved_and_not_copied_is_free_again(clock: SetClock) -> None:
    bucket = Bucket(share(RATE), "", clock, clock.time)
    turn = bucket.turn(900)
    assert (turn.at, turn.reserved, turn.max_bytes) == (clock.time, 900, 1_000)
    bucket.copied(turn, 100)
    assert bucket.turn(900).at == clock.time + 0.1


def test_turns_get_smaller_while_many_wait(clock: SetClock) -> None:
    bucket = Bucket(share(RATE), "", clock, clock.time)
    turns = [bucket.turn(100_000) for _ in range(100)]
    assert turns[0].max_bytes == 1_000 and turns[-1].max_bytes < 100
    assert 10 < turns[-1].at - clock.time < 20, "about the root of their number, in seconds"


def test_a_topic_needs_a_turn_of_its_own_and_one_of_the_flow(clock: SetClock) -> None:
    """The slow topic takes nothing from the flow's rate while it waits for its own."""
    copying = Copying(clock, limits(clock, flow=10 * RATE, slow=RATE), ["slow"] * 5 + ["fast"])
    copying.run(20)
    before = copying.copied.copy()
    copying.run(100)
    grown = copying.copied - before
    slow = sum(grown[index] for index in range(5))
    assert slow == pytest.approx(100 * RATE, rel=0.1)
    assert grown[5] == pytest.approx(900 * RATE, rel=0.1)


def test_small_batches_become_no_more_than_comes_in_a_moment(clock: SetClock) -> None:
    found = limits(clock, flow=400_000, slow=100_000)
    assert [found.at_once("slow"), found.at_once("other")] == [100_000 * AT_ONCE, 400_000 * AT_ONCE]
    found = limits(clock, fast=100_000_000)
    assert [found.at_once("fast"), found.at_once("other")] == [MERGED_MAX, MERGED_MAX]


def test_the_flow_bounds_all_topics_together(clock: SetClock) -> None:
    copying = Copying(clock, limits(clock, flow=RATE, a=RATE, b=RATE), ["a", "b", "c"])
    copying.run(20)
    assert copying.run(100) == pytest.approx(100 * RATE, rel=0.05)


def test_a_wait_is_told_and_counted(clock: SetClock) -> None:
    found = RateLimits(clock)
    found.follow({OF_FLOW: Share(5_000_000, 1_000.0)})
    turns = Turns(clock)
    assert turns.take(found.of("a"), 1_000) == 1_000 and turns.waited() == 0.0
    turns.copied(1_000)
    assert turns.take(found.of("a"), 1_000) == 0
    assert (turns.waiting, turns.until) == (True, clock.time + 1)
    assert turns.reason == "slowed down by the flow's throttle of 5.0 MB/s"
    clock.time += 0.4
    assert turns.take(found.of("a"), 1_000) == 0 and turns.until == pytest.approx(clock.time + 0.6)
    clock.time += 0.7
    assert not turns.waiting and turns.take(found.of("a"), 1_000) == 500, "turns are smaller if somebody waits"
    assert turns.waited() == pytest.approx(1.0) and turns.waited() == 0.0, "its turn came after a second"
    found.follow(named(a=1_000.0))
    turns.take(found.of("a"), 1_000)
    turns.take(found.of("a"), 1_000)
    assert turns.reason == "slowed down by the topic's throttle of 1.0 kB/s"


def test_a_share_shrinks_at_once_and_grows_once_other_tasks_have_shrunk(clock: SetClock) -> None:
    found = limits(clock, flow=RATE)

    def rate() -> float:
        (bucket,) = found.of("a")
        return bucket.share.rate

    smaller, larger = named(flow=400.0), named(flow=3_000.0)
    assert found.follow(smaller) and rate() == 400
    assert not found.follow(smaller), "nothing new"
    assert not found.follow(larger) and rate() == 400
    clock.time += GROW_AFTER - 0.1
    assert not found.follow(larger) and rate() == 400
    clock.time += 0.1
    assert found.follow(larger) and rate() == 3_000
    assert not found.follow(larger)


def test_a_throttle_comes_and_goes_at_once(clock: SetClock) -> None:
    found = limits(clock)
    assert found.follow(named(flow=RATE))
    (bucket,) = found.of("a")
    assert bucket.turn(10).at == clock.time
    assert found.follow({}) and found.of("a") == ()


def test_the_first_partition_of_a_throttled_topic_waits_until_others_have_shrunk(clock: SetClock) -> None:
    found = limits(clock, a=0.0)
    assert found.of("a") == ()
    assert found.follow(named(a=RATE))
    (bucket,) = found.of("a")
    assert bucket.turn(10).at == clock.time + GROW_AFTER


def test_what_was_copied_too_early_is_not_forgotten_with_a_change(clock: SetClock) -> None:
    """If it were, one large record for each plan would go through, whatever the throttle says."""
    found, turns = limits(clock, flow=RATE), Turns(clock)
    assert turns.take(found.of("a"), 1_000)
    turns.copied(4_000)  # paid for in four seconds
    for _ in range(100):  # who waits has reserved turns
        found.of("a")[0].turn(1_000)
    assert found.follow(named(flow=500.0))
    turns.forget()
    assert not turns.waiting
    assert turns.take(found.of("a"), 100) == 0
    assert turns.until == clock.time + 8, "at the new rate, and without what nobody has copied"


def test_a_void_turn_is_asked_for_again(clock: SetClock) -> None:
    """That holds also for a turn whose buckets have changed before the partition was told so."""
    found, turns = limits(clock, flow=RATE, a=RATE), Turns(clock)
    assert turns.take(found.of("a"), 1_000)
    turns.copied(1_000)
    assert turns.take(found.of("a"), 1_000) == 0
    found.follow(named(flow=RATE, a=10.0))
    assert turns.take(found.of("a"), 1_000) == 0
    assert turns.until == pytest.approx(clock.time + 100), "the topic's new bucket owes what was copied"
    found.follow(named(flow=RATE))
    assert turns.take(found.of("a"), 1_000) == 0 and turns.until == clock.time + 1


def test_the_sum_of_two_tasks_stays_below_the_throttle_while_shares_move(clock: SetClock) -> None:
    """The second task reads each plan 4 s later than the first one."""
    tasks = [limits(clock, flow=RATE / 2), limits(clock, flow=RATE / 2)]
    copying = [Copying(clock, task, ["a"] * 3) for task in tasks]
    total, began = 0, clock.time
    for mine in (0.9, 0.1, 0.5, 0.8):
        plans = named(flow=mine * RATE), named(flow=(1 - mine) * RATE)
        for second in range(20):
            for index, (task, each) in enumerate(zip(tasks, copying, strict=True)):
                if second >= 4 * index and task.follow(plans[index]):
                    each.forget()
                at = clock.time
                total += each.run(1)
                clock.time = at
            clock.time += 1
            assert total <= (clock.time - began + 2 * (1 + BURST)) * RATE
    assert total > 0.6 * (clock.time - began) * RATE
