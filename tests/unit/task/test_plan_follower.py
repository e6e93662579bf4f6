"""What a task follows of a newer plan's settings, besides what it asks for at each use."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.control.partition_state import State
from mirror.control.reports import Counters, Report
from mirror.control.task_settings import TaskSettings
from mirror.model import Partition, Position, Topic
from mirror.task.plan_follower import PlanFollower
from tests.unit.test_naming import flow


@pytest.fixture
def level() -> Iterator[logging.Logger]:
    logger = logging.getLogger("mirror")
    before = logger.level
    yield logger
    logger.setLevel(before)


def test_the_log_level_and_the_warning_of_open_transactions_follow_the_plan(level: logging.Logger) -> None:
    level.setLevel("WARNING")
    changed = replace(flow(), open_transaction_warn_after=7.0)
    task: Any = SimpleNamespace(
        _plan=SimpleNamespace(settings=None, flow=flow()),
        _settings=None,
        _ends=SimpleNamespace(warn_after=1.0),
        _flow=flow(),
    )
    PlanFollower._follow_settings(task)
    assert (level.level, task._ends.warn_after) == (logging.WARNING, 1.0), "an older plan has none"
    task._plan = SimpleNamespace(settings=TaskSettings.of(changed, "debug"), flow=changed)
    PlanFollower._follow_settings(task)
    assert (level.level, task._ends.warn_after) == (logging.DEBUG, 7.0)
    level.setLevel("ERROR")
    PlanFollower._follow_settings(task)
    assert level.level == logging.ERROR, "only what has changed is set"


def test_who_waits_for_its_turn_learns_of_another_throttle() -> None:
    posted: list[str] = []
    copiers = {
        name: SimpleNamespace(post=lambda event, name=name: posted.append(name)) for name in ("running", "retrying")
    }
    follows: list[object] = []

    def follow(shares: object) -> bool:
        follows.append(shares)
        return True

    task: Any = SimpleNamespace(
        _plan=SimpleNamespace(shares={}),
        _services=SimpleNamespace(limits=SimpleNamespace(follow=follow)),
        _assigned=copiers,
    )
    PlanFollower._follow_throttle(task)
    assert follows == [{}] and posted == ["running", "retrying"]
    task._services.limits.follow = lambda _: False
    PlanFollower._follow_throttle(task)
    assert posted == ["running", "retrying"]


@pytest.mark.parametrize(
    ("state", "goes_on", "told"),
    [(State.RELEASED, True, "starting"), (State.RELEASED, False, "released"), (State.PAUSED, True, "paused")],
)
def test_only_a_partition_that_another_task_goes_on_with_is_told_as_released(
    state: State, goes_on: bool, told: str
) -> None:
    """A change of its data path hands it to this very task, and status would call it unassigned for a second."""
    here, reports, kept = Partition("t", 0), list[Report](), list[tuple[Partition, Topic, Position]]()
    topic, at = Topic("a.t", "id", 1, 1), Position(3, "id")
    report = Report("us", "one", 7, here, "a.t", state.value, "", 100, 5, 0.0, 0.0, Counters())
    snapshot = SimpleNamespace(state=state, has_become=state.__eq__, position=at)
    copier: Any = SimpleNamespace(partition=here, snapshot=snapshot, topic=topic)
    task: Any = SimpleNamespace(
        _being_let_go=[(copier, state)],
        _last=SimpleNamespace(keep=lambda *each: kept.append(each)),
        _paused={},
        _writer=SimpleNamespace(report=reports.extend),
        _reporter=SimpleNamespace(one=lambda _: report),
        _paths=SimpleNamespace(end=lambda *_: None),
        _services=SimpleNamespace(unconfirmed={}),
        _where=lambda _: {},
    )
    PlanFollower._finish_letting_go(task, {here} if goes_on else set())
    assert [each.state for each in reports] == [told] and not task._being_let_go
    assert kept == ([(here, topic, at)] if goes_on else []), "another task goes on from another position"


def test_a_decision_wakes_only_the_blocked_partition_that_it_is_about() -> None:
    """Each look of a blocked partition may read whole logs, so the others keep their back-off."""
    woken: list[Partition] = []
    blocked, also, running = Partition("t", 0), Partition("t", 1), Partition("t", 2)
    copiers = {
        each: SimpleNamespace(
            post=lambda _, each=each: woken.append(each),
            snapshot=SimpleNamespace(incident=None if each == running else "deleted"),
        )
        for each in (blocked, also, running)
    }
    first = object()
    task: Any = SimpleNamespace(_plan=SimpleNamespace(decisions={also: first}), _decisions={}, _assigned=copiers)
    PlanFollower._follow_decisions(task)
    assert woken == [also]
    task._plan.decisions = {also: first, blocked: object(), running: object()}
    for _ in range(2):
        PlanFollower._follow_decisions(task)
    assert woken == [also, blocked]
