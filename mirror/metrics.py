"""Every Prometheus metric, declared once, computed from the tasks' reports when scraped."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from mirror import __version__
from mirror.plan import Partition
from mirror.reports import LATENCY_BUCKETS, OUTCOMES, Counters, Report

STATES = ("starting", "running", "failed")
FLOW = ("source", "target")
PARTITION = (*FLOW, "topic", "partition")
SILENCE = 30.0  # seconds without a report after which a partition has no task; tasks report each within 10


@dataclass(frozen=True, slots=True)
class Tally:
    """A partition's newest report, and what its earlier incarnations had counted: the sum never goes back."""

    report: Report
    seen: float  # monotonic
    earlier: Counters = field(default_factory=Counters)
    ended: frozenset[str] = frozenset()  # earlier incarnations; what they still say is old

    def absorb(self, report: Report) -> Tally:
        """With a newer report."""
        now = time.monotonic()
        if report.incarnation in self.ended:
            return self
        if report.incarnation == self.report.incarnation:
            return Tally(report, now, self.earlier, self.ended)
        return Tally(report, now, self.total, self.ended | {self.report.incarnation})

    @property
    def total(self) -> Counters:
        """Over all incarnations since the service started."""
        return _sum(self.earlier, self.report.counters)


def _sum(a: Counters, b: Counters) -> Counters:
    return Counters(
        records=a.records + b.records,
        bytes=a.bytes + b.bytes,
        transactions={outcome: a.transactions[outcome] + b.transactions[outcome] for outcome in OUTCOMES},
        latency_buckets=[x + y for x, y in zip(a.latency_buckets, b.latency_buckets, strict=True)],
        latency_sum=a.latency_sum + b.latency_sum,
    )


class FlowStatus:
    """What the service knows of one flow: reports of its tasks under one leader, and whether it is led."""

    def __init__(self, source: str, target: str, leader: str) -> None:
        self.labels = (source, target)
        self.active = False
        self.generation = 0
        self.problem = "starting"
        self._leader = leader
        self._lock = threading.Lock()
        self._tallies: dict[Partition, Tally] = {}
        self._planned: dict[Partition, float] = {}  # since when
        self._rates: dict[Partition, tuple[float, int, float]] = {}  # when, bytes then, bytes per second

    def absorb(self, reports: Iterable[Report]) -> None:
        """Take reports; those of another leader's tasks are not ours to count."""
        with self._lock:
            for report in reports:
                if report.leader != self._leader:
                    continue
                tally = self._tallies.get(report.partition)
                self._tallies[report.partition] = tally.absorb(report) if tally else Tally(report, time.monotonic())
                self._rate(report.partition)

    def _rate(self, partition: Partition) -> None:
        now, total = time.monotonic(), self._tallies[partition].total.bytes
        when, before, _ = self._rates.get(partition, (now - 1.0, total, 0.0))
        if now - when >= 10 or partition not in self._rates:
            self._rates[partition] = (now, total, (total - before) / (now - when))

    def planned(self, generation: int, partitions: Iterable[Partition]) -> None:
        """There is a newer plan; partitions that are not in it are not mirrored any more."""
        with self._lock:
            self.generation = generation
            now = time.monotonic()
            self._planned = {partition: self._planned.get(partition, now) for partition in partitions}
            self._tallies = {p: t for p, t in self._tallies.items() if p in self._planned}
            self._rates = {p: r for p, r in self._rates.items() if p in self._planned}

    def unreported(self) -> tuple[int, int]:
        """How many partitions of the plan no task has ever reported, and how many there are."""
        with self._lock:
            return sum(partition not in self._tallies for partition in self._planned), len(self._planned)

    def silent(self) -> int:
        """How many partitions of the plan no task has reported for a while."""
        before = time.monotonic() - SILENCE
        with self._lock:
            seen = {partition: tally.seen for partition, tally in self._tallies.items()}
            return sum(max(since, seen.get(partition, 0.0)) < before for partition, since in self._planned.items())

    def bytes_per_second(self) -> dict[Partition, float]:
        """Of each partition, over the last ten seconds or more."""
        with self._lock:
            return {partition: rate for partition, (_, _, rate) in self._rates.items()}

    def tallies(self) -> list[Tally]:
        """All partitions, in order."""
        with self._lock:
            return [self._tallies[partition] for partition in sorted(self._tallies)]


class Metrics(Collector):
    """Collects all flows' metrics at each scrape."""

    def __init__(self, flows: Iterable[FlowStatus]) -> None:
        self._flows = list(flows)
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Nothing ahead of the first scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metrics; the README has them in a table."""
        info = InfoMetricFamily("mirror_build", "Version of mirror.")
        info.add_metric((), {"version": __version__})
        yield info
        yield from self._flow_metrics()
        yield from self._partition_metrics()
        yield self._latency()

    def _flow_metrics(self) -> Iterator[Metric]:
        active = GaugeMetricFamily("mirror_flow_active", "1 while this service leads and runs the flow.", labels=FLOW)
        generation = GaugeMetricFamily("mirror_flow_generation", "Generation of the newest plan.", labels=FLOW)
        states = GaugeMetricFamily("mirror_partitions", "Partitions by state.", labels=(*FLOW, "state"))
        for flow in self._flows:
            active.add_metric(flow.labels, float(flow.active))
            generation.add_metric(flow.labels, flow.generation)
            counts = dict.fromkeys(STATES, 0)
            for tally in flow.tallies():
                if tally.report.state in counts:
                    counts[tally.report.state] += 1
            for state, count in counts.items():
                states.add_metric((*flow.labels, state), count)
        yield from (active, generation, states)

    def _partition_metrics(self) -> Iterator[Metric]:
        records = CounterMetricFamily("mirror_source_records", "Records committed on the target.", labels=PARTITION)
        size = CounterMetricFamily(
            "mirror_source_bytes", "Bytes of keys, values and headers committed on the target.", labels=PARTITION
        )
        transactions = CounterMetricFamily(
            "mirror_transactions", "Transactions on the target by outcome.", labels=(*PARTITION, "outcome")
        )
        lag = GaugeMetricFamily(
            "mirror_source_topic_partition_lag", "Records up to the source's last stable offset.", labels=PARTITION
        )
        commit = GaugeMetricFamily(
            "mirror_last_commit_timestamp_seconds", "When the last transaction was committed.", labels=PARTITION
        )
        for flow in self._flows:
            for tally in flow.tallies():
                report, total = tally.report, tally.total
                labels = (*flow.labels, report.partition.topic, str(report.partition.partition))
                records.add_metric(labels, total.records)
                size.add_metric(labels, total.bytes)
                for outcome, count in total.transactions.items():
                    transactions.add_metric((*labels, outcome), count)
                if report.lag >= 0:
                    lag.add_metric(labels, report.lag)
                if report.last_commit:
                    commit.add_metric(labels, report.last_commit)
        yield from (records, size, transactions, lag, commit)

    def _latency(self) -> Metric:
        family = HistogramMetricFamily(
            "mirror_source_replication_latency_seconds",
            "Commit on the target minus record timestamp.",
            labels=(*FLOW, "topic"),
        )
        for flow in self._flows:
            by_topic: dict[str, Counters] = defaultdict(Counters)
            for tally in flow.tallies():
                topic = tally.report.partition.topic
                by_topic[topic] = _sum(by_topic[topic], tally.total)
            for topic, counters in by_topic.items():
                family.add_metric((*flow.labels, topic), _cumulative(counters.latency_buckets), counters.latency_sum)
        return family


def _cumulative(counts: Iterable[int]) -> list[tuple[str, float]]:
    buckets, total = [], 0
    for bound, count in zip((*LATENCY_BUCKETS, float("inf")), counts, strict=True):
        total += count
        buckets.append(("+Inf" if bound == float("inf") else str(float(bound)), float(total)))
    return buckets
