"""What `mirror resume` decides about, and what it says of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from confluent_kafka.admin import OffsetSpec

from mirror.commands import decide
from mirror.commands.decide import DecisionOutcome, is_unable, line, obeys, waiting
from mirror.commands.status import ReportedPartition
from mirror.control.decisions import Choice, Decision, Incident
from mirror.control.orders import Scope
from mirror.errors import ClusterAway, ConfigError
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition
from tests.unit.control.test_reports import report
from tests.unit.test_naming import flow

GONE, LOST = Incident("position_missing", "id", "remote", 7), Incident("deleted", "id", "remote", 7)


def partition(topic: str, number: int, state: str, incident: Incident | None) -> ReportedPartition:
    reason = "the position is gone; decide with mirror resume" if incident else ""
    return ReportedPartition(topic, number, f"a.{topic}", state, reason, 7, 0, 0, None, None, 1.0, incident)


ALL = [
    partition("t", 0, "blocked", GONE),
    partition("t", 1, "blocked", LOST),
    partition("t", 2, "paused", None),
    partition("t", 3, "running", None),
    partition("u", 0, "paused", GONE),
    partition("u", 1, "blocked", None),  # it waits for a repair
    partition("u", 2, "unassigned", GONE),  # no service runs
]


@pytest.mark.parametrize(
    ("scope", "choice", "found"),
    [
        (Scope(), "continue", ["t-0", "u-0", "u-2"]),
        (Scope("t"), "start", ["t-0"]),
        (Scope("t"), "skip", ["t-1"]),
        (Scope("t", 3), "at", []),
        (Scope("t", 2), "skip", []),
    ],
)
def test_a_choice_is_about_partitions_with_such_an_incident(scope: Scope, choice: Choice, found: list[str]) -> None:
    assert [f"{p.topic}-{p.partition}" for p in waiting(ALL, scope, choice)] == found


def test_what_is_said_is_what_has_happened() -> None:
    assert line(ALL[0], "at", 5) == "t-0 continues at offset 5: the position is gone"
    assert line(ALL[4], "start", -1).startswith("u-0 stays paused; once it is resumed, it is copied again")
    nothing = DecisionOutcome(flow="a->b", scope=Scope("t"), decided=(), waiting=(), served=True)
    assert str(nothing) == "a->b: no partition of topic t waits for this decision, see mirror status --partitions"
    assert not nothing.failed and "paused" not in nothing.as_dict()
    done = replace(nothing, decided=("t-0 goes on",))
    assert str(done) == "a->b: t-0 goes on" and not done.failed
    late = replace(done, waiting=(Partition("t", 0),))
    assert late.failed and "not obeyed in time (t-0)" in str(late) and late.as_dict()["waiting"] == ["t-0"]
    later = replace(late, served=False)
    assert not later.failed and "when a service runs" in str(later)


def test_when_a_task_obeys() -> None:
    """It is enough that the partition does not wait for this decision any more."""
    decision = Decision(Partition("t", 0), GONE, "continue")
    here = replace(report(7), service_id="us", state="blocked", incident=GONE)
    assert not obeys(here, decision, "us")
    assert obeys(replace(here, incident=LOST), decision, "us")
    running = replace(here, state="running", incident=None)
    assert obeys(running, decision, "us") and not obeys(running, decision, "them")
    assert not obeys(replace(running, state="released"), decision, "us")
    assert not obeys(replace(running, state="retrying"), decision, "us"), "it may still come to wait for the decision"


def test_a_task_may_say_that_it_can_t_follow_a_decision() -> None:
    decision = Decision(Partition("t", 0), GONE, "continue", request="second")
    here = replace(report(7), state="blocked", incident=GONE, unfollowed="second")
    assert is_unable(here, decision)
    assert not is_unable(replace(here, unfollowed=""), decision), "it has not tried yet"
    assert not is_unable(replace(here, unfollowed="first"), decision), "it was another one that it could not follow"
    assert not is_unable(replace(here, incident=LOST), decision)
    assert not is_unable(replace(here, unfollowed=""), replace(decision, request="")), "of an older mirror"
    said = DecisionOutcome(
        flow="a->b",
        scope=Scope("t"),
        decided=("t-0 continues", "t-1 continues"),
        waiting=(Partition("t", 0), Partition("t", 1)),
        served=True,
        unable={Partition("t", 0): "it can't be told"},
    )
    assert said.failed and str(said).splitlines()[2:] == [
        "a->b: t-0 stays blocked: it can't be told",
        "a->b: not obeyed in time (t-1): they will when they can, see mirror status",
    ]
    assert said.as_dict()["unable"] == {"t-0": "it can't be told"}


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ({"t-0": 5}, {"t-0": 9}, None),
        ({"t-0": 7}, {"t-0": 9}, (ConfigError, "primary has offsets 7 to 9 of t-0")),
        ({"t-0": 5}, {}, (ClusterAway, "primary.*t-0 are not known")),
        ({}, {"t-0": 9}, (ClusterAway, "primary.*t-0 are not known")),
    ],
)
def test_an_outage_is_not_told_as_a_wrong_offset(
    first: dict[str, int],
    last: dict[str, int],
    expected: tuple[type[Exception], str] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A partition without a leader has no offsets to tell."""
    answers = iter((first, last))

    def offsets(_: ClusterAdmin, asked: Mapping[Partition, OffsetSpec]) -> dict[Partition, int]:
        answer = next(answers)
        return {each: answer[str(each)] for each in asked if str(each) in answer}

    monkeypatch.setattr(ClusterAdmin, "offsets", offsets)
    if expected is None:
        decide._check_offset(flow(), [Partition("t", 0)], 6)
        return
    error, said = expected
    with pytest.raises(error, match=said):
        decide._check_offset(flow(), [Partition("t", 0)], 6)
