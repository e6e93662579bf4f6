"""Which positions are trusted, and what a decision does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.control.decisions import POSITION_KINDS, Choice, Decision, Incident, chosen, decided, doubt, explain
from mirror.control.next_plan import retire
from mirror.control.plan import Plan
from mirror.control.reported_positions import newest_positions, of_this_copy
from mirror.control.reports import Counters, Report
from mirror.model import MapEnd, Partition, Position, Topic

TOPIC = Topic("us.orders", "source-1", 1, 1, "remote-1")
HERE = Position(100, "source-1", remote_id="remote-1")
BEFORE = Position(100, "source-1")  # of a mirror that did not record the remote topic's id
FOREIGN = Position(5, "")

# found position, newest known position, whether the remote partition has records, kind of incident
CASES: list[tuple[Position | None, Position | None, bool, str | None]] = [
    (None, None, False, None),
    (None, None, True, "unknown_records"),
    (None, HERE, False, "position_missing"),
    (None, replace(HERE, remote_id="remote-0"), False, "remote_topic"),
    (None, BEFORE, False, "position_missing"),
    (HERE, None, True, None),
    (HERE, HERE, True, None),
    (HERE, replace(HERE, offset=90), True, None),
    (HERE, replace(HERE, offset=110), True, "position_back"),
    (replace(HERE, resets=1), replace(HERE, offset=110), True, None),
    (HERE, replace(HERE, offset=90, resets=1), True, "position_back"),
    (HERE, replace(HERE, offset=110, topic_id="source-0"), True, None),
    (HERE, replace(HERE, offset=90, remote_id="remote-0"), True, None),
    (BEFORE, None, True, None),
    (replace(HERE, remote_id="remote-0"), None, True, "remote_topic"),
    (FOREIGN, None, True, "position_foreign"),
    (FOREIGN, HERE, True, "position_foreign"),
    (FOREIGN, replace(HERE, remote_id="remote-0"), True, "remote_topic"),
    (replace(HERE, topic_id="source-0"), HERE, True, "position_back"),  # the copy of the present topic is known
    (replace(HERE, topic_id="source-0", resets=1), HERE, True, None),
    (replace(HERE, topic_id="source-0"), None, True, None),  # a loss on the source, which is judged elsewhere
]


@pytest.mark.parametrize(("found", "newest", "records", "wrong"), CASES)
def test_which_positions_are_trusted(
    found: Position | None, newest: Position | None, records: bool, wrong: str | None
) -> None:
    incident = doubt(found, newest, TOPIC, lambda: records)
    assert (incident.kind if incident else None) == wrong
    if incident is not None:
        assert "mirror resume" in explain(incident, found, TOPIC, "group")


def test_every_kind_of_incident_occurs() -> None:
    assert {wrong for *_, wrong in CASES} == {None, *POSITION_KINDS}


def test_a_plan_without_ids_blocks_nothing() -> None:
    """It was made by an older leader."""
    assert doubt(HERE, None, replace(TOPIC, remote_id=""), lambda: True) is None


positions = st.builds(
    Position, st.integers(0, 50), st.just("source-1"), remote_id=st.just("remote-1"), resets=st.integers(0, 2)
)


@given(st.none() | positions, st.none() | positions, st.booleans(), st.sampled_from(["continue", "start", "at"]))
def test_a_decision_applies_to_its_own_incident_only(
    found: Position | None, newest: Position | None, records: bool, choice: Choice
) -> None:
    incident = doubt(found, newest, TOPIC, lambda: records)
    if incident is None:
        return
    decision = Decision(Partition("orders", 0), incident, choice, 7)
    assert decided(incident, decision) == choice
    at = chosen(choice, 7, found, newest, TOPIC) or Position(0, "source-1", remote_id="remote-1", resets=0)
    assert doubt(at, at, TOPIC, lambda: records) is None, "with the chosen position it is over"
    assert doubt(at, newest, TOPIC, lambda: records) is None, "though an old report says otherwise"
    for again in (doubt(None, at, TOPIC, lambda: True), doubt(FOREIGN, at, TOPIC, lambda: True)):
        assert again is not None
        assert decided(again, decision) is None, "it was for the first incident"


def test_a_decision_about_unknown_records_is_for_one_copy_into_one_remote_topic() -> None:
    """Another group of the flow, or another remote topic, makes another copy. It has no position either."""
    incident = doubt(None, None, TOPIC, lambda: True, "group")
    assert incident is not None and incident.kind == "unknown_records"
    decision = Decision(Partition("orders", 0), incident, "at", 7)
    assert decided(doubt(None, None, TOPIC, lambda: True, "group") or incident, decision) == "at"
    for topic, group in ((TOPIC, "another"), (replace(TOPIC, remote_id="remote-2"), "group")):
        again = doubt(None, None, topic, lambda: True, group)
        assert again is not None and decided(again, decision) is None


def test_where_copying_continues_after_a_decision() -> None:
    newest, older = replace(HERE, resets=2), replace(HERE, offset=90, resets=2)
    assert chosen("continue", -1, older, newest, TOPIC) == replace(newest, resets=3)
    assert chosen("continue", -1, FOREIGN, newest, TOPIC) == replace(newest, resets=3)
    assert chosen("continue", -1, FOREIGN, None, TOPIC) == Position(5, "source-1", remote_id="remote-1", resets=1)
    assert chosen("continue", -1, None, None, TOPIC) is None
    moved = replace(newest, remote_id="remote-0", epoch=4)
    assert chosen("continue", -1, None, moved, TOPIC) == replace(
        newest, epoch=4, epoch_before_markers=4, resets=3, map_end=MapEnd()
    )
    assert chosen("at", 7, older, newest, TOPIC) == Position(7, "source-1", remote_id="remote-1", resets=3)


words = st.text("ab/+=-_", max_size=5)
incidents = st.builds(Incident, words, words, words, st.integers(-1, 2**63 - 1), st.integers(0, 9), words)


@given(
    st.builds(Partition, st.sampled_from(["a", "b.c"]), st.integers(0, 9)), incidents, st.integers(-1, 2**63 - 1), words
)
def test_a_decision_survives_encoding(partition: Partition, incident: Incident, offset: int, request: str) -> None:
    decision = Decision(partition, incident, "at", offset, request)
    assert Decision.decode(decision.key(), decision.encode()) == decision


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"decision/", b'{"incident":["a","b","c",1,0],"action":"at","offset":1}'),
        (b"decision/a", b'{"incident":["a","b","c",1,0],"action":"at","offset":1}'),
        (b"decision/a/*", b'{"incident":["a","b","c",1,0],"action":"at","offset":1}'),
        (b"decision/a/3", b'{"incident":["a","b","c",1,0],"action":"drop","offset":1}'),
        (b"decision/a/3", b'{"incident":["a","b"],"action":"at","offset":1}'),
        (b"decision/a/3", b'{"position":1}'),
    ],
)
def test_an_invalid_decision_is_refused(key: bytes, value: bytes) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        Decision.decode(key, value)


def report(offset: int, topic_id: str = "source-1", resets: int = 0, number: int = 0) -> Report:
    where = Partition("orders", number)
    return Report(
        "us", "me", 1, where, "us.orders", "running", "", offset, 0, 0.0, 1.0, Counters(),
        topic_id=topic_id, remote_id="remote-1", resets=resets,
    )  # fmt: skip


def test_a_topic_that_got_another_name_has_no_position_yet() -> None:
    """It is copied anew. A position of the former copy would pass over all of its records."""
    reports = [report(10), replace(report(20), group="another"), replace(report(30), remote="renamed")]
    here = Partition("orders", 0)
    assert [each.position for each in of_this_copy(reports, "ours", {here: "us.orders"})] == [10]
    assert [each.position for each in of_this_copy(reports, "ours", {here: "renamed"})] == [30]
    assert not list(of_this_copy(reports, "ours", {here: "new"}))


def test_the_newest_report_of_a_position() -> None:
    """An older task may still report, and an offset that was never committed is no position."""
    reports = [report(10), report(30), report(20), report(5, topic_id="", number=1), report(-1, number=2)]
    assert newest_positions(reports) == {Partition("orders", 0): Position(30, "source-1", remote_id="remote-1")}
    assert newest_positions([*reports, report(3, resets=1)])[Partition("orders", 0)].progress == (1, 3)
    assert newest_positions([*reports, report(3, topic_id="source-2")])[Partition("orders", 0)].offset == 3


def test_a_topic_that_left_the_plan_is_retired_while_its_remote_topic_exists() -> None:
    gone, other = replace(TOPIC, remote="us.gone"), replace(TOPIC, remote="us.other", remote_id="remote-2")
    plan = Plan("us", 1, {"orders": TOPIC, "gone": gone, "other": other}, ())
    ids = {"us.orders": "remote-1", "us.other": "remote-3"}
    retired = retire({}, plan, ids)
    assert retired == {"orders": TOPIC}
    after = Plan("us", 2, {}, (), retired=retired)
    assert retire({}, after, ids) == retired
    assert retire({"orders": TOPIC}, after, ids) == {}
    assert Plan.decode(after.encode()) == after
