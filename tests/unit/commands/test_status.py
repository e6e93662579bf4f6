"""What `mirror status` makes of plans and reports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.commands.status import ReportedFlow, reported_flow, shown
from mirror.control.control_topics import DatedReport
from mirror.control.plan import Plan
from mirror.control.reports import Counters, Report
from mirror.model import Partition, Topic
from mirror.text import moment
from mirror.timing import SILENCE

NOW = 1_800_000_000.0
PLAN = Plan("us", 7, {"t": Topic("a.t", "id", 2, 2)}, (frozenset({Partition("t", 0)}), frozenset({Partition("t", 1)})))


def report(
    partition: int, state: str = "running", records: int = 0, service_id: str = "us", reason: str = ""
) -> Report:
    counters = Counters(records=records)
    where = Partition("t", partition)
    return Report(service_id, "one", 7, where, "a.t", state, reason, 100, 5, NOW - 8, NOW - 3, counters)


def seen(*heard: tuple[Report, float], plan: Plan = PLAN) -> ReportedFlow:
    return reported_flow("a->b", plan, (), [DatedReport(each, NOW - age) for each, age in heard], NOW)


def test_a_flow_that_is_well() -> None:
    found = seen((report(0, records=100), 4), (report(0, records=300), 2), (report(1, "paused"), 3))
    assert found.state == "running" and found.well
    first, second = found.partitions
    assert (first.state, first.records_per_second, first.lag, first.position) == ("running", 100.0, 5, 100)
    assert first.lag_seconds == 8
    assert (second.state, second.records_per_second) == ("paused", None)
    assert "a.t" in shown(found, False) and "t-1" in shown(found, True)


def test_what_is_held_back_on_the_source_has_a_reason_and_is_well() -> None:
    held = replace(report(1, reason="7 offsets are held back"), held_back=7)
    found = seen((report(0), 1), (held, 1))
    assert found.well and [p.held_back for p in found.partitions] == [0, 7]
    assert "7 offsets are held back" in shown(found, False) and "7 offsets are held back" in shown(found, True)


@pytest.mark.parametrize("state", ["retrying", "blocked", "something new"])
def test_what_an_error_has_stopped_is_not_well(state: str) -> None:
    found = seen((report(0), 1), (report(1, state, reason="too large"), 1))
    assert found.state == "running" and not found.well
    assert "too large" in shown(found, False)


def test_who_says_nothing_is_unassigned() -> None:
    assert [p.state for p in seen((report(0), 1)).partitions] == ["running", "unassigned"]
    old = seen((report(0), SILENCE + 1), (report(1), 1))
    assert [p.state for p in old.partitions] == ["unassigned", "running"] and not old.well
    assert [p.state for p in seen((report(0, service_id="them"), 1), (report(1), 1)).partitions] == [
        "unassigned",
        "running",
    ]


def test_a_flow_that_does_not_run() -> None:
    assert seen().state == "silent"
    assert seen((report(0), SILENCE + 1), (report(1), SILENCE + 1)).state == "silent"
    stopped = seen((report(0), 1), (report(1), 1), plan=replace(PLAN, stop=True))
    assert stopped.state == "stopped" and not stopped.well


def test_which_data_path_a_partition_takes_since_when_and_why() -> None:
    here = replace(report(0), path="batches", path_since=NOW - 60)
    there = replace(report(1), path_since=NOW - 30, path_reason="log_append_time")
    found = seen((here, 1), (there, 1))
    assert [(p.path, p.path_since, p.path_reason) for p in found.partitions] == [
        ("batches", NOW - 60, ""),
        ("records", NOW - 30, "log_append_time"),
    ]
    text = shown(found, True)
    assert "batches" in text and f"records: log_append_time since {moment(NOW - 30)}" in text
    assert found.partitions[1].as_dict()["path_reason"] == "log_append_time"
    assert seen((report(0), 1)).partitions[0].path_since is None, "an older mirror does not tell"
