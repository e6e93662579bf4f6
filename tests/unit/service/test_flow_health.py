"""What is said of lost, silent and hung tasks, and of topics that are refused."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.errors import ClusterAway, FlowError
from mirror.model import Partition
from mirror.service.flow_health import FlowHealth
from mirror.settings import Flow
from mirror.status.flow_status import FlowStatus
from mirror.target import timestamps
from mirror.timing import SILENCE
from tests.unit.test_naming import flow

SILENT = f"without a task for {SILENCE:.0f} s"


class World:
    """A flow with two partitions in two slices; no task has ever reported anything."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.lost: list[int] = []
        self.aborted = 0
        self.away: ClusterAway | None = None  # why the status topic can't be read
        self.failed = ""  # what Spark knows of failed attempts
        self.refused: dict[str, Any] = {}
        self.replacing: list[str] = []
        self.unnamed: dict[str, list[str]] = {}
        self.status = FlowStatus("primary", "backup", "us")
        flow_leader: Any = SimpleNamespace(
            control=SimpleNamespace(plan=None, verified=None), lost_tasks=lambda: self.lost
        )
        replacing = SimpleNamespace(refused=self.replacing)
        monitor: Any = SimpleNamespace(refused=self.refused, timestamps=replacing, unnamed=self.unnamed)
        query: Any = SimpleNamespace(can_run=lambda: True, abort=self.abort, failure_reason=lambda: self.failed)
        self.health = FlowHealth(flow(), self.status, flow_leader, monitor, query)

    def monotonic(self) -> float:
        return self.now

    def abort(self) -> None:
        self.aborted += 1

    def status_reader(self, _: Flow) -> SimpleNamespace:
        if self.away:
            raise self.away
        return SimpleNamespace(close=lambda: None)

    def plan(self, *slices: int) -> None:
        self.status.planned(1, [[Partition("orders", number)] for number in slices])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr("mirror.service.flow_health.time.monotonic", world.monotonic)
    monkeypatch.setattr("mirror.service.flow_health.StatusReader", world.status_reader)
    world.plan(0, 1)
    return world


def test_a_flow_without_tasks_has_a_problem_and_one_with_some_is_lacking(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.health.begin()
    assert (world.status.problem, world.status.lacking) == ("", "")
    world.now += SILENCE + 1
    world.health.check()
    assert (world.status.problem, world.status.lacking) == (f"2 partitions {SILENT}", "")
    world.plan(0, 1, 2)
    world.health.check()
    assert (world.status.problem, world.status.lacking) == ("", f"2 partitions {SILENT}")
    assert [record.getMessage() for record in caplog.records] == ["partitions without a task"], "once"


def test_attempts_that_failed_before_they_reached_mirror_are_told(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.failed = "Spark has started tasks again after 700 attempts that failed, e.g.: OptionalDataException"
    world.health.begin()
    assert not world.status.problem, "attempts of weeks add up, and are no news while all tasks report"
    world.now += SILENCE + 1
    world.health.check()
    assert world.status.problem == f"2 partitions {SILENT} ({world.failed})"
    assert [record.__dict__["reason"] for record in caplog.records] == [world.failed]
    told, world.failed = world.status.problem, world.failed.replace("700", "1,400")
    world.health.check()
    assert world.status.problem == told, "each change would be an event of its own"


def test_tasks_that_stay_silent_are_started_again(world: World) -> None:
    world.now += SILENCE + 1
    world.health.begin()
    for _ in range(2):
        world.health.check()
        assert world.aborted == 0
        world.now += SILENCE / 2
    with pytest.raises(FlowError, match="2 tasks did not answer: all of its tasks are started again"):
        world.health.check()
    assert world.aborted == 1


def test_tasks_that_nobody_can_hear_run_on(world: World) -> None:
    """They may copy, and new ones would wait for the status topic before they copy."""
    world.away = ClusterAway("backup", "mirror-status.primary.internal can't be read")
    world.now += SILENCE + 1
    world.health.begin()
    world.health.check()
    world.now += SILENCE
    with pytest.raises(ClusterAway, match="mirror-status"):
        world.health.check()
    assert world.aborted == 0


def test_refused_topics_are_lacking(world: World) -> None:
    refusal: Any = SimpleNamespace(str=lambda: "policy violation")
    world.refused |= {"b": refusal, "a": refusal}
    world.replacing.append("c")
    world.unnamed |= {"too long": ["e", "d"]}
    world.health.check()
    assert world.status.refused == ["b", "a", "c", "e", "d"]
    names, creates, replaces = world.status.lacking.split("; ", 2)
    assert names == "2 topics can't be mirrored, e.g. d: too long"
    assert creates == "the target refuses to create or grow 2 topics, e.g. a: policy violation"
    assert replaces == f"nothing is copied to 1 remote topic, e.g. c: {timestamps.REASON}"


def test_a_lost_task_is_logged_and_counted(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.lost = [1]
    with caplog.at_level(logging.WARNING):
        world.health.check()
    assert [record.getMessage() for record in caplog.records] == ["task lost, another one has taken its slice over"]
    assert world.status.lost_tasks == 1
