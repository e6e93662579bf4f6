"""Which last positions a task knows by itself, and for which it reads the reports of the whole flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from mirror.model import Partition, Position, Topic
from mirror.settings import Flow
from mirror.task import start_offsets
from mirror.task.start_offsets import LastPositions
from tests.unit.test_naming import flow

FIRST, SECOND = Partition("t", 0), Partition("t", 1)
TOPIC = Topic("a.t", "id", 2, 2)
BOTH = {FIRST: TOPIC, SECOND: TOPIC}


class Task:
    """A task that follows plans, and whose partitions are reported at these offsets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reported = {FIRST: 5, SECOND: 6}
        self.read: list[set[Partition]] = []
        self.last = LastPositions(flow())
        self.generation = 0
        monkeypatch.setattr(start_offsets, "reported_positions", self._reported)

    def _reported(self, _: Flow, wanted: Mapping[Partition, Topic], partitions: int) -> dict[Partition, Position]:
        assert partitions == 9
        self.read.append(set(wanted))
        return {here: Position(self.reported[here], "id") for here in wanted if here in self.reported}

    def plan(self, wanted: Mapping[Partition, Topic], skipped: int = 0) -> None:
        """The next plan that the task sees wants these. Before it, it has not seen so many."""
        self.generation += 1 + skipped
        self.last.follow(self.generation, wanted)

    def join(self, joining: Mapping[Partition, Topic]) -> dict[Partition, int]:
        found = self.last.of(joining, 9)
        self.last.begun(joining)
        return {here: at.offset for here, at in found.items()}


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Task:
    """A task that copies both partitions. It has read what was reported of them."""
    found = Task(monkeypatch)
    found.plan(BOTH)
    assert found.join(BOTH) == {FIRST: 5, SECOND: 6} and found.read == [set(BOTH)]
    found.read.clear()
    return found


def test_no_report_is_read_of_a_partition_that_only_changes_its_data_path(task: Task) -> None:
    for offset in (10, 20):
        task.plan(BOTH)
        task.last.follow(task.generation, BOTH)  # a look without a new plan
        task.last.keep(FIRST, TOPIC, Position(offset, "id"))
        assert task.join({FIRST: TOPIC}) == {FIRST: offset}
    assert not task.read


def test_of_a_partition_of_which_nothing_was_known_nothing_is_read_either(task: Task) -> None:
    """It is empty. Nobody else has copied it since."""
    task.reported = {}
    here = Partition("t", 2)
    task.plan({**BOTH, here: TOPIC})
    assert task.join({here: TOPIC}) == {} and task.read == [{here}]
    task.last.keep(here, TOPIC, Position(0, ""))
    assert task.join({here: TOPIC}) == {} and len(task.read) == 1


def test_only_the_reports_of_those_are_read_that_come_to_the_task(task: Task) -> None:
    task.last.keep(FIRST, TOPIC, Position(10, "id"))
    here = Partition("t", 2)
    task.reported[here] = 3
    task.plan({**BOTH, here: TOPIC})
    assert task.join({FIRST: TOPIC, here: TOPIC}) == {FIRST: 10, here: 3}
    assert task.read == [{here}]


def test_what_another_task_has_reported_meanwhile_counts(task: Task) -> None:
    task.last.keep(FIRST, TOPIC, Position(10, "id"))
    task.reported[FIRST] = 30
    task.plan({SECOND: TOPIC})
    assert not task.last._ours, "it may be given back much later, or never"
    task.plan(BOTH)
    assert task.join({FIRST: TOPIC}) == {FIRST: 30} and task.read == [{FIRST}]
    task.last.keep(FIRST, TOPIC, Position(40, "id"))
    assert task.join({FIRST: TOPIC}) == {FIRST: 40} and len(task.read) == 1


def test_so_it_does_if_the_copier_lets_go_only_once_the_partition_is_back(task: Task) -> None:
    task.reported[FIRST] = 30
    task.plan({SECOND: TOPIC})
    task.plan(BOTH)
    task.last.keep(FIRST, TOPIC, Position(10, "id"))
    assert task.join({FIRST: TOPIC}) == {FIRST: 30} and task.read == [{FIRST}]


def test_our_own_last_report_may_still_be_on_its_way(task: Task) -> None:
    task.plan({SECOND: TOPIC})
    task.plan(BOTH)
    task.last.keep(FIRST, TOPIC, Position(10, "id"))
    assert task.join({FIRST: TOPIC}) == {FIRST: 10} and task.read == [{FIRST}]


def test_a_plan_that_was_not_seen_may_have_given_the_partitions_away(task: Task) -> None:
    task.last.keep(FIRST, TOPIC, Position(10, "id"))
    task.reported[FIRST] = 30
    task.plan(BOTH, skipped=1)
    assert task.join({FIRST: TOPIC}) == {FIRST: 30} and task.read == [{FIRST}]
    task.generation = 0  # the control topic was created again, or the generations are used up
    task.plan(BOTH)
    assert task.join(BOTH) == {FIRST: 30, SECOND: 6} and task.read == [{FIRST}, set(BOTH)]


def test_under_another_remote_topic_a_partition_begins_anew(task: Task) -> None:
    task.last.keep(FIRST, TOPIC, Position(10, "id"))
    task.reported = {}
    renamed = replace(TOPIC, remote="b.t")
    task.plan({FIRST: renamed, SECOND: TOPIC})
    task.last.keep(FIRST, TOPIC, Position(11, "id"))
    assert task.join({FIRST: renamed}) == {} and task.read == [{FIRST}]
