"""What is made of reports for people and for balance stops no flow, whatever goes wrong with it."""

from __future__ import annotations

import threading
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from mirror.control.reports import Report
from mirror.control.throttle_shares import OF_FLOW, Load
from mirror.errors import FlowError, ForeignPlan, Superseded
from mirror.service import flow as flow_module
from mirror.service import status_follower as module
from mirror.service.flow import TASKS_END_WITHIN, FlowRunner
from mirror.service.sidelines import Sidelines
from mirror.service.status_follower import StatusFollower
from mirror.status.flow_status import FlowStatus
from mirror.text import BUG
from tests.harness.waiting import PATIENCE
from tests.unit.control.test_reports import report


class Figures:
    """The status of a flow whose figures can't be made."""

    ignored = 0

    def bytes_per_second(self) -> dict[Any, float]:
        raise ZeroDivisionError

    def absorb(self, _: list[Report]) -> None:
        raise ZeroDivisionError


class Reader:
    """The status topic. There is one report, and then the service stops."""

    ignored = 0

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        self.closed = False

    def poll(self, _: float) -> list[Report]:
        self._stopping.set()
        return [report(1)]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def runner() -> Any:
    """The part of a FlowRunner that these methods touch."""
    return SimpleNamespace(
        status=Figures(),
        failure=None,
        _flow=None,
        _stopping=threading.Event(),
        _where={"flow": "a->b"},
    )


def refuse() -> None:
    raise FlowError("the replication policy has not answered")


@pytest.mark.parametrize(("leads", "stop", "kept"), [(True, False, 1), (False, False, 0), (True, True, 0)])
def test_a_look_that_fails_leaves_no_query_that_has_ended(leads: bool, stop: bool, kept: int) -> None:
    """What is copied goes on while a policy hangs. Before the first plan, and after an order to stop, nothing is."""
    keep, nothing = Mock(), Mock()
    leader = SimpleNamespace(check_still_leading=nothing, control=SimpleNamespace(plan=SimpleNamespace(stop=stop)))
    runner: Any = SimpleNamespace(
        status=SimpleNamespace(leads=leads),
        _flow_leader=leader,
        _query=SimpleNamespace(keep=keep),
        _take_settings=nothing,
        _keep_own_topics=nothing,
        _look=refuse,
    )
    runner._keep_tasks = partial(FlowRunner._keep_tasks, runner)
    with pytest.raises(FlowError, match="has not answered"):
        FlowRunner._take_lead(runner)
    assert keep.call_count == kept


def test_a_flow_that_another_service_leads_lacks_nothing_here(runner: Any) -> None:
    """The other service shows it. Otherwise what it has repaired would be an alert here until the service ends."""
    status = FlowStatus("a", "b", "us")
    status.refused, status.lacking, status.throttles = ["orders"], "the target refuses a topic", {OF_FLOW: 1_000}
    runner.status = status
    runner._flow = SimpleNamespace(name="a->b")
    runner._reports = runner._query = runner._keep_lead = query = Mock()
    runner._take_lead = Mock(side_effect=Superseded("another service leads it now"))
    sidelines: Any = SimpleNamespace(_parts=(), _status=status)
    runner._sidelines = SimpleNamespace(stop=partial(Sidelines.stop, sidelines))
    FlowRunner.run(runner)
    assert not status.refused and not status.lacking and not status.throttles
    assert status.events()[0].reason == "another service leads it now", "that nothing is lacking is no recovery"
    query.stop.assert_called_once_with(TASKS_END_WITHIN)  # a task that hangs does not keep it


def test_a_status_topic_that_nobody_can_leave_keeps_no_flow_from_ending(
    runner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_module, "FOLLOWER_ENDS_WITHIN", 0.01)
    ends = threading.Event()
    runner.status, runner._flow = Mock(), SimpleNamespace(name="a->b")
    runner._reports = SimpleNamespace(follow=lambda: ends.wait(PATIENCE))
    runner._sidelines = runner._query = Mock()
    runner._take_lead = Mock(side_effect=Superseded("another service leads it now"))
    FlowRunner.run(runner)
    assert runner._query.stop.called and not ends.is_set()
    ends.set()


def test_a_plan_needs_no_figures(runner: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert FlowRunner._load(runner) == Load()
    assert [record.getMessage() for record in caplog.records] == [BUG]


def test_reports_are_followed_on(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    stopping, figures, flow = threading.Event(), Figures(), SimpleNamespace(name="a->b")
    reader = Reader(stopping)
    monkeypatch.setattr(module, "StatusReader", lambda *_: reader)
    StatusFollower(flow, figures, stopping, lambda: False).follow()  # type: ignore[arg-type]
    assert [record.getMessage() for record in caplog.records] == [BUG] and reader.closed


@pytest.mark.parametrize("plan", [Superseded("another service leads"), ForeignPlan("a newer mirror has written it")])
def test_no_order_to_stop_is_written_over_a_plan_that_ends_the_tasks_by_itself(runner: Any, plan: FlowError) -> None:
    runner._flow_leader = SimpleNamespace(stop_own_tasks=Mock(side_effect=[FlowError("no answer"), plan]))
    runner._where = {}
    FlowRunner._order_stop(runner)
    assert runner._flow_leader.stop_own_tasks.call_count == 2


def test_a_defect_does_not_keep_the_order_to_stop_from_being_tried_again(
    runner: Any, caplog: pytest.LogCaptureFixture
) -> None:
    defect = ZeroDivisionError("by zero")
    runner._flow_leader = SimpleNamespace(stop_own_tasks=Mock(side_effect=[defect, defect, None]))
    FlowRunner._order_stop(runner)
    assert [record.getMessage() for record in caplog.records] == [BUG], "once"


def test_a_flow_has_finished_even_if_its_last_work_fails(runner: Any) -> None:
    """Others wait for it."""
    runner.drained, runner.finished = threading.Event(), threading.Event()
    runner.join = runner._order_stop = Mock()
    runner._query = Mock()
    runner._sidelines = SimpleNamespace(mirrormaker_offsets=Mock(finish=Mock(side_effect=ZeroDivisionError)))
    with pytest.raises(ZeroDivisionError):
        FlowRunner.drain(runner)
    assert runner.drained.is_set() and runner.finished.is_set()
