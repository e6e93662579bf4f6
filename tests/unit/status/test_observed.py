"""What a report and its age say of a partition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.status.observed import is_silent, lag, lag_seconds, observed_state, position, stuck_seconds
from mirror.timing import SILENCE
from tests.unit.control.test_reports import report

REPORT = replace(report(1), service_id="us", state="running", position=7, lag=3, behind_since=90.0, stuck_since=0.0)


@pytest.mark.parametrize(
    ("state", "age", "service_id", "observed"),
    [
        ("running", SILENCE, "us", "running"),
        ("running", SILENCE + 0.1, "us", "unassigned"),
        ("running", 0, "another service", "unassigned"),
        ("released", 0, "us", "unassigned"),
        ("of a newer mirror", 0, "us", "of a newer mirror"),
    ],
)
def test_a_state_counts_while_its_task_reports(state: str, age: float, service_id: str, observed: str) -> None:
    assert observed_state(replace(REPORT, state=state), age, service_id) == observed


def test_who_never_reported_is_silent() -> None:
    assert is_silent(None) and not is_silent(0.0)


def test_what_is_not_known_is_none() -> None:
    unknown = replace(REPORT, position=-1, lag=-1, behind_since=-1.0)
    assert (position(unknown), lag(unknown), lag_seconds(unknown, 100.0)) == (None, None, None)
    assert (position(REPORT), lag(REPORT), lag_seconds(REPORT, 100.0)) == (7, 3, 10.0)


def test_no_lag_is_no_wait_and_clocks_may_differ() -> None:
    assert lag_seconds(replace(REPORT, behind_since=0.0), 100.0) == 0.0
    assert lag_seconds(REPORT, 80.0) == 0.0, "the task's clock is ahead"
    assert stuck_seconds(REPORT, 100.0) == 0.0 and stuck_seconds(replace(REPORT, stuck_since=60.0), 100.0) == 40.0
