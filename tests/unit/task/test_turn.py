"""When a step is due, and that never two run at once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from mirror.clock import Clock
from mirror.task.turn import Turn


def test_nothing_is_due_before_somebody_asks() -> None:
    assert not Turn(Clock()).take()


def test_the_earliest_request_counts() -> None:
    turn = Turn(Clock())
    assert turn.request(60) == 60
    assert turn.request(90) is None
    assert not turn.take()
    assert turn.request(0) == 0
    assert turn.take()


def test_pacing_holds_back_what_names_no_time() -> None:
    turn = Turn(Clock())
    turn.not_before = time.monotonic() + 60
    after = turn.request()
    assert after is not None and 59 < after <= 60
    assert not turn.take()


def test_a_step_that_runs_needs_no_waking_and_lasts() -> None:
    turn = Turn(Clock())
    turn.request(0)
    assert turn.lasts == 0 and turn.take()
    assert turn.request(0) is None
    assert not turn.take() and not turn.take_early()
    before = turn.lasts
    turn.goes_on()
    assert turn.lasts <= before + 1
    turn.end()
    assert turn.lasts == 0
    assert not turn.take(), "what was asked for meanwhile has to be asked for again"
    assert turn.take_early()


def test_of_many_threads_one_takes_it() -> None:
    turn = Turn(Clock())
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            turn.request(0)
            assert sum(pool.map(lambda _: turn.take(), range(8))) == 1
            turn.end()
