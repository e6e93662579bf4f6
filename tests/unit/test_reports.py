"""Reports and their counters, from a task to Prometheus."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.metrics import SILENCE, FlowStatus, Metrics
from mirror.plan import Partition
from mirror.reports import LATENCY_BUCKETS, Counters, Report

NOW = 1_800_000_000_000

ages = st.lists(
    st.integers(-10_000, 1_000_000) | st.sampled_from([int(b * 1000) for b in LATENCY_BUCKETS]), max_size=30
)


def report(records: int = 0, partition: int = 0, incarnation: str = "one", leader: str = "us") -> Report:
    counters = Counters()
    counters.copied([NOW] * records, 10 * records, NOW)
    return Report(
        leader=leader,
        incarnation=incarnation,
        generation=3,
        partition=Partition("topic", partition),
        remote="primary.topic",
        state="running",
        reason="",
        position=records,
        lag=4,
        last_commit=1.5,
        counters=counters,
    )


def test_a_report_survives_its_travel() -> None:
    sent = report(7)
    assert Report.decode(sent.encode()) == sent
    assert sent.key() == b"topic/0"


@given(ages)
def test_each_record_is_in_the_first_bucket_that_holds_its_age(some: list[int]) -> None:
    counters = Counters()
    counters.copied([NOW - age for age in some], 0, NOW)
    expected = [0] * (len(LATENCY_BUCKETS) + 1)
    for age in some:
        expected[bisect_left(LATENCY_BUCKETS, max(0, age) / 1000)] += 1
    assert counters.latency_buckets == expected
    assert counters.records == len(some)
    assert counters.latency_sum == pytest.approx(sum(max(0, age) for age in some) / 1000)


@given(st.lists(ages, max_size=5))
def test_batches_add_up(batches: list[list[int]]) -> None:
    apart, together = Counters(), Counters()
    for batch in batches:
        apart.copied([NOW - age for age in batch], 3, NOW)
    together.copied([NOW - age for batch in batches for age in batch], 3 * len(batches), NOW)
    assert apart.latency_buckets == together.latency_buckets
    assert (apart.records, apart.bytes) == (together.records, together.bytes)


def scraped(status: FlowStatus) -> dict[str, float]:
    """Sums over labels, by sample name."""
    sums: dict[str, float] = {}
    for metric in Metrics([status]).collect():
        for sample in metric.samples:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return sums


def test_counters_do_not_go_back_when_a_partition_changes_hands() -> None:
    status = FlowStatus("primary", "backup", "us")
    status.absorb([report(10), report(25)])
    assert scraped(status)["mirror_source_records_total"] == 25
    status.absorb([report(3, incarnation="two")])
    assert scraped(status)["mirror_source_records_total"] == 28
    status.absorb([report(5, incarnation="two"), report(1, partition=1)])
    assert scraped(status)["mirror_source_records_total"] == 31
    assert scraped(status)["mirror_source_bytes_total"] == 310
    status.absorb([report(25)])  # late, of the first incarnation: old
    assert scraped(status)["mirror_source_records_total"] == 31


def test_another_leaders_tasks_do_not_count() -> None:
    status = FlowStatus("primary", "backup", "us")
    status.absorb([report(10, leader="them")])
    assert status.tallies() == []


def test_prometheus_buckets_are_cumulative() -> None:
    status = FlowStatus("primary", "backup", "us")
    counters = Counters()
    counters.copied([NOW, NOW - 15, NOW - 3_000, NOW - 10**7], 0, NOW)
    status.absorb([replace(report(), counters=counters)])
    (family,) = [m for m in Metrics([status]).collect() if m.name == "mirror_source_replication_latency_seconds"]
    buckets = {float(s.labels["le"]): s.value for s in family.samples if s.name.endswith("_bucket")}
    assert (buckets[0.001], buckets[0.01], buckets[0.02], buckets[5.0], buckets[600.0], buckets[math.inf]) == (
        1, 1, 2, 3, 3, 4,
    )  # fmt: skip
    assert list(buckets.values()) == sorted(buckets.values())


def test_what_is_not_known_yet_is_no_sample() -> None:
    status = FlowStatus("primary", "backup", "us")
    status.absorb([replace(report(), lag=-1, last_commit=0.0)])
    assert not {"mirror_source_topic_partition_lag", "mirror_last_commit_timestamp_seconds"} & scraped(status).keys()


def test_partitions_that_left_the_plan_are_forgotten() -> None:
    status = FlowStatus("primary", "backup", "us")
    status.absorb([report(1), report(1, partition=1)])
    status.planned(2, [Partition("topic", 1)])
    assert [tally.report.partition for tally in status.tallies()] == [Partition("topic", 1)]


def test_partitions_without_a_report_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    status = FlowStatus("primary", "backup", "us")
    status.planned(1, [Partition("topic", 0), Partition("topic", 1)])
    assert status.silent() == 0
    later = time.monotonic() + SILENCE + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    status.absorb([report(1)])
    assert status.silent() == 1


def test_a_report_of_another_version_is_passed_over() -> None:
    assert Report.decode(b'{"partition": ["topic", 0], "counters": {"unheard": 1}}') is None
    assert Report.decode(b"not json") is None
    assert Report.decode(report(1).encode()) == report(1)
