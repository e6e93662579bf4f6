"""The bounds between times that depend on each other: whoever changes one sees which others follow."""

from __future__ import annotations

from mirror.timing import ALIVE, RECENT_REPORTS, REPORT_ALL_INTERVAL, REPORT_INTERVAL, SILENCE


def test_each_partition_is_among_the_recent_reports_of_two_tasks() -> None:
    assert RECENT_REPORTS >= 2 * (REPORT_ALL_INTERVAL / REPORT_INTERVAL + 1)


def test_a_task_that_misses_two_rounds_of_reports_is_not_silent() -> None:
    assert SILENCE >= 2 * REPORT_ALL_INTERVAL + REPORT_INTERVAL


def test_a_flow_whose_tasks_are_silent_is_not_gone_yet() -> None:
    assert ALIVE >= 1.5 * SILENCE
