"""Batches shrink until a slow target takes them in time, and grow again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.task.batch_size import BatchSize

TIMEOUT = 60.0


@given(st.integers(1, 20_000), st.floats(1.0, 100_000.0), st.floats(0.0, 20.0))
def test_a_slow_target_gets_something_and_a_fast_one_all(most: int, per_second: float, latency: float) -> None:
    """A target that can commit one record in time commits most transactions, whatever its rate and its latency."""
    size = BatchSize(most, TIMEOUT)
    committed = 0
    for _ in range(200):
        records, seconds = size.limit, latency + size.limit / per_second
        assert 1 <= records <= most
        if seconds < TIMEOUT:
            size.committed(records, seconds)
            committed += 1
        else:
            size.failed(records, TIMEOUT)
    assert committed > 100
    if latency + most / per_second < TIMEOUT / 2:
        assert size.limit == most


def test_an_outage_makes_batches_small_and_a_few_commits_large_again() -> None:
    size = BatchSize(20_000, TIMEOUT)
    for _ in range(30):
        size.failed(size.limit, TIMEOUT)
    assert size.limit == 1
    size.failed(1, 0.1)
    for _ in range(15):
        size.committed(size.limit, 0.5)
    assert size.limit == 20_000


def test_a_request_that_times_out_makes_batches_small_too() -> None:
    """It may do so long before the transaction: the same batch, sent again, would fail again."""
    size = BatchSize(500, TIMEOUT, request_timeout=10.0)
    size.failed(500, 9.0)
    assert size.limit == 500
    size.failed(500, 10.1)
    assert size.limit == 250
    size.committed(250, 12.0)
    assert size.limit > 250, "it is not slow for a transaction"


def test_one_that_takes_too_long_is_told() -> None:
    size = BatchSize(3, TIMEOUT)
    assert not size.failed(1, 1.0) and size.limit == 3
    assert size.failed(1, TIMEOUT) and size.limit == 1
    assert size.failed(1, TIMEOUT) and size.limit == 1, "it can't get smaller"


def test_what_was_not_full_says_nothing_of_larger_batches() -> None:
    size = BatchSize(1_000, TIMEOUT)
    size.failed(1_000, TIMEOUT)
    size.committed(10, 0.1)
    assert size.limit == 500
