"""Which partition the source's retention overtakes next."""

from __future__ import annotations

from dataclasses import replace

from mirror.control.reports import Report
from mirror.model import Partition
from mirror.status.retention import Expiry, Retention, retention
from mirror.topics.source_retention import kept_for
from tests.unit.control.test_reports import report

NOW = 10_000.0


def waits(topic: str, partition: int, since: float) -> Report:
    return replace(report(), partition=Partition(topic, partition), next_timestamp=since)


def test_the_fewest_seconds_and_the_largest_part_may_be_of_two_topics() -> None:
    reports = [waits("short", 0, NOW - 10), waits("long", 0, NOW - 800), waits("long", 1, NOW - 900)]
    found = retention(reports, {"short": 50, "long": 1_000}, NOW)
    assert found == Retention(first=Expiry("short", 0, 40, 0.2), worst=Expiry("long", 1, 100, 0.9))


def test_what_the_source_might_have_deleted_already_has_less_than_nothing_left() -> None:
    found = retention([waits("t", 0, NOW - 60)], {"t": 50}, NOW)
    assert found is not None and (found.first.seconds, found.worst.used) == (-10, 1.2)


def test_without_lag_or_a_known_record_or_a_retention_nothing_is_said() -> None:
    assert retention([], {"t": 50}, NOW) is None
    assert retention([waits("t", 0, 0.0), waits("t", 1, -1.0)], {"t": 50}, NOW) is None
    assert retention([waits("t", 0, 1.0)], {}, NOW) is None


def test_only_what_is_deleted_by_time_is_kept_for_a_time() -> None:
    week = {"cleanup.policy": "delete", "retention.ms": "604800000"}
    assert kept_for(week) == 604_800
    assert kept_for({**week, "cleanup.policy": "compact,delete"}) == 604_800
    assert kept_for({**week, "cleanup.policy": "compact"}) is None
    for never in ("-1", "0", "", "soon"):
        assert kept_for({**week, "retention.ms": never}) is None
    assert kept_for({}) is None, "the source does not give the configuration"
