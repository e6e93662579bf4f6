"""What a task follows of a newer plan's settings, besides what it asks for at each use."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.control.task_settings import TaskSettings
from mirror.task.supervisor import Supervisor
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
    Supervisor._follow_settings(task)
    assert (level.level, task._ends.warn_after) == (logging.WARNING, 1.0), "an older plan has none"
    task._plan = SimpleNamespace(settings=TaskSettings.of(changed, "debug"), flow=changed)
    Supervisor._follow_settings(task)
    assert (level.level, task._ends.warn_after) == (logging.DEBUG, 7.0)
    level.setLevel("ERROR")
    Supervisor._follow_settings(task)
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
    Supervisor._follow_throttle(task)
    assert follows == [{}] and posted == ["running", "retrying"]
    task._services.limits.follow = lambda _: False
    Supervisor._follow_throttle(task)
    assert posted == ["running", "retrying"]
