"""`mirror resume` with a decision: decide about partitions that wait for one, and wait until their tasks obey.

A decision is no order: partitions that somebody has paused stay paused.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from confluent_kafka.admin import OffsetSpec

from mirror.commands.obeyed import Obeyed
from mirror.commands.pause import check_scope
from mirror.commands.status import ReportedFlow, ReportedPartition, ask_status
from mirror.control.control_topics import ControlWriter, StatusReader
from mirror.control.decisions import LOST_KINDS, POSITION_KINDS, Choice, Decision
from mirror.control.orders import Scope
from mirror.control.partition_state import State
from mirror.control.reports import Report
from mirror.errors import ClusterAway, ConfigError, FlowError
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition
from mirror.settings import Flow
from mirror.status.observed import UNASSIGNED, observed_state
from mirror.text import listed
from mirror.timing import NO_SERVICE

EFFECTS: dict[Choice, str] = {
    "skip": "continues after what can't be copied",
    "continue": "continues after what was copied",
    "start": "is copied again from the source's first record",
    "at": "continues at offset",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionOutcome(Obeyed):
    """What was decided."""

    decided: tuple[str, ...]  # a line for each partition that was decided about
    unable: Mapping[Partition, str] = field(default_factory=dict)  # why the decision can't be followed, of some waiting

    def as_dict(self) -> dict[str, object]:
        """The outcome as it is printed with --json."""
        unable = {str(partition): reason for partition, reason in self.unable.items()}
        return self.printed(decided=list(self.decided), unable=unable)

    def __str__(self) -> str:
        if not self.decided:
            return f"{self.flow}: no partition of {self.scope} waits for this decision, see mirror status --partitions"
        lines = [f"{self.flow}: {line}" for line in self.decided]
        if self.waiting and not self.served:
            lines.append(f"{self.flow}: no task has reported: the decision is followed when a service runs")
        lines += [f"{self.flow}: {each} stays blocked: {reason}" for each, reason in self.unable.items()]
        late = [str(each) for each in self.waiting if each not in self.unable]
        if late and self.served:
            some = listed(late, 5, ", ")
            lines.append(f"{self.flow}: not obeyed in time ({some}): they will when they can, see mirror status")
        return "\n".join(lines)


def decide(flow: Flow, scope: Scope, choice: Choice, offset: int, timeout: float) -> DecisionOutcome:
    """Decide about the partitions of `scope` that wait for such a decision, and wait until their tasks obey.

    It waits for `timeout` seconds at most. `offset` is used by the choice `at` only. Raises ConfigError for a topic
    that the flow does not mirror and for an offset that the source does not have, ClusterAway or FlowError if it can't
    be read what waits or which offsets the source has, or if a decision can't be written.
    """
    check_scope(flow, scope)
    found = _planned(flow)
    undecided = waiting(found.partitions, scope, choice)
    incidents = {Partition(p.topic, p.partition): p.incident for p in undecided if p.incident is not None}
    request = uuid.uuid4().hex[:16]
    decisions = [Decision(each, incident, choice, offset, request) for each, incident in incidents.items()]
    if choice == "at":
        _check_offset(flow, [decision.partition for decision in decisions], offset)
    if not decisions:
        return DecisionOutcome(flow=flow.name, scope=scope, decided=(), waiting=(), served=found.state == "running")
    with closing(StatusReader(flow)) as status:  # before the decision is written, so that no report is missed
        ControlWriter(flow).decide(decisions)
        paused = {Partition(p.topic, p.partition) for p in undecided if p.state == State.PAUSED.value}
        left = {decision.partition: decision for decision in decisions if decision.partition not in paused}
        unable = _await(status, found, left, timeout)
    decided = tuple(line(p, choice, offset) for p in undecided)
    served = found.state == "running"
    waits = tuple(sorted({*left, *unable}))
    return DecisionOutcome(flow=flow.name, scope=scope, decided=decided, waiting=waits, served=served, unable=unable)


def _planned(flow: Flow) -> ReportedFlow:
    """The flow's state, once a deleted control topic has a plan again. Raises FlowError if it still has none."""
    deadline = time.monotonic() + NO_SERVICE
    while (found := ask_status(flow)).state == "unknown" and time.monotonic() < deadline:
        time.sleep(0.5)
    if found.state == "unknown":
        raise FlowError(f"{found.reason}; nothing was decided")
    return found


def waiting(partitions: Sequence[ReportedPartition], scope: Scope, choice: Choice) -> list[ReportedPartition]:
    """The partitions of `scope` with an incident about which this choice decides. Pure."""
    kinds = LOST_KINDS if choice == "skip" else POSITION_KINDS
    covered = (p for p in partitions if scope.covers(Scope(p.topic, p.partition)))
    return [p for p in covered if p.incident is not None and p.incident.kind in kinds]


def line(p: ReportedPartition, choice: Choice, offset: int) -> str:
    """What was decided about one partition. A paused one follows the decision only when it is resumed. Pure."""
    effect = EFFECTS[choice] + (f" {offset}" if choice == "at" else "")
    if p.state == State.PAUSED.value:
        effect = f"stays paused; once it is resumed, it {effect}"
    # The part of the reason that says what has happened, without what to do: that is done now.
    what = p.reason.partition("; ")[0]
    return f"{p.topic}-{p.partition} {effect}" + (f": {what}" if what else "")


def obeys(report: Report, decision: Decision, service_id: str) -> bool:
    """True if the task goes on, or waits for another decision by now. `service_id` is the flow leader's. Pure."""
    tries = report.state == State.RETRYING.value and report.incident is None  # the decision is still to come
    return observed_state(report, 0.0, service_id) != UNASSIGNED and report.incident != decision.incident and not tries


def is_unable(report: Report, decision: Decision) -> bool:
    """True if the task says that it can't follow this decision, and another one is needed. Pure.

    What it says of a decision before this one does not count: meanwhile it may be able to.
    """
    return report.incident == decision.incident and report.unfollowed == decision.request != ""


def _await(
    status: StatusReader, found: ReportedFlow, left: dict[Partition, Decision], timeout: float
) -> dict[Partition, str]:
    """Remove from `left` what the tasks obey, until nothing is left or the time is over. A flow has to run for that.

    Also what they can't obey is removed, and returned with the reasons.
    """
    deadline, unable = time.monotonic() + timeout, dict[Partition, str]()
    while found.state == "running" and left and time.monotonic() < deadline:
        for report in status.poll(0.2):
            decision = left.get(report.partition)
            if decision is None:
                continue
            if obeys(report, decision, found.flow_leader):
                del left[report.partition]
            elif is_unable(report, decision):
                del left[report.partition]
                unable[report.partition] = report.reason
    return unable


def _check_offset(flow: Flow, partitions: Sequence[Partition], offset: int) -> None:
    """Raises ConfigError if the source does not have this offset, ClusterAway if it does not say what it has."""
    source = ClusterAdmin(flow.source)
    first = source.offsets(dict.fromkeys(partitions, OffsetSpec.earliest()))
    last = source.offsets(dict.fromkeys(partitions, OffsetSpec.latest()))
    for partition in partitions:
        if partition not in first or partition not in last:
            raise ClusterAway(flow.source.alias, f"the offsets of {partition} are not known now: it may have no leader")
        low, high = first[partition], last[partition]
        if not low <= offset <= high:
            raise ConfigError([f"--at {offset}: {flow.source.alias} has offsets {low} to {high} of {partition}"])
