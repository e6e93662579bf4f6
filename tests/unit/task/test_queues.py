"""The delay queue: items come when they are due, in order, and end with the queue."""

from __future__ import annotations

import threading
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.task.queues import AdmissionQueue, DelayQueue


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8))
@settings(max_examples=20, deadline=None)
def test_items_come_when_due_and_not_before(hundredths: list[int]) -> None:
    queue: DelayQueue[list[float]] = DelayQueue()
    for delay in hundredths:
        due = [time.monotonic() + delay / 100]  # this at the earliest, and at the latest
        queue.put(due, delay / 100)
        due.append(time.monotonic() + delay / 100)
    came = []
    for _ in hundredths:
        item = queue.take()
        assert item is not None
        assert time.monotonic() >= item[0] - 1e-6
        came.append(item)
    assert all(first[0] <= second[1] for first, second in pairwise(came))


def test_first_come_first_served_among_those_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirror.task.queues.time.monotonic", lambda: 1000.0)  # a clock too coarse to tell them apart
    queue: DelayQueue[object] = DelayQueue()
    items = [object() for _ in range(20)]  # which can't be compared
    for item in items:
        queue.put(item)
    assert [queue.take() for _ in items] == items


def test_a_waiting_taker_gets_what_is_due_sooner() -> None:
    queue: DelayQueue[str] = DelayQueue()
    taken: list[str | None] = []
    taker = threading.Thread(target=lambda: taken.append(queue.take()), daemon=True)
    queue.put("in an hour", 3600)
    taker.start()
    queue.put("now")
    taker.join(10)
    assert taken == ["now"]


def test_closing_lets_every_taker_go() -> None:
    queue: DelayQueue[str] = DelayQueue()
    taken: list[str | None] = []
    takers = [threading.Thread(target=lambda: taken.append(queue.take()), daemon=True) for _ in range(5)]
    queue.put("in an hour", 3600)
    for taker in takers:
        taker.start()
    queue.close()
    for taker in takers:
        taker.join(10)
    assert taken == [None] * 5
    queue.put("too late")
    assert queue.take() is None


def test_a_queue_lets_as_many_in_as_it_is_wide_and_the_others_in_order() -> None:
    queue: AdmissionQueue[str] = AdmissionQueue(2)
    assert [queue.enter(item) for item in "abcd"] == [True, True, False, False]
    assert queue.free_place() == "c" and queue.enter("c")
    assert not queue.enter("e")
    assert queue.free_place() == "d" and queue.free_place() == "e"
    assert queue.enter("d") and queue.enter("e") and not queue.enter("f")


def test_who_waits_gets_in_though_others_have_lost_interest() -> None:
    """An item may wait twice; the second time, it does not want to enter any more."""
    queue: AdmissionQueue[str] = AdmissionQueue(1)
    assert queue.enter("a") and not queue.enter("a") and not queue.enter("b")
    assert queue.next() is None, "there is no room"
    assert queue.free_place() == "a", "which does not enter now"
    assert queue.next() == "b" and queue.enter("b")
    assert queue.free_place() is None and queue.next() is None
