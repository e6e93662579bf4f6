"""Which action a partition's step takes next, and when: tables."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product
from typing import Any

import pytest

from mirror.control.partition_state import State
from mirror.task.events import SETTLE_DELAY
from mirror.task.next_action import Action, DecisionView, next_action, next_wake

PACED, FULL = 0.5, 100
STARTING = DecisionView(State.STARTING)
RUNNING = DecisionView(State.RUNNING, may_transact=True, has_producer=True)
RETRYING = DecisionView(State.RETRYING)
BLOCKED = DecisionView(State.BLOCKED)

ACTIONS: list[tuple[str, DecisionView, dict[str, Any], Action, float | None]] = [
    # what it is, the view, what differs, the action, when to wake if nothing is done
    ("an idle partition has no producer", STARTING, {}, Action.WAIT, None),
    ("an idle partition keeps the one that it has", RUNNING, {}, Action.WAIT, None),
    ("the first record has it taken over", STARTING, {"records": 1}, Action.TAKE_OVER, PACED),
    (
        "what was taken over counts as running",
        STARTING,
        {"has_producer": True, "may_transact": True},
        Action.SETTLE,
        None,
    ),
    ("or is taken over again", STARTING, {"has_producer": True}, Action.TAKE_OVER, None),
    ("records are copied", RUNNING, {"records": 1}, Action.COPY, PACED),
    ("a full batch need not wait", RUNNING, {"records": FULL}, Action.COPY, 0.0),
    ("unless it is throttled", RUNNING, {"records": FULL, "throttled": True}, Action.COPY, PACED),
    ("who waits for its turn opens no producer", STARTING, {"records": 1, "throttled": True}, Action.WAIT, PACED),
    ("but for a retry", RETRYING, {"records": 1, "throttled": True}, Action.TAKE_OVER, PACED),
    ("a throttle lets nobody stay", RUNNING, {"requested_state": State.PAUSED, "throttled": True}, Action.LET_GO, 0.0),
    ("a disturbed producer is replaced first", RUNNING, {"may_transact": False, "records": 1}, Action.TAKE_OVER, PACED),
    ("a pinned start is committed before any record", STARTING, {"must_commit_start": True}, Action.TAKE_OVER, PACED),
    ("then it settles", STARTING, {"must_commit_start": True, "may_transact": True}, Action.SETTLE, PACED),
    ("a doubted hint is looked at", STARTING, {"hint_doubted": True}, Action.TAKE_OVER, PACED),
    ("an idle partition pays what it owes", RUNNING, {"owes": True}, Action.SETTLE, SETTLE_DELAY),
    ("without a producer too", STARTING, {"owes": True}, Action.TAKE_OVER, SETTLE_DELAY),
    ("a retry begins with a take-over", RETRYING, {}, Action.TAKE_OVER, PACED),
    ("and ends with what there is to do", RETRYING, {"may_transact": True}, Action.SETTLE, PACED),
    ("a retry copies", RETRYING, {"may_transact": True, "records": FULL}, Action.COPY, PACED),
    ("a blocked partition looks again", BLOCKED, {}, Action.TAKE_OVER, PACED),
    ("an old position needs a producer", STARTING, {"position_is_old": True}, Action.TAKE_OVER, None),
    ("and is committed again", RUNNING, {"position_is_old": True}, Action.RENEW, None),
    ("before a loss is handled", RUNNING, {"position_is_old": True, "reading_lost": True}, Action.RENEW, PACED),
    ("before records are copied", RUNNING, {"position_is_old": True, "records": 1}, Action.RENEW, PACED),
    ("a loss needs the position that counts", BLOCKED, {"reading_lost": True}, Action.TAKE_OVER, PACED),
    ("a loss is handled", RUNNING, {"reading_lost": True}, Action.HANDLE_LOSS, PACED),
    ("after what came before it", RUNNING, {"reading_lost": True, "sealed": True, "records": 1}, Action.COPY, PACED),
    ("but not after what came since", RUNNING, {"reading_lost": True, "records": 1}, Action.HANDLE_LOSS, PACED),
    ("a source that refuses is asked again", STARTING, {"source_refuses": True}, Action.SEEK_AND_WAIT, PACED),
    ("without a producer", RETRYING, {"source_refuses": True}, Action.SEEK_AND_WAIT, PACED),
    ("after what is buffered", RUNNING, {"source_refuses": True, "records": 1}, Action.COPY, PACED),
    ("after an old position", RUNNING, {"source_refuses": True, "position_is_old": True}, Action.RENEW, PACED),
    ("after a pinned start", STARTING, {"source_refuses": True, "must_commit_start": True}, Action.TAKE_OVER, PACED),
    ("after a loss", RUNNING, {"source_refuses": True, "reading_lost": True}, Action.HANDLE_LOSS, PACED),
    ("who is to go goes", RUNNING, {"requested_state": State.RELEASED, "records": FULL}, Action.LET_GO, 0.0),
    ("even if it is blocked", BLOCKED, {"requested_state": State.PAUSED, "reading_lost": True}, Action.LET_GO, 0.0),
    (
        "a pause ends with a release",
        DecisionView(State.PAUSED),
        {"requested_state": State.RELEASED},
        Action.LET_GO,
        0.0,
    ),
    (
        "a paused partition rests",
        DecisionView(State.PAUSED),
        {"requested_state": State.PAUSED, "reading_lost": True},
        Action.WAIT,
        None,
    ),
    (
        "but keeps its position",
        DecisionView(State.PAUSED),
        {"requested_state": State.PAUSED, "position_is_old": True},
        Action.RENEW_PAUSED,
        None,
    ),
    (
        "a pause commits the start",
        STARTING,
        {"requested_state": State.PAUSED, "must_commit_start": True},
        Action.RENEW_PAUSED,
        PACED,
    ),
    ("unless it can't", BLOCKED, {"requested_state": State.PAUSED, "must_commit_start": True}, Action.LET_GO, 0.0),
    (
        "a released partition does nothing",
        DecisionView(State.RELEASED),
        {"requested_state": State.PAUSED, "records": FULL, "position_is_old": True},
        Action.WAIT,
        None,
    ),
]


@pytest.mark.parametrize("view, changes, action, wake", [row[1:] for row in ACTIONS], ids=[row[0] for row in ACTIONS])
def test_the_next_action(view: DecisionView, changes: dict[str, Any], action: Action, wake: float | None) -> None:
    view = replace(view, **changes)
    assert next_action(view) is action
    assert next_wake(view, PACED, FULL) == wake


def every_view() -> list[DecisionView]:
    """All that there are, with one record or none."""
    flags = [each.name for each in fields(DecisionView) if each.name not in ("state", "requested_state", "records")]
    return [
        DecisionView(state, requested_state, records=records, **dict(zip(flags, values, strict=True)))
        for state, requested_state, records in product(State, (None, State.PAUSED, State.RELEASED), (0, 1))
        for values in product((False, True), repeat=len(flags))
    ]


def test_rules_that_hold_in_every_view() -> None:
    owner = {Action.RENEW, Action.HANDLE_LOSS, Action.COPY, Action.SETTLE}
    for view in every_view():
        action = next_action(view)
        if action in owner:
            assert view.may_transact, "only an owner writes"
        if view.requested_state is not None or view.state is State.RELEASED:
            assert action in (Action.WAIT, Action.LET_GO, Action.RENEW_PAUSED), "nothing is begun any more"
        if action is Action.COPY:
            assert view.records and not view.position_is_old and (view.sealed or not view.reading_lost)
        if action is Action.TAKE_OVER:
            assert not view.may_transact
            after = next_action(replace(view, may_transact=True, has_producer=True))
            assert after in owner, "a producer is has_producer only for something that it has to do"


def test_a_step_ends() -> None:
    """What a take-over or a renewal may follow can't have them come again and again."""
    for view in every_view():
        made: list[Action] = []
        while not made or not made[-1].is_last:
            made.append(next_action(view))
            if made[-1] is Action.TAKE_OVER:
                view = replace(view, may_transact=True, has_producer=True)  # noqa: PLW2901
            if made[-1] is Action.RENEW:
                view = replace(view, position_is_old=False)  # noqa: PLW2901
            assert len(made) <= 3


def test_who_waits_for_nothing_is_not_woken_in_vain() -> None:
    """Only a partition that has something to do wakes by itself. A throttled one wakes when its turn has come."""
    for view in every_view():
        if next_wake(view, PACED, FULL) is not None:
            assert next_action(replace(view, throttled=False)) is not Action.WAIT
