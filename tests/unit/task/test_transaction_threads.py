"""A few threads make all steps, and partitions that an error has stopped leave some of them to the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from mirror.task.transaction_threads import THREADS_MAX, TransactionThreads
from tests.unit.test_naming import flow


class Item:
    """A partition whose step waits until it may end."""

    def __init__(self, stopped: bool = False, ends: threading.Event | None = None) -> None:
        self.stopped_by_error = stopped
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
    pool.have(slow=0)
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
        pool.have(slow=1)  # the one step lasts
        until_stepped(slow[1])
        assert len(pool.threads) == 3
        ends.set()
        until_stepped(*slow)


def test_threads_have_a_bound() -> None:
    with running(1) as (pool, _):
        pool.have(slow=10 * THREADS_MAX)
        assert len(pool.threads) == THREADS_MAX
