"""Rates and percentiles over the last seconds, and series for charts over the last minutes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from mirror.control.reports import LATENCY_BUCKETS, Counters
from mirror.model import Partition

INTERVAL = 5.0  # seconds between points of a series
POINTS = 120  # in a flow's series: ten minutes
TOPIC_POINTS = 36  # in a topic's series: three minutes
# Rates are measured from the oldest baseline, so over the last 20 to 30 seconds.
BASELINE_INTERVAL = 10.0  # seconds
BASELINES = 3


class Sample(NamedTuple):
    """A partition's lag and cumulative counters at one moment."""

    partition: Partition
    lag: int
    total: Counters


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a flow's series. Latencies are in seconds, None if no record came."""

    at: float  # seconds since the Unix epoch
    records_per_second: float
    lag: int
    p50: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class Window:
    """What was counted in a window of `seconds` that ends now."""

    seconds: float
    counters: Counters

    @property
    def records_per_second(self) -> float:
        """Records committed on the target per second."""
        return self.counters.records / self.seconds

    @property
    def bytes_per_second(self) -> float:
        """Bytes of keys, values and headers committed on the target per second."""
        return self.counters.bytes / self.seconds

    def latency(self, q: float) -> float | None:
        """The quantile `q` of the replication latency in seconds; None if no record came."""
        return quantile(self.counters.latency_buckets, q)


class RateHistory:
    """Keeps cumulative counters of the last seconds, from which rates follow.

    One thread takes samples, any thread may ask.
    """

    def __init__(self) -> None:
        self.points: deque[Point] = deque(maxlen=POINTS)
        self.rates: Mapping[str, deque[float]] = {}  # records per second, by topic
        self._baselines: deque[tuple[float, Mapping[Partition, Counters]]] = deque(maxlen=BASELINES)
        self._last: tuple[float, Mapping[Partition, Counters]] | None = None

    def due(self) -> bool:
        """True when the next sample is to be taken."""
        return self._last is None or time.monotonic() - self._last[0] >= INTERVAL

    def take(self, samples: Sequence[Sample]) -> None:
        """Add a point to each series, and a baseline if one is due."""
        now = time.monotonic()
        totals = {sample.partition: sample.total for sample in samples}
        if self._last is not None:
            then, before = self._last
            # A partition that the last sample lacks is left out: its counters have grown for longer than the interval.
            grown = {p: since for p, counted in totals.items() if (since := _since(before.get(p), counted))}
            self._add(now - then, grown, sum(sample.lag for sample in samples))
        if len(self._baselines) < BASELINES or now - self._baselines[-1][0] >= BASELINE_INTERVAL:
            self._baselines.append((now, totals))
        self._last = now, totals

    def _add(self, seconds: float, grown: Mapping[Partition, Counters], lag: int) -> None:
        records: dict[str, int] = {}
        for partition, counters in grown.items():
            records[partition.topic] = records.get(partition.topic, 0) + counters.records
        none: deque[float] = deque(maxlen=TOPIC_POINTS)
        self.rates = {
            topic: deque([*self.rates.get(topic, none), count / seconds], maxlen=TOPIC_POINTS)
            for topic, count in records.items()
        }
        everything = Window(seconds, total(grown.values()))
        rate = everything.records_per_second
        self.points.append(Point(time.time(), rate, lag, everything.latency(0.5), everything.latency(0.99)))

    def window(self, partition: Partition, now: Counters) -> Window | None:
        """What a partition with counters `now` has counted since the oldest baseline that has it; None without one."""
        for at, totals in list(self._baselines):
            if since := _since(totals.get(partition), now):
                return Window(max(0.001, time.monotonic() - at), since)
        return None


def _since(before: Counters | None, now: Counters) -> Counters | None:
    """The difference of the two; None if the partition is new, or if it left the plan and counts from zero again."""
    return None if before is None or now.precedes(before) else now.minus(before)


def total(counters: Iterable[Counters]) -> Counters:
    """The sum of all counters."""
    first, *others = [*counters] or [Counters()]
    return reduce(Counters.plus, others, first)


def quantile(buckets: Sequence[float], q: float, bounds: Sequence[float] = LATENCY_BUCKETS) -> float | None:
    """The quantile `q` of a histogram, as Prometheus estimates it; None for an empty one.

    `buckets` has the count of each bucket, `bounds` their upper bounds; values are taken to be spread evenly within a
    bucket. Of the last bucket, which has no upper bound, the lower bound is the estimate.
    """
    rank = q * sum(buckets)
    if rank <= 0:
        return None
    low = below = 0.0
    for bound, count in zip(bounds, buckets, strict=False):
        if below + count >= rank:
            return low + (bound - low) * (rank - below) / count
        low, below = bound, below + count
    return low
