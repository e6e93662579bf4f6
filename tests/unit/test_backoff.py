"""Back-off: it grows, it is bounded, and it starts small again after a success."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.backoff import Backoff


@given(st.floats(0.01, 1), st.floats(1, 100), st.integers(1, 30))
def test_each_wait_is_half_to_all_of_a_bound_that_doubles(first: float, most: float, times: int) -> None:
    backoff = Backoff(first, most)
    for attempt in range(times):
        bound = min(most, first * 2**attempt)
        assert 0.5 * bound <= backoff.next() <= bound


def test_after_a_success_it_starts_small_again() -> None:
    backoff = Backoff(1.0, 100.0)
    for _ in range(5):
        backoff.next()
    backoff.reset()
    assert backoff.next() <= 1.0
    assert 1.0 <= backoff.next() <= 2.0


def test_waits_differ() -> None:
    assert len({Backoff(1.0, 1.0).next() for _ in range(20)}) > 1
