"""A few threads make all steps, and partitions that an error has stopped leave some of them to the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from mirror.clock import Clock
from mirror.task.transaction_threads import THREADS_MAX, StepLock, TransactionThreads
from tests.unit.test_naming import flow


class Item:
    """A partition whose step waits until it may end."""

    def __init__(self, stopped: bool = False, ends: threading.Event | None = None) -> None:
        self.may_take_long = stopped
        self.steps = 0
        self._ends = ends

    def step(self) -> None:
        self.steps += 1
        if self._ends:
            self._ends.wait(30)


@contextmanager
def running(threads: int) -> Iterator[tuple[TransactionThreads, threading.Event]]:
    stepped = threading.Event()
    pool = TransactionThreads(flow(transaction_threads=threads), stepped)
    pool.ensure_threads(slow=0)
    try:
        yield pool, stepped
    finally:
        pool.close()
        for thread in pool.threads:
            thread.join(30)


def until_stepped(*items: Item) -> None:
    deadline = time.monotonic() + 30
    while not all(item.steps for item in items):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_step_is_made_and_told() -> None:
    with running(1) as (pool, stepped):
        item = Item()
        pool.schedule(item, 0)
        assert stepped.wait(30) and item.steps == 1


def test_stopped_partitions_leave_threads_for_the_others() -> None:
    ends = threading.Event()
    with running(2) as (pool, _):
        slow = [Item(stopped=True, ends=ends) for _ in range(5)]
        for item in slow:
            pool.schedule(item, 0)
        until_stepped(slow[0])
        well = [Item() for _ in range(20)]
        for item in well:
            pool.schedule(item, 0)
        until_stepped(*well)
        assert [item.steps for item in slow] == [1, 0, 0, 0, 0]
        pool.ensure_threads(slow=1)  # the one step lasts
        until_stepped(slow[1])
        assert len(pool.threads) == 3
        ends.set()
        until_stepped(*slow)


def test_threads_have_a_bound() -> None:
    with running(1) as (pool, _):
        pool.ensure_threads(slow=10 * THREADS_MAX)
        assert len(pool.threads) == THREADS_MAX


def test_nothing_is_due_before_somebody_asks() -> None:
    assert not StepLock(Clock()).acquire_if_due()


def test_the_earliest_request_counts() -> None:
    lock = StepLock(Clock())
    assert lock.request(60) == pytest.approx(60), "it was added to the clock"
    assert lock.request(90) is None
    assert not lock.acquire_if_due()
    assert lock.request(0) == 0
    assert lock.acquire_if_due()


def test_pacing_holds_back_what_names_no_time() -> None:
    lock = StepLock(Clock())
    lock.not_before = time.monotonic() + 60
    after = lock.request()
    assert after is not None and 59 < after <= 60
    assert not lock.acquire_if_due()


def test_a_step_that_runs_needs_no_waking_and_lasts() -> None:
    lock = StepLock(Clock())
    lock.request(0)
    assert lock.held_for == 0 and lock.acquire_if_due()
    assert lock.request(0) is None
    assert not lock.acquire_if_due() and not lock.acquire()
    before = lock.held_for
    lock.progressed()
    assert lock.held_for <= before + 1
    lock.release()
    assert lock.held_for == 0
    assert not lock.acquire_if_due(), "what was asked for meanwhile has to be asked for again"
    assert lock.acquire()


def test_of_many_threads_one_takes_it() -> None:
    lock = StepLock(Clock())
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            lock.request(0)
            assert sum(pool.map(lambda _: lock.acquire_if_due(), range(8))) == 1
            lock.release()
