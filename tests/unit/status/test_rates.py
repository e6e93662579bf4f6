"""Rates over the last seconds."""

from __future__ import annotations

import time
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.control.reports import LATENCY_BUCKETS, Counters
from mirror.model import Partition
from mirror.status.rates import BASELINE_INTERVAL, INTERVAL, TOPIC_POINTS, RateHistory, Sample, quantile

NOW = 1_800_000_000_000
P = Partition("topic", 0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still until a test sets it."""
    now = [1_000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def counted(records: int, age: int = 10) -> Counters:
    counters = Counters()
    counters.copied([NOW - age] * records, 5 * records, NOW)
    return counters


@given(st.lists(st.floats(0, 600), min_size=1, max_size=50), st.floats(0.01, 1))
def test_a_quantile_is_in_the_bucket_of_the_exact_one(values: list[float], q: float) -> None:
    buckets = [0] * (len(LATENCY_BUCKETS) + 1)
    for value in values:
        buckets[bisect_left(LATENCY_BUCKETS, value)] += 1
    rank = next(n for n in range(1, len(values) + 1) if n >= q * len(values))
    exact = sorted(values)[rank - 1]
    index = bisect_left(LATENCY_BUCKETS, exact)
    estimate = quantile(buckets, q)
    assert estimate is not None
    assert (LATENCY_BUCKETS[index - 1] if index else 0) <= estimate <= LATENCY_BUCKETS[index]


def test_quantiles_at_the_edges() -> None:
    assert quantile([0] * 19, 0.5) is None
    assert quantile([0] * 18 + [3], 0.5) == 600, "more than the last bound: at least that"
    assert quantile([10] + [0] * 18, 0.5) == pytest.approx(0.0005)


def test_rates_are_of_the_last_seconds(clock: list[float]) -> None:
    history = RateHistory()
    assert history.window(P, counted(7)) is None
    history.take([Sample(P, 0, counted(100))])
    clock[0] += 20
    window = history.window(P, counted(300, age=15))
    assert window is not None
    assert (window.records_per_second, window.bytes_per_second) == (10, 50)
    assert history.window(Partition("other", 0), counted(1)) is None
    for _ in range(20):
        clock[0] += BASELINE_INTERVAL
        history.take([Sample(P, 0, counted(300))])
    window = history.window(P, counted(300))
    assert window is not None and window.records_per_second == 0 and window.latency(0.5) is None


def test_series_have_a_point_for_each_interval(clock: list[float]) -> None:
    history, other, many = RateHistory(), Partition("topic", 1), counted(100_000)
    assert history.due()
    history.take([Sample(P, 9, counted(0))])
    assert not history.due() and not history.points
    clock[0] += INTERVAL
    assert history.due()
    # What was counted before a partition came here is not of this interval.
    history.take([Sample(P, 1, counted(50)), Sample(other, 2, many)])
    (point,) = history.points
    assert (point.records_per_second, point.lag) == (10, 3)
    assert point.p50 is not None and 0.005 <= point.p50 <= 0.01
    assert list(history.rates["topic"]) == [10]
    for _ in range(2 * TOPIC_POINTS):
        clock[0] += INTERVAL
        history.take([Sample(P, 0, counted(50)), Sample(other, 0, many)])
    assert list(history.rates["topic"]) == [0] * TOPIC_POINTS
    assert history.points[-1].p50 is None
    clock[0] += INTERVAL
    history.take([])
    assert not history.rates, "a topic that is gone is forgotten"


def test_a_partition_that_left_and_came_again_counts_from_zero(clock: list[float]) -> None:
    history = RateHistory()
    history.take([Sample(P, 0, counted(100))])
    clock[0] += INTERVAL
    again = counted(3)
    history.take([Sample(P, 0, again)])
    (point,) = history.points
    assert (point.records_per_second, point.p50) == (0, None)
    assert not history.rates
    window = history.window(P, again)
    assert window is not None and window.records_per_second == 0, "since it came again"
