"""The Prometheus metrics of topics and partitions, made from the tasks' reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    SummaryMetricFamily,
)

from mirror.control.data_path import DATA_PATHS, OTHER_REASON, PATH_REASONS, RECORDS
from mirror.control.reports import LATENCY_BUCKETS, SIZE_BUCKETS, Counters
from mirror.model import SIDES
from mirror.status.flow_status import PARTITION_STATES, PartitionStatus
from mirror.status.observed import UNASSIGNED, lag
from mirror.status.rates import total
from mirror.web.metrics.labels import TOPIC

THROTTLE = "throttle"  # beside the sides whose quotas slow partitions down


@dataclass(frozen=True, slots=True)
class Summed:
    """The partitions that are summed up in one series."""

    statuses: list[PartitionStatus] = field(default_factory=list)
    unreported: list[float] = field(default_factory=list)  # seconds since each was planned

    @property
    def total(self) -> Counters:
        """The sum of their counters."""
        return total(status.total for status in self.statuses)


class TopicMetrics:
    """Histograms and states, by topic only: a set for each partition would be too many series."""

    def __init__(self) -> None:
        self.latency = HistogramMetricFamily(
            "mirror_source_replication_latency_seconds",
            "Commit on the target minus record timestamp; on the batch path, minus its batch's newest.",
            labels=TOPIC,
            unit="seconds",
        )
        self.age = SummaryMetricFamily(
            "mirror_source_record_age_seconds",
            "Start of the record's transaction minus record timestamp; on the batch path, minus its batch's newest.",
            labels=TOPIC,
            unit="seconds",
        )
        self.duration = HistogramMetricFamily(
            "mirror_transaction_duration_seconds",
            "From start to commit, of committed transactions.",
            labels=TOPIC,
            unit="seconds",
        )
        self.size = HistogramMetricFamily(
            "mirror_transaction_records",
            "Records in committed transactions; some commit only a position.",
            labels=TOPIC,
            unit="records",
        )
        self.throttle = GaugeMetricFamily(
            "mirror_topic_throttle_bytes_per_second",
            "The topic's own throttle; no value without one.",
            labels=TOPIC,
        )
        self.partitions = GaugeMetricFamily("mirror_partitions", "Partitions by state.", labels=(*TOPIC, "state"))
        self.paths = GaugeMetricFamily(
            "mirror_data_path_partitions", "Partitions by data path: see data_path.", labels=(*TOPIC, "path")
        )
        self.by_records = GaugeMetricFamily(
            "mirror_record_path_partitions",
            "Partitions that are copied by records though data_path is auto, by the reason; only reasons that hold.",
            labels=(*TOPIC, "reason"),
        )
        self.throttled = GaugeMetricFamily(
            "mirror_throttled_partitions",
            "Partitions with lag that are slowed down by a quota of the source or the target, or by mirror's throttle.",
            labels=(*TOPIC, "by"),
        )

        self.lag_unknown = GaugeMetricFamily(
            "mirror_lag_unknown_partitions",
            "Partitions that a task reports, but whose lag is not known.",
            labels=TOPIC,
        )

    def add(self, labels: tuple[str, ...], group: Summed, throttle: int | None) -> None:
        """Add a topic."""
        if throttle is not None:
            self.throttle.add_metric(labels, throttle)
        sums = group.total
        latencies = _cumulative(LATENCY_BUCKETS, sums.latency_buckets)
        self.latency.add_metric(labels, latencies, sums.latency_sum)
        self.age.add_metric(labels, int(latencies[-1][1]), sums.age_sum)
        self.duration.add_metric(labels, _cumulative(LATENCY_BUCKETS, sums.duration_buckets), sums.duration_sum)
        self.size.add_metric(labels, _cumulative(SIZE_BUCKETS, sums.size_buckets), sums.records)
        counts = dict.fromkeys(PARTITION_STATES, 0) | {UNASSIGNED: len(group.unreported)}
        for each in group.statuses:
            state = each.state if each.state in counts else OTHER_REASON  # whoever writes reports makes no series
            counts[state] = counts.get(state, 0) + 1
        for state, count in counts.items():
            self.partitions.add_metric((*labels, state), count)
        for path in DATA_PATHS:
            there = sum(s.report.path == path for s in group.statuses if s.state != UNASSIGNED)
            self.paths.add_metric((*labels, path), there)
        for reason, count in _reasons(group).items():
            self.by_records.add_metric((*labels, reason), count)
        for side in SIDES:
            throttled = sum(side in s.report.throttled_by for s in group.statuses if s.state != UNASSIGNED)
            self.throttled.add_metric((*labels, side), throttled)
        throttled = sum(s.report.throttled for s in group.statuses if s.state != UNASSIGNED)
        self.throttled.add_metric((*labels, THROTTLE), throttled)
        unknown = sum(lag(s.report) is None for s in group.statuses if s.state != UNASSIGNED)
        self.lag_unknown.add_metric(labels, unknown)


class PartitionCounters:
    """What partitions have done: one series for each partition, or for each topic."""

    def __init__(self, labels: Sequence[str]) -> None:
        def counter(name: str, help_: str, unit: str = "", more: str | None = None) -> CounterMetricFamily:
            return CounterMetricFamily(name, help_, labels=(*labels, more) if more else labels, unit=unit)

        self.records = counter("mirror_source_records", "Records committed on the target.", "records")
        self.bytes = counter(
            "mirror_source_bytes",
            "Bytes committed on the target: of keys, values and headers, or of whole batches as they are stored.",
            "bytes",
        )
        self.transactions = counter("mirror_transactions", "Transactions on the target by outcome.", more="outcome")
        self.fenced = counter("mirror_fenced_producers", "Producers fenced by a newer one.", "producers")
        self.retries = counter("mirror_retries", "Failures after which a partition tries again.", "retries")
        self.throttled = counter(
            "mirror_throttle_wait_seconds", "Time that partitions have waited because of the throttle.", "seconds"
        )
        self.dropped = counter("mirror_dropped_records", "Records that the transform has left out.", "records")
        self.foreign = counter(
            "mirror_foreign_offsets",
            "Offsets of the remote partition that records of somebody else take, as far as they were noticed.",
            "offsets",
        )
        self.left_out = counter(
            "mirror_left_out_records",
            "Records that were not copied because they have been on the target before (active_active).",
            "records",
        )
        self.lost = counter(
            "mirror_lost_offsets", "Upstream offsets skipped without a copy, by reason.", "offsets", "reason"
        )

    def add(self, labels: tuple[str, ...], group: Summed) -> None:
        """Add the partitions of one series."""
        sums = group.total
        self.records.add_metric(labels, sums.records)
        self.bytes.add_metric(labels, sums.bytes)
        self.fenced.add_metric(labels, sums.fenced)
        self.retries.add_metric(labels, sums.retries)
        self.throttled.add_metric(labels, sums.throttled)
        self.dropped.add_metric(labels, sums.dropped)
        self.foreign.add_metric(labels, sums.foreign)
        self.left_out.add_metric(labels, sums.left_out)
        for outcome, count in sums.transactions.items():
            self.transactions.add_metric((*labels, outcome), count)
        for reason, count in sums.lost.items():
            self.lost.add_metric((*labels, reason), count)


class PartitionGauges:
    """Where partitions are: one series for each partition, or for each topic."""

    def __init__(self, labels: Sequence[str]) -> None:
        def gauge(name: str, help_: str, unit: str = "") -> GaugeMetricFamily:
            return GaugeMetricFamily(name, help_, labels=labels, unit=unit)

        self.lag = gauge(
            "mirror_source_topic_partition_lag",
            "Records up to the source's last stable offset; of a topic, of the partitions whose lag is known.",
        )
        self.lag_seconds = gauge(
            "mirror_source_topic_partition_lag_seconds",
            "How long the next record has waited; of a topic, the longest.",
            "seconds",
        )
        self.stuck = gauge(
            "mirror_source_stable_offset_stuck_seconds",
            "How long the source's last stable offset has not moved below the high watermark; 0 if it moves; "
            "of a topic, the longest.",
            "seconds",
        )
        self.commit = gauge(
            "mirror_last_commit_timestamp_seconds",
            "When the last transaction was committed; of a topic, the newest.",
            "seconds",
        )
        self.age = gauge(
            "mirror_report_age_seconds",
            "Since a task last reported, or since the partition was planned; of a topic, the oldest.",
            "seconds",
        )

    def add(self, labels: tuple[str, ...], group: Summed) -> None:
        """Add the partitions of one series."""
        reports = [status.report for status in group.statuses]
        lags = [records for report in reports if (records := lag(report)) is not None]
        if lags:
            self.lag.add_metric(labels, sum(lags))
        waits = [wait for status in group.statuses if (wait := status.lag_seconds) is not None]
        if waits:
            self.lag_seconds.add_metric(labels, max(waits))
        stuck = [status.stuck_seconds for status in group.statuses if status.state != UNASSIGNED]
        if stuck:
            self.stuck.add_metric(labels, max(stuck))
        commits = [report.last_commit for report in reports if report.last_commit]
        if commits:
            self.commit.add_metric(labels, max(commits))
        self.age.add_metric(labels, max([*(status.age for status in group.statuses), *group.unreported]))


def _cumulative(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    buckets, sum_ = [], 0
    for bound, count in zip((*bounds, float("inf")), counts, strict=True):
        sum_ += count
        buckets.append(("+Inf" if bound == float("inf") else str(float(bound)), float(sum_)))
    return buckets


def _reasons(group: Summed) -> Counter[str]:
    """How many partitions are copied by records although that is not preferred, by the reason."""
    there = (s.report for s in group.statuses if s.state != UNASSIGNED)
    why = (report.path_reason for report in there if report.path == RECORDS and report.path_reason)
    return Counter(reason if reason in PATH_REASONS else OTHER_REASON for reason in why)
