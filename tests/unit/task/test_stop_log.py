"""What the log says of a partition that an error stops: at once, or once a cluster has been away for it for long."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mirror.control.partition_state import State
from mirror.errors import ClusterAway, PartitionError
from mirror.task.stop_log import AWAY_FOR, RECOVERED_AFTER, AwayLog, StopLog

AWAY = ClusterAway("backup", "broker 2 gives no answer")
RETRY = 10.0  # seconds between two tries


class Partitions:
    """Partitions of one process, which share a clock."""

    def __init__(self, count: int, caplog: pytest.LogCaptureFixture) -> None:
        self.now = 0.0
        away = AwayLog(lambda: self.now)
        self.all = [StopLog({"flow": "a->b", "topic": "t", "partition": number}, away) for number in range(count)]
        self._caplog = caplog

    def stopped(self, seconds: float, *numbers: int) -> list[tuple[int, int | None]]:
        """A cluster is away for these for so long. Returns which partitions warn, and how many others they count."""
        self._caplog.clear()
        end = self.now + seconds
        while self.now < end:
            self.now += RETRY
            for number in numbers:
                self.all[number].stopped(AWAY, State.RETRYING)
        warnings: list[dict[str, Any]] = [vars(each) for each in self._caplog.records if each.levelname == "WARNING"]
        assert all((each["msg"], each["reason"]) == ("partition is retrying", str(AWAY)) for each in warnings)
        return [(each["partition"], each["other_partitions"]) for each in warnings]


def test_a_cluster_that_is_away_for_long_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """It may be one broker only, or the way of this machine: then the flow leader logs nothing."""
    some = Partitions(1, caplog)
    assert some.stopped(AWAY_FOR, 0) == []
    assert some.stopped(RETRY, 0) == [(0, None)]
    assert some.stopped(3_600, 0) == []
    some.all[0].over()
    assert some.stopped(AWAY_FOR, 0) == [] and some.stopped(RETRY, 0) == [(0, None)], "it was copied in between"


def test_short_outages_do_not_add_up(caplog: pytest.LogCaptureFixture) -> None:
    some = Partitions(1, caplog)
    for _ in range(10):
        assert some.stopped(AWAY_FOR, 0) == []
        some.all[0].over()
    for _ in range(10):
        assert some.stopped(AWAY_FOR, 0) == []
        some.now += RECOVERED_AFTER  # it is idle, so nothing is committed


def test_of_many_partitions_one_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """A cluster that is away for all of them is the flow leader's to log."""
    some = Partitions(100, caplog)
    assert some.stopped(AWAY_FOR + RETRY, *range(100)) == [(0, None)]
    assert some.stopped(AWAY_FOR, *range(100)) == [(1, 98)]
    assert some.stopped(600, *range(100)) == []


def test_only_those_are_counted_that_are_still_stopped(caplog: pytest.LogCaptureFixture) -> None:
    some = Partitions(5, caplog)
    assert some.stopped(AWAY_FOR + RETRY, *range(5)) == [(0, None)]
    some.all[1].over()
    del some.all[2]  # another task has it now
    assert some.stopped(AWAY_FOR, 2, 3) == [(3, 1)]


def test_other_errors_are_logged_at_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mirror.task.stop_log")
    some = Partitions(1, caplog)
    refused = PartitionError("not authorized", blocked=True)
    for error in (AWAY, refused, AWAY, refused, refused):
        some.all[0].stopped(error, State.BLOCKED if error.blocked else State.RETRYING)
    told = [each.levelname for each in caplog.records]
    assert told == ["DEBUG", "WARNING", "DEBUG", "WARNING", "DEBUG"]
    blocked = vars(caplog.records[1])
    assert (blocked["msg"], blocked["partition"]) == ("partition is blocked until a person acts", 0)
