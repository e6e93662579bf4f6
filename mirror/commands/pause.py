"""`mirror pause`, and `mirror resume` without a decision: write an order, and wait until the tasks obey."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass

from mirror.commands.obeyed import Obeyed
from mirror.commands.status import no_plan, tasks_report
from mirror.control.control_reader import ControlReader
from mirror.control.control_topics import ControlWriter, StatusReader
from mirror.control.orders import Scope, changes
from mirror.control.partition_state import State
from mirror.errors import ConfigError, FlowError
from mirror.model import Partition
from mirror.naming import ReplicationPolicy
from mirror.service.topic_monitor import TopicMonitor
from mirror.settings import Flow
from mirror.status.observed import UNASSIGNED, observed_state
from mirror.text import plural
from mirror.timing import NO_SERVICE


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderOutcome(Obeyed):
    """The result of an order."""

    paused: bool
    partitions: int  # partitions that the order covers now

    def as_dict(self) -> dict[str, object]:
        """The outcome as it is printed with --json."""
        return self.printed(paused=self.paused, partitions=self.partitions)

    def __str__(self) -> str:
        done, head = "paused" if self.paused else "resumed", f"{self.flow}: {self.scope}"
        if not self.served:
            return f"{head}: will be {done} when a service runs (no task has reported; the order stays in force)"
        if self.waiting:
            some = ", ".join(map(str, self.waiting[:5])) + (", ..." if len(self.waiting) > 5 else "")
            return (
                f"{head}: the order stays in force, but {len(self.waiting)} of {self.partitions} partitions have not "
                f"obeyed it in time ({some}): they will when they can, see mirror status"
            )
        if not self.partitions:
            return f"{head}: it covers no partition now; new ones will be {done}"
        return f"{head}: {done} ({plural(self.partitions, 'partition')})"


def check_scope(flow: Flow, scope: Scope) -> None:
    """Raises ConfigError for a topic that the flow does not mirror."""
    if scope.topic is not None and not ReplicationPolicy.of(flow).is_mirrored(scope.topic):
        raise ConfigError([f"flow {flow.name} does not mirror topic {scope.topic}: see its topics and exclude"])


def give_order(flow: Flow, scope: Scope, paused: bool, timeout: float) -> OrderOutcome:
    """Order that `scope` of a flow is paused or copied, and wait up to `timeout` seconds until its tasks obey.

    Raises ConfigError for a topic that the flow does not mirror, ClusterAway or FlowError if the order can't be
    written, or the flow's tasks report and its plan is missing.
    """
    check_scope(flow, scope)
    TopicMonitor(flow).ensure_internal_topics()
    with closing(ControlReader(flow, follow=True)) as control, closing(StatusReader(flow)) as status:
        control.read_to_end()
        lacks_plan = control.plan is None and tasks_report(flow)
        ControlWriter(flow).order(changes(control.orders, scope, paused))
        if lacks_plan:
            _await_plan(flow, timeout, control)
        return _await(flow, scope, paused, timeout, control, status)


def _await_plan(flow: Flow, timeout: float, control: ControlReader) -> None:
    """A deleted control topic is made again, and lacks its plan for a moment. Raises FlowError if none comes."""
    deadline = time.monotonic() + min(timeout, NO_SERVICE)
    while control.plan is None:
        if time.monotonic() > deadline:
            raise FlowError(f"{no_plan(flow)}; the order stays in force")
        control.poll(0.2)


def _await(
    flow: Flow, scope: Scope, paused: bool, timeout: float, control: ControlReader, status: StatusReader
) -> OrderOutcome:
    begun, served = time.monotonic(), False
    obeying: set[Partition] = set()
    while True:
        control.poll(0)
        plan = control.plan
        running = plan is not None and not plan.stop
        wanted = {p for each in plan.slices for p in each if scope.covers(Scope(*p))} if plan else set()
        waiting = tuple(sorted(wanted - obeying))
        patience = timeout if served else min(timeout, NO_SERVICE)
        if not running or not waiting or time.monotonic() - begun > patience:
            served = running and (served or not waiting)
            return OrderOutcome(
                flow=flow.name, scope=scope, paused=paused, partitions=len(wanted), waiting=waiting, served=served
            )
        for report in status.poll(0.2):
            if plan is not None and report.service_id == plan.service_id:
                served = True
                state = observed_state(report, 0.0, plan.service_id)
                obeys = state != UNASSIGNED and (state == State.PAUSED.value) is paused
                (obeying.add if obeys else obeying.discard)(report.partition)
