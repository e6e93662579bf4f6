"""What is reported of partitions that wait for their start."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from mirror.control.partition_state import State
from mirror.errors import ClusterAway, PartitionError
from mirror.logs import OnChange
from mirror.model import Partition, Position, Topic
from mirror.task.known_positions import StartPoint
from mirror.task.plan_follower import PlanFollower
from mirror.task.waiting_partitions import WaitingPartitions
from tests.unit.test_naming import flow

FIRST, SECOND = Partition("t", 0), Partition("t", 1)
TOPIC = Topic("r", "id", 2, 2)
JOINING = {FIRST: TOPIC, SECOND: TOPIC}
BEFORE = Position(7, "id", remote_id="remote-id", resets=1)


def waiting(*partitions: Partition) -> WaitingPartitions:
    """These partitions wait, and the first one was reported before."""
    found = WaitingPartitions()
    found.reported = {FIRST: BEFORE}
    found.tried(JOINING, dict.fromkeys(partitions, "no leader"), State.RETRYING)
    assert not found.all, "the slice may have another task by now"
    found.keep(JOINING)
    return found


def test_a_report_carries_the_position_on_that_it_replaces() -> None:
    first, second = waiting(FIRST, SECOND).all.values()
    assert first.snapshot.position == BEFORE
    assert second.snapshot.position == Position(-1, "")
    assert (first.snapshot.state, first.snapshot.reason, first.topic) == (State.RETRYING, "no leader", TOPIC)


def test_nothing_is_reported_before_the_last_reports_were_read() -> None:
    found = WaitingPartitions()
    found.tried(JOINING, {FIRST: "no answer"}, State.RETRYING)
    found.keep(JOINING)
    assert not found.all
    found = waiting(FIRST)
    found.reported = None
    found.tried(JOINING, dict.fromkeys(JOINING, "no answer"), State.RETRYING)
    found.keep(JOINING)
    assert found.all.keys() == {FIRST}, "what was read before holds, since this task has the partition"


def test_one_time_of_waiting_is_one_incarnation() -> None:
    """The service adds up what incarnations have counted, and ignores the late reports of an earlier one."""
    found = waiting(FIRST)
    incarnation = found.all[FIRST].incarnation
    found.tried(JOINING, {FIRST: "not authorized", SECOND: "no leader"}, State.BLOCKED)
    found.keep(JOINING)
    first, second = found.all.values()
    assert (first.incarnation, first.snapshot.state) == (incarnation, State.BLOCKED)
    assert second.incarnation != incarnation
    found.keep({})
    found.tried(JOINING, {FIRST: "no leader"}, State.RETRYING)
    found.keep(JOINING)
    assert found.all[FIRST].incarnation != incarnation


def test_who_waits_no_more_is_not_reported_as_waiting() -> None:
    found = waiting(FIRST, SECOND)
    found.begin()
    assert not found.all, "the slice may have another task once it is known where they start"
    found.reported = {}
    found.tried(JOINING, {SECOND: "no leader"}, State.RETRYING)
    found.keep(JOINING)
    assert found.all.keys() == {SECOND}, "the first one has started"


def test_who_leaves_the_slice_or_has_another_topic_waits_no_more() -> None:
    found = waiting(FIRST, SECOND)
    found.keep({FIRST: TOPIC, SECOND: Topic("r", "another id", 2, 2)})
    assert found.all.keys() == {FIRST}


class Joining:
    """Partitions that a task tries to start when they are due, each look at a time of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waiting = WaitingPartitions(lambda: self.now)
        self.waiting.reported = {}

    def look(self, *joining: Partition, fails: tuple[Partition, ...] = (), after: float = 0.0) -> set[Partition]:
        """The partitions that were tried, `after` so many seconds."""
        self.now += after
        topics = dict.fromkeys(joining, TOPIC)
        self.waiting.keep(topics)
        if due := self.waiting.due(topics):
            self.waiting.tried(due, {each: "no leader" for each in fails if each in due}, State.RETRYING)
        return set(due)


def test_who_has_not_waited_yet_does_not_wait_for_the_others_back_off() -> None:
    task = Joining()
    assert task.look(FIRST, fails=(FIRST,)) == {FIRST}
    assert task.look(FIRST, SECOND) == {SECOND}
    assert task.waiting.failed == {FIRST}, "its back-off goes on"
    assert task.look(FIRST) == set()
    assert task.look(FIRST, after=0.2) == {FIRST}
    assert not task.waiting.failed


def test_who_fails_as_well_is_tried_again_with_the_others() -> None:
    task = Joining()
    task.look(FIRST, fails=(FIRST,))
    for _ in range(5):  # the next back-offs are longer
        task.look(FIRST, fails=(FIRST,), after=10.0)
    assert task.look(FIRST, SECOND, fails=(SECOND,), after=1.0) == {SECOND}
    assert task.look(FIRST, SECOND, after=1.0) == set(), "the last back-off is between 2.5 and 5 seconds"
    assert task.waiting.all.keys() == {FIRST, SECOND}
    assert task.look(FIRST, SECOND, after=3.0) == {FIRST, SECOND}


def test_new_ones_that_fail_keep_nobody_waiting_for_longer() -> None:
    task, others = Joining(), [Partition("u", number) for number in range(10)]
    task.look(FIRST, fails=(FIRST,))
    for here in others:
        task.look(FIRST, *others[: others.index(here) + 1], fails=tuple(others), after=0.01)
    assert FIRST in task.look(FIRST, *others, after=0.1)


def test_who_has_left_holds_up_nobody() -> None:
    task = Joining()
    task.look(FIRST, fails=(FIRST,))
    assert task.look(SECOND) == {SECOND}
    assert task.look(FIRST, SECOND) == {FIRST, SECOND}, "it comes back, and was not tried since"


class Task(SimpleNamespace):
    """A plan follower as far as it starts partitions. `answers` are errors, or the refusals of the source."""

    def __init__(self, *answers: ClusterAway | PartitionError | dict[Partition, KafkaError]) -> None:
        super().__init__(
            _flow=flow(),
            _waiting=WaitingPartitions(),
            _waits_for=OnChange(),
            _source=SimpleNamespace(note=lambda *_: None),
            _plan=SimpleNamespace(is_paused=lambda _: False),
            _paths=SimpleNamespace(copier=lambda partition, *_: partition, begin=lambda _: None),
            _assigned={},
            _last=SimpleNamespace(begun=lambda _: None),
        )
        self.answers = list(answers)

    def _find_starts(self, joining: Any, missing: dict[Partition, KafkaError]) -> dict[Partition, StartPoint]:
        answer = self.answers.pop(0)
        self._waiting.begin()
        self._waiting.reported = {}
        if not isinstance(answer, dict):
            raise answer
        missing |= answer
        return {partition: StartPoint(0) for partition in joining if partition not in missing}

    def _note_tried(self, *of: Any) -> None:
        PlanFollower._note_tried(self, *of)  # type: ignore[arg-type]

    def join(self) -> dict[Partition, tuple[str, str]]:
        """Try to start what has not started. Returns state and reason of those that wait."""
        joining = {partition: topic for partition, topic in JOINING.items() if partition not in self._assigned}
        PlanFollower._join(self, joining)  # type: ignore[arg-type]
        self._waiting.keep({partition: joining[partition] for partition in joining.keys() - self._assigned.keys()})
        return {p: (each.snapshot.state.value, each.snapshot.reason) for p, each in self._waiting.all.items()}


def test_each_partition_is_reported_with_its_reason_until_it_starts(caplog: pytest.LogCaptureFixture) -> None:
    refused = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
    task = Task(
        ClusterAway("backup", "no positions"),
        PartitionError("group not authorized", blocked=True),
        {SECOND: refused},
        {SECOND: refused},
        {},
    )
    away = str(ClusterAway("backup", "no positions"))
    assert task.join() == dict.fromkeys(JOINING, ("retrying", away))
    assert task.join() == dict.fromkeys(JOINING, ("blocked", "group not authorized"))
    said = f"the source gives no offset to start at: {refused.str()}"
    for _ in range(2):
        assert task.join() == {SECOND: ("retrying", said)}
    assert task.join() == {} and task._assigned.keys() == {FIRST, SECOND}
    told = [vars(record)["reason"] for record in caplog.records if record.levelno == logging.WARNING]
    every = "2 partitions, e.g. t-0: "
    assert told == [every + away, every + "group not authorized", f"1 partition, e.g. t-1: {said}"], "once each"
