"""What a partition's step does next, and when: tables."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product
from typing import Any

import pytest

from mirror.control.partition_state import State
from mirror.task.events import SETTLE_DELAY
from mirror.task.next_step import Step, View, next_step, next_wake

PACED, FULL = 0.5, 100
STARTING = View(State.STARTING)
RUNNING = View(State.RUNNING, has_producer=True, opened=True)
RETRYING = View(State.RETRYING)
BLOCKED = View(State.BLOCKED)

STEPS: list[tuple[str, View, dict[str, Any], Step, float | None]] = [
    # what it is, the view, what differs, the step, when to wake if nothing is done
    ("an idle partition has no producer", STARTING, {}, Step.WAIT, None),
    ("an idle partition keeps the one that it has", RUNNING, {}, Step.WAIT, None),
    ("the first record has it taken over", STARTING, {"records": 1}, Step.TAKE_OVER, PACED),
    ("what was taken over counts as running", STARTING, {"opened": True, "has_producer": True}, Step.SETTLE, None),
    ("or is taken over again", STARTING, {"opened": True}, Step.TAKE_OVER, None),
    ("records are copied", RUNNING, {"records": 1}, Step.COPY, PACED),
    ("a full batch need not wait", RUNNING, {"records": FULL}, Step.COPY, 0.0),
    ("unless it is throttled", RUNNING, {"records": FULL, "throttled": True}, Step.COPY, PACED),
    ("who waits for its turn opens no producer", STARTING, {"records": 1, "throttled": True}, Step.WAIT, PACED),
    ("but for a retry", RETRYING, {"records": 1, "throttled": True}, Step.TAKE_OVER, PACED),
    ("a throttle lets nobody stay", RUNNING, {"letting_go": State.PAUSED, "throttled": True}, Step.LET_GO, 0.0),
    ("a disturbed producer is replaced first", RUNNING, {"has_producer": False, "records": 1}, Step.TAKE_OVER, PACED),
    ("a pinned start is committed before any record", STARTING, {"pins_start": True}, Step.TAKE_OVER, PACED),
    ("then it settles", STARTING, {"pins_start": True, "has_producer": True}, Step.SETTLE, PACED),
    ("a doubted hint is looked at", STARTING, {"doubted": True}, Step.TAKE_OVER, PACED),
    ("an idle partition pays what it owes", RUNNING, {"owes": True}, Step.SETTLE, SETTLE_DELAY),
    ("without a producer too", STARTING, {"owes": True}, Step.TAKE_OVER, SETTLE_DELAY),
    ("a retry begins with a take-over", RETRYING, {}, Step.TAKE_OVER, PACED),
    ("and ends with what there is to do", RETRYING, {"has_producer": True}, Step.SETTLE, PACED),
    ("a retry copies", RETRYING, {"has_producer": True, "records": FULL}, Step.COPY, PACED),
    ("a blocked partition looks again", BLOCKED, {}, Step.TAKE_OVER, PACED),
    ("an old position needs a producer", STARTING, {"position_is_old": True}, Step.TAKE_OVER, None),
    ("and is committed again", RUNNING, {"position_is_old": True}, Step.RENEW, None),
    ("before a loss is faced", RUNNING, {"position_is_old": True, "lost": True}, Step.RENEW, PACED),
    ("before records are copied", RUNNING, {"position_is_old": True, "records": 1}, Step.RENEW, PACED),
    ("a loss needs the position that counts", BLOCKED, {"lost": True}, Step.TAKE_OVER, PACED),
    ("a loss is faced", RUNNING, {"lost": True}, Step.FACE_LOSS, PACED),
    ("after what came before it", RUNNING, {"lost": True, "sealed": True, "records": 1}, Step.COPY, PACED),
    ("but not after what came since", RUNNING, {"lost": True, "records": 1}, Step.FACE_LOSS, PACED),
    ("a source that refuses is asked again", STARTING, {"refused": True}, Step.ASK_SOURCE, PACED),
    ("without a producer", RETRYING, {"refused": True}, Step.ASK_SOURCE, PACED),
    ("after what is buffered", RUNNING, {"refused": True, "records": 1}, Step.COPY, PACED),
    ("after an old position", RUNNING, {"refused": True, "position_is_old": True}, Step.RENEW, PACED),
    ("after a pinned start", STARTING, {"refused": True, "pins_start": True}, Step.TAKE_OVER, PACED),
    ("after a loss", RUNNING, {"refused": True, "lost": True}, Step.FACE_LOSS, PACED),
    ("who is to go goes", RUNNING, {"letting_go": State.RELEASED, "records": FULL}, Step.LET_GO, 0.0),
    ("even if it is blocked", BLOCKED, {"letting_go": State.PAUSED, "lost": True}, Step.LET_GO, 0.0),
    ("a pause ends with a release", View(State.PAUSED), {"letting_go": State.RELEASED}, Step.LET_GO, 0.0),
    ("a paused partition rests", View(State.PAUSED), {"letting_go": State.PAUSED, "lost": True}, Step.WAIT, None),
    (
        "but keeps its position",
        View(State.PAUSED),
        {"letting_go": State.PAUSED, "position_is_old": True},
        Step.RENEW_PAUSED,
        None,
    ),
    (
        "a released partition does nothing",
        View(State.RELEASED),
        {"letting_go": State.PAUSED, "records": FULL, "position_is_old": True},
        Step.WAIT,
        None,
    ),
]


@pytest.mark.parametrize("view, changes, step, wake", [row[1:] for row in STEPS], ids=[row[0] for row in STEPS])
def test_the_next_step(view: View, changes: dict[str, Any], step: Step, wake: float | None) -> None:
    view = replace(view, **changes)
    assert next_step(view) is step
    assert next_wake(view, PACED, FULL) == wake


def every_view() -> list[View]:
    """All that there are, with one record or none."""
    flags = [each.name for each in fields(View) if each.name not in ("state", "letting_go", "records")]
    return [
        View(state, letting_go, records=records, **dict(zip(flags, values, strict=True)))
        for state, letting_go, records in product(State, (None, State.PAUSED, State.RELEASED), (0, 1))
        for values in product((False, True), repeat=len(flags))
    ]


def test_rules_that_hold_in_every_view() -> None:
    owner = {Step.RENEW, Step.FACE_LOSS, Step.COPY, Step.SETTLE}
    for view in every_view():
        step = next_step(view)
        if step in owner:
            assert view.has_producer, "only an owner writes"
        if view.letting_go is not None or view.state is State.RELEASED:
            assert step in (Step.WAIT, Step.LET_GO, Step.RENEW_PAUSED), "nothing is begun any more"
        if step is Step.COPY:
            assert view.records and not view.position_is_old and (view.sealed or not view.lost)
        if step is Step.TAKE_OVER:
            assert not view.has_producer
            after = next_step(replace(view, has_producer=True, opened=True))
            assert after in owner, "a producer is opened only for something that it has to do"


def test_a_step_ends() -> None:
    """What a take-over or a renewal may follow can't have them come again and again."""
    for view in every_view():
        made: list[Step] = []
        while not made or not made[-1].is_last:
            made.append(next_step(view))
            if made[-1] is Step.TAKE_OVER:
                view = replace(view, has_producer=True, opened=True)  # noqa: PLW2901
            if made[-1] is Step.RENEW:
                view = replace(view, position_is_old=False)  # noqa: PLW2901
            assert len(made) <= 3


def test_who_waits_for_nothing_is_not_woken_in_vain() -> None:
    """Only a partition that has something to do wakes by itself. A throttled one has when its turn has come."""
    for view in every_view():
        if next_wake(view, PACED, FULL) is not None:
            assert next_step(replace(view, throttled=False)) is not Step.WAIT
