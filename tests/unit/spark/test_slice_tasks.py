"""The process in which Spark plans Spark epochs: how often it looks for a plan, and its end."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from mirror.control.control_topics import PLAN_KEY
from mirror.control.plan import Plan
from mirror.service_settings import Log as LogSettings
from mirror.settings import Flow
from mirror.spark import slice_tasks
from mirror.spark.slice_tasks import SliceReader
from tests.unit.control.test_control_reader import Log, flow, topic  # noqa: F401  # fixtures

PLANNER = """
from mirror.service_settings import Log
from mirror.spark.slice_tasks import SliceReader

reader = SliceReader(None, "leader", Log("info", "json"))
{stop}
raise BrokenPipeError("Spark has closed the connection")
"""


def said(stop: str) -> str:
    code = PLANNER.format(stop=stop)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr


def test_a_planner_ends_without_a_word_once_it_was_stopped() -> None:
    assert "BrokenPipeError" in said("")
    assert said("reader.stop()") == ""


@dataclass
class Clock:
    """A clock that only goes on while somebody sleeps, or Spark waits before it asks again."""

    now: float = 1000.0
    looks: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def look(self, reader: SliceReader) -> bool:
        """True if there is a Spark epoch to run."""
        self.looks.append(self.now)
        start = {"spark_epoch": 0}
        found = reader.latestOffset(start, ReadAllAvailable()) != start
        self.now += 0.02
        return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(slice_tasks, "time", clock)
    return clock


def test_a_planner_without_a_plan_looks_for_one_about_once_a_second(
    flow: Flow,  # noqa: F811
    topic: Log,  # noqa: F811
    clock: Clock,
) -> None:
    reader = SliceReader(flow, "us", LogSettings("info", "json"))
    plan = Plan("us", 1, {}, (frozenset(),))
    while clock.now < 1060:
        assert not clock.look(reader)
    assert all(after - before <= 0.02 + 0.11 * (after - 1000) for before, after in pairwise(clock.looks))
    assert sum(look > 1030 for look in clock.looks) <= 30
    topic.entries.append((PLAN_KEY, plan.encode()))
    assert clock.look(reader)
    topic.entries.append((PLAN_KEY, replace(plan, generation=2, stop=True).encode()))
    before = clock.now
    assert not clock.look(reader)
    assert clock.now - before < 0.03, "it begins anew, so that a plan that follows soon is found soon"
