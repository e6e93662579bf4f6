"""A report is made of the snapshot, and is sent when it says something new."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.control.data_path import DataPath
from mirror.control.partition_state import State
from mirror.control.reports import Counters, Report
from mirror.kafka.throttling import REPORTED_FOR
from mirror.model import Partition, Position, Topic
from mirror.task.known_positions import StartPoint
from mirror.task.partition_snapshot import PartitionSnapshot
from mirror.task.reporter import Reporter
from mirror.timing import REPORT_ALL_INTERVAL
from tests.unit.task.test_known_positions import SetClock
from tests.unit.test_naming import flow

HERE = Partition("t", 0)
SEEN = PartitionSnapshot(
    state=State.RUNNING,
    reason="",
    incident=None,
    position=Position(10, "id", remote_id="remote-id", resets=2),
    last_commit=1_000.0,
    renew_at=None,
    counters=Counters(records=3),
    foreign=(5, 6),
    has_producer=True,
    last_used=0.0,
    throttled_until=0.0,
    throttle="",
)


class World:
    """One partition, the source's end, and a clock."""

    def __init__(self) -> None:
        self.copier: Any = SimpleNamespace(
            partition=HERE,
            topic=Topic("r", "id", 1, 1),
            incarnation="me",
            start=StartPoint(4),
            snapshot=SEEN,
            drained_to=None,
            hang_reason="",
            head_timestamp=None,
        )
        ends: Any = SimpleNamespace(stable={HERE: 12}, hold=lambda _: None)
        self.ends = ends
        plan: Any = SimpleNamespace(service_id="us", generation=7, flow=flow())
        throttles: Any = SimpleNamespace(active=["target"], reason=lambda side: f"slow {side}")
        path = DataPath("batches", 7.0, "")
        self.clock = SetClock()
        self.clock.time = 5_000.0
        self.reporter = Reporter(plan, self.clock, throttles, ends, lambda: [self.copier], lambda _: path)


@pytest.fixture
def world() -> World:
    return World()


def test_a_report_has_what_the_step_has_published(world: World) -> None:
    report = world.reporter.one(world.copier)
    assert (report.service_id, report.generation, report.incarnation, report.remote) == ("us", 7, "me", "r")
    assert (report.state, report.position, report.topic_id, report.remote_id) == ("running", 10, "id", "remote-id")
    assert (report.resets, report.counters.records, report.last_commit, report.lag) == (2, 3, 1_000.0, 2)
    assert report.foreign == (5, 6) and (report.path, report.path_since, report.path_reason) == ("batches", 7.0, "")
    assert report.reason == "slow target", "a quota counts while there is lag"


def test_what_follows_the_last_record_is_no_lag(world: World) -> None:
    world.copier.drained_to = 12
    report = world.reporter.one(world.copier)
    assert (report.lag, report.behind_since, report.reason) == (0, 0.0, "")
    world.copier.drained_to, world.clock.time = None, 6_000.0
    assert world.reporter.one(world.copier).behind_since == 5_000.0, "when it was last caught up"
    world.copier.head_timestamp = 5_500_000
    assert world.reporter.one(world.copier).behind_since == 5_500.0
    world.ends.stable.clear()
    assert world.reporter.one(world.copier).lag == -1


def test_a_record_from_the_end_of_time_is_of_now(world: World) -> None:
    """Its producer may give it any timestamp. Nobody could decode the report with that."""
    world.copier.head_timestamp = 2**63 - 1
    report = Report.decode(world.reporter.one(world.copier).encode())
    assert (report.behind_since, report.next_timestamp) == (5_000.0, 5_000.0)


def test_before_a_position_is_known_lag_counts_from_the_start(world: World) -> None:
    world.copier.snapshot = replace(SEEN, position=Position(-1, ""))
    assert world.reporter.one(world.copier).lag == 8
    world.copier.start = StartPoint(-1)
    assert world.reporter.one(world.copier).lag == -1, "the start is not known either"


def test_only_news_are_reported_and_everything_now_and_then(world: World) -> None:
    reported = []
    for change in ({}, {}, {"state": State.RETRYING}, {}):
        world.copier.snapshot = replace(world.copier.snapshot, **change)
        reported.append(len(list(world.reporter.news())))
    assert reported == [1, 0, 1, 0]
    world.clock.time += REPORT_ALL_INTERVAL + 1
    assert len(list(world.reporter.news())) == 1
    world.reporter.report_all_next()
    assert len(list(world.reporter.news())) == 1


def test_the_next_records_timestamp_is_rather_too_old_than_too_new(world: World) -> None:
    def told() -> float:
        return world.reporter.one(world.copier).next_timestamp

    assert told() == -1, "nobody knows yet"
    world.copier.drained_to = 12
    assert told() == 0, "no lag"
    world.copier.drained_to, world.clock.time = None, 6_000.0
    assert told() == 5_000.0, "it came after the partition was last caught up"
    world.copier.head_timestamp = 4_000_000
    assert told() == 4_000.0, "a record of long ago is deleted early"
    world.copier.head_timestamp = None
    assert told() == 4_000.0, "a paused partition has no record in the buffer"
    world.ends.stable.clear()
    assert told() == 4_000.0, "the source does not answer, and goes on to delete"
    world.copier.head_timestamp = 9_000_000_000_000
    assert told() == 6_000.0, "of the future"
    world.reporter.forget(HERE)
    world.copier.head_timestamp = None
    assert told() == -1


def test_the_throttle_is_told_while_a_partition_waits_and_a_little_longer(world: World) -> None:
    reason = "slowed down by the flow's throttle of 5 MB/s"
    world.copier.snapshot = replace(SEEN, throttled_until=world.clock.time + 10, throttle=reason)
    report = world.reporter.one(world.copier)
    assert (report.throttled, report.reason) == (True, f"{reason}; slow target")
    world.clock.time += 10 + REPORTED_FOR - 0.1
    assert world.reporter.one(world.copier).throttled
    world.copier.drained_to = 12
    assert not world.reporter.one(world.copier).throttled, "it has no lag"
    world.copier.drained_to, world.clock.time = None, world.clock.time + 0.1
    report = world.reporter.one(world.copier)
    assert (report.throttled, report.reason) == (False, "slow target")


def test_a_buffer_that_is_emptied_meanwhile_is_no_error(world: World) -> None:
    """A transaction thread may commit the last waiting record between two looks of the plan follower's."""
    answers = iter([2_000, 2_000, *[None] * 10])

    class Emptied(SimpleNamespace):
        @property
        def head_timestamp(self) -> int | None:
            return next(answers)

    known = {name: value for name, value in vars(world.copier).items() if name != "head_timestamp"}
    for _ in range(5):
        world.reporter.one(Emptied(**known))


def test_a_transform_that_hangs_is_told_before_its_step_has_ended(world: World) -> None:
    world.copier.hang_reason = "it does not return"
    (report,) = world.reporter.news()
    assert (report.state, report.reason, report.position) == ("retrying", "it does not return; slow target", 10)
    assert not list(world.reporter.news())
    world.copier.hang_reason = ""
    (report,) = world.reporter.news()
    assert (report.state, report.reason) == ("running", "slow target")
