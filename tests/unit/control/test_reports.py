"""Reports and their counters, and what the service concludes from them."""

from __future__ import annotations

import json
import re
import time
from bisect import bisect_left
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mirror
from mirror.control.data_path import PATH_REASONS
from mirror.control.decisions import Incident
from mirror.control.reports import LATENCY_BUCKETS, Counters, Report
from mirror.decode import DecodeError
from mirror.model import Partition
from mirror.status.flow_status import FlowStatus
from mirror.timing import SILENCE

NOW = 1_800_000_000_000

ages = st.lists(
    st.integers(-10_000, 1_000_000) | st.sampled_from([int(b * 1000) for b in LATENCY_BUCKETS]), max_size=30
)


def report(records: int = 0, partition: int = 0, incarnation: str = "one", service_id: str = "us") -> Report:
    counters = Counters()
    counters.copied([NOW] * records, 10 * records, NOW)
    return Report(
        service_id=service_id,
        incarnation=incarnation,
        generation=3,
        partition=Partition("topic", partition),
        remote="primary.topic",
        state="running",
        reason="",
        position=records,
        lag=4,
        behind_since=1.0,
        last_commit=1.5,
        counters=counters,
    )


def test_a_report_survives_encoding() -> None:
    sent = report(7)
    assert Report.decode(sent.encode()) == sent
    assert sent.key() == b"topic/0"


def test_every_counter_survives_its_travel() -> None:
    """One that `decode` does not name would always read 0."""
    raw = json.loads(report(7).encode())
    raw["counters"] = {name: plus_one(value) for name, value in raw["counters"].items()}
    assert asdict(Report.decode(json.dumps(raw).encode()).counters) == raw["counters"]


def plus_one(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: plus_one(each) for name, each in value.items()}
    return [plus_one(each) for each in value] if isinstance(value, list) else value + 1


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


def test_another_leaders_tasks_do_not_count() -> None:
    status = FlowStatus("primary", "backup", "us")
    status.absorb([report(10, service_id="them")])
    assert status.partitions() == []


def test_partitions_that_left_the_plan_are_forgotten() -> None:
    status = FlowStatus("primary", "backup", "us")
    status.absorb([report(1), report(1, partition=1)])
    status.planned(2, [[Partition("topic", 1)]])
    assert [each.report.partition for each in status.partitions()] == [Partition("topic", 1)]
    status.absorb([replace(report(1), state="released")])  # its task's last report
    assert [each.report.partition for each in status.partitions()] == [Partition("topic", 1)]


def test_partitions_without_a_report_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    status = FlowStatus("primary", "backup", "us")
    status.planned(1, [[Partition("topic", 0)], [Partition("topic", 1)]])
    assert status.silent_partitions() == 0
    later = time.monotonic() + SILENCE + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    status.absorb([report(1)])
    assert status.silent_partitions() == 1


def test_only_the_last_report_of_an_ended_incarnation_counts() -> None:
    status = FlowStatus("primary", "backup", "us")
    status.absorb([report(10), report(25), report(3, incarnation="two")])
    assert [each.total.records for each in status.partitions()] == [28]
    status.absorb([report(30), report(5, incarnation="two")])
    assert [each.total.records for each in status.partitions()] == [30]


def test_reading_from_the_beginning_again_decreases_nothing() -> None:
    """After the end of the status topic was lost, the reports of a task come once more, from the first one."""
    status = FlowStatus("primary", "backup", "us")
    for number, known in ((10, 10), (25, 25), (10, 25), (25, 25), (26, 26)):
        status.absorb([report(number)])
        assert [each.total.records for each in status.partitions()] == [known]


@given(st.lists(ages, min_size=1, max_size=4))
def test_the_difference_of_two_counters(batches: list[list[int]]) -> None:
    earlier, later = Counters(), Counters()
    for number, batch in enumerate(batches):
        for counters in (earlier, later) if number == 0 else (later,):
            counters.copied([NOW - age for age in batch], 3, NOW, duration=0.25)
            counters.committed(len(batch), 0.25)
    later.fenced, later.lost["refused"] = 2, 7
    since = later.minus(earlier)
    assert since.transactions["committed"] == len(batches) - 1 == sum(since.duration_buckets) == sum(since.size_buckets)
    assert (since.records, since.fenced, since.lost["refused"]) == (sum(map(len, batches[1:])), 2, 7)
    again = earlier.plus(since)
    assert again.age_sum == pytest.approx(later.age_sum) and again.latency_sum == pytest.approx(later.latency_sum)
    assert replace(again, age_sum=0, latency_sum=0) == replace(later, age_sum=0, latency_sum=0)


def test_age_is_latency_without_the_transaction() -> None:
    counters = Counters()
    counters.copied([NOW - 1000, NOW - 3000, -1], 0, NOW, duration=0.5)
    assert (counters.latency_sum, counters.age_sum) == (4.0, 3.0)
    counters.copied([NOW - 100], 0, NOW, duration=0.5)  # the producer's clock is ahead of ours
    assert counters.age_sum == 3.0


def test_a_transaction_is_in_the_bucket_of_its_duration_and_size() -> None:
    counters = Counters()
    counters.committed(0, 0.001)
    counters.committed(10, 0.0011)
    counters.committed(1_000_000, 10_000.0)
    assert counters.transactions == {"committed": 3, "aborted": 0, "unknown": 0}
    assert [index for index, count in enumerate(counters.duration_buckets) if count] == [0, 1, 18]
    assert counters.size_buckets == [1, 1, 0, 0, 0, 0, 1]


def failed(reason: str) -> Report:
    return replace(report(1), state="retrying", reason=reason)


def test_failures_and_recoveries_are_remembered() -> None:
    status = FlowStatus("primary", "backup", "us")
    status.absorb([report(1), failed("too large"), failed("too large"), failed("denied"), report(2), report(3)])
    events = [(event.state, event.reason) for event in status.events()]
    assert events == [("running", ""), ("retrying", "too large")]


def test_a_retrying_partition_that_becomes_blocked_is_remembered() -> None:
    status = FlowStatus("primary", "backup", "us")
    status.absorb([failed("away"), replace(failed("gone"), state="blocked"), replace(failed("gone"), state="released")])
    assert [(event.state, event.reason) for event in status.events()] == [("blocked", "gone"), ("retrying", "away")]


def test_a_report_of_an_older_mirror_that_failed_is_retrying_or_waits_for_the_decision_that_it_names() -> None:
    older = replace(report(1), state="failed", reason="too large")
    assert Report.decode(older.encode()) == replace(older, state="retrying")
    incident = Incident("refused", "id", "remote", 7)
    blocked = replace(older, incident=incident)
    assert Report.decode(blocked.encode()) == replace(blocked, state="blocked")


def test_an_incident_of_many_partitions_is_one_event() -> None:
    status = FlowStatus("primary", "backup", "us")
    status.absorb([replace(failed("the target does not answer"), partition=Partition("t", n)) for n in range(50)])
    (event,) = status.events()
    assert (event.partition, event.others) == (Partition("t", 0), 49)
    status.absorb([replace(failed("denied"), partition=Partition("t", 70))])
    assert [event.reason for event in status.events()] == ["denied", "the target does not answer"]


def test_a_flow_says_what_it_waits_for() -> None:
    status = FlowStatus("primary", "backup", "us")
    assert (status.state, status.problem) == ("starting", "starting")
    status.active = True
    status.tell_problem("")
    assert (status.state, status.events()) == ("running", [])
    status.tell_problem("cluster backup does not answer")
    assert status.state == "retrying"
    status.tell_problem("")
    assert status.state == "running"
    assert [event.reason for event in status.events()] == ["", "cluster backup does not answer"]
    status.tell_problem("another flow is in its way", blocked=True)
    assert status.state == "blocked"
    assert status.events()[0].state == "blocked"
    status.stopped = True
    status.tell_problem("another service leads it now")
    assert status.state == "stopped"


def test_a_state_has_a_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    status = FlowStatus("primary", "backup", "us")
    clock = [1_000.0]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    for state, moment in (("running", 1_000.0), ("retrying", 1_010.0), ("retrying", 1_020.0)):
        clock[0] = moment
        status.absorb([replace(report(), state=state)])
    assert status.partitions()[0].since == 1_010.0


def test_a_report_of_an_older_mirror_has_no_open_transactions() -> None:
    sent = replace(report(7), stuck_since=12.5, held_back=9)
    assert Report.decode(sent.encode()) == sent
    older = json.loads(report(7).encode())
    del older["stuck_since"], older["held_back"]
    assert Report.decode(json.dumps(older).encode()) == report(7)


def test_fields_of_a_newer_mirror_in_a_report_are_ignored() -> None:
    raw = json.loads(report(7).encode())
    more = {**raw, "unheard": [1], "counters": {**raw["counters"], "unheard": 1}}
    assert Report.decode(json.dumps(more).encode()) == report(7)


@pytest.mark.parametrize("name", ["leader", "partition", "state", "position", "counters"])
def test_a_report_without_a_required_field_is_ignored(name: str) -> None:
    raw = json.loads(report(7).encode())
    del raw[name]
    with pytest.raises(DecodeError, match=f"{name} is missing"):
        Report.decode(json.dumps(raw).encode())


@pytest.mark.parametrize("changes", [{"partition": ["topic"]}, {"counters": []}, {"counters": None}])
def test_a_report_with_a_wrong_value_is_ignored(changes: dict[str, object]) -> None:
    with pytest.raises(DecodeError):
        Report.decode(json.dumps(json.loads(report(7).encode()) | changes).encode())


@pytest.mark.parametrize("value", [b"", b"not json", b"[]", b"null", b"\xff"])
def test_a_value_that_is_no_report_is_ignored(value: bytes) -> None:
    with pytest.raises(DecodeError):
        Report.decode(value)


def test_a_report_tells_the_data_path_and_an_older_one_does_not() -> None:
    sent = replace(report(7), path="batches", path_since=12.5, path_reason="x")
    assert Report.decode(sent.encode()) == sent
    older = json.loads(report(7).encode())
    del older["path"], older["path_since"], older["path_reason"]
    assert Report.decode(json.dumps(older).encode()) == report(7)


def test_each_reason_for_the_record_path_is_known_and_explained() -> None:
    """`boundary` keeps two for itself: they only say that it is too early to come back."""
    code = {each.name: each.read_text() for each in Path(mirror.__file__).parent.rglob("*.py")}
    named = {name for text in code.values() for name in re.findall(r'(?:LeaveBatchPath|_left)\(\s*"(\w+)"', text)}
    misfits = set(re.findall(r'^ +\("(\w+)", ', code["fitting.py"], re.MULTILINE))
    obstacles = set(re.findall(r'^ +"(\w+)": ', code["batch_path_obstacles.py"], re.MULTILINE))
    assert min(map(len, (named, misfits, obstacles))) > 5
    assert (named | misfits | obstacles) - {"no_room", "no_answer"} <= set(PATH_REASONS)
    section = (
        (Path(__file__).parents[3] / "docs" / "operations.md")
        .read_text()
        .partition("| reason | meaning |")[2]
        .partition("\n\n")[0]
    )
    explained = [name for row in section.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert explained == list(PATH_REASONS)
