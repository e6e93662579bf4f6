"""What was counted lately: rates and percentiles over the last seconds, and series over the last minutes."""

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
POINTS = 120  # of a flow's series
TOPIC_POINTS = 36  # of a topic's
MARK_INTERVAL = 10.0  # seconds
MARKS = 3  # rates go back to the oldest: 20 to 30 seconds


class Sample(NamedTuple):
    """How a partition stands."""

    partition: Partition
    lag: int
    total: Counters


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a flow's series. Latencies in seconds; None: no record came."""

    at: float  # seconds since the Unix epoch
    records_per_second: float
    lag: int
    p50: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class Lately:
    """What was counted in the last `seconds`."""

    seconds: float
    counters: Counters

    @property
    def records_per_second(self) -> float:
        """Committed on the target."""
        return self.counters.records / self.seconds

    @property
    def bytes_per_second(self) -> float:
        """Committed on the target: keys, values and headers."""
        return self.counters.bytes / self.seconds

    def latency(self, q: float) -> float | None:
        """Quantile of replication latency, seconds; None if no record came."""
        return quantile(self.counters.latency_buckets, q)


class Recent:
    """Remembers cumulative counters of a while ago. One thread takes samples, any may ask."""

    def __init__(self) -> None:
        self.points: deque[Point] = deque(maxlen=POINTS)
        self.rates: Mapping[str, deque[float]] = {}  # records per second, by topic
        self._marks: deque[tuple[float, Mapping[Partition, Counters]]] = deque(maxlen=MARKS)
        self._last: tuple[float, Mapping[Partition, Counters]] | None = None

    def due(self) -> bool:
        """Is it time for the next sample?"""
        return self._last is None or time.monotonic() - self._last[0] >= INTERVAL

    def take(self, samples: Sequence[Sample]) -> None:
        """Add a point to each series."""
        now = time.monotonic()
        totals = {sample.partition: sample.total for sample in samples}
        if self._last is not None:
            then, before = self._last
            # A partition that is new here has been counting for longer than since the last sample.
            grown = {p: since for p, counted in totals.items() if (since := _since(before.get(p), counted))}
            self._add(now - then, grown, sum(sample.lag for sample in samples))
        if len(self._marks) < MARKS or now - self._marks[-1][0] >= MARK_INTERVAL:
            self._marks.append((now, totals))
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
        everything = Lately(seconds, total(grown.values()))
        rate = everything.records_per_second
        self.points.append(Point(time.time(), rate, lag, everything.latency(0.5), everything.latency(0.99)))

    def of(self, partition: Partition, now: Counters) -> Lately | None:
        """What a partition that stands at `now` has counted lately; None when nothing older is known."""
        for at, totals in list(self._marks):
            if since := _since(totals.get(partition), now):
                return Lately(max(0.001, time.monotonic() - at), since)
        return None


def _since(before: Counters | None, now: Counters) -> Counters | None:
    """What was counted between the two; None if the partition is new, or left the plan and came again, from zero."""
    return None if before is None or now.precedes(before) else now.minus(before)


def total(counters: Iterable[Counters]) -> Counters:
    """The sum of all."""
    first, *others = [*counters] or [Counters()]
    return reduce(Counters.plus, others, first)


def quantile(buckets: Sequence[int], q: float) -> float | None:
    """Of a histogram of seconds, as Prometheus estimates it: evenly spread within the bucket. None without records."""
    rank = q * sum(buckets)
    if rank <= 0:
        return None
    low = below = 0.0
    for bound, count in zip(LATENCY_BUCKETS, buckets, strict=False):
        if below + count >= rank:
            return low + (bound - low) * (rank - below) / count
        low, below = bound, below + count
    return low
