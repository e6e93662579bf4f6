"""`mirror status`: the present state of flows, read from the control and status topics on the target.

It needs no running service and no HTTP, so it knows what the newest reports say, and not what the service has counted:
that is mirror/status/overview.py.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from mirror.commands.text_table import Cell, table
from mirror.control.control_reader import ControlReader
from mirror.control.control_topics import RATE_SPAN, DatedReport, StatusReader
from mirror.control.decisions import Incident
from mirror.control.partition_state import State
from mirror.control.plan import Plan
from mirror.errors import ClusterAway, FlowError
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition
from mirror.settings import Flow
from mirror.status.observed import UNASSIGNED, is_silent, lag, lag_seconds, observed_state, position
from mirror.text import duration, moment

WELL = (State.STARTING.value, State.PAUSED.value, State.RUNNING.value)
# Worst first: a topic's row shows the worst state of its partitions.
STATES = (State.BLOCKED.value, UNASSIGNED, State.RETRYING.value, State.RELEASED.value, *WELL)


@dataclass(frozen=True, slots=True)
class ReportedPartition:
    """One partition as its newest report shows it; None where nothing is known."""

    topic: str
    partition: int
    remote: str
    state: str  # as reported, or "unassigned" without a recent report
    reason: str
    position: int | None  # next upstream offset
    lag: int | None  # records
    lag_seconds: float | None
    records_per_second: float | None
    last_commit: float | None  # seconds since the Unix epoch
    report_age: float | None  # seconds
    incident: Incident | None = None  # what blocks the partition, if `mirror resume` can decide about it
    held_back: int = 0  # offsets that a long open transaction on the source holds back
    path: str | None = None  # records or batches: by which way it is copied
    path_since: float | None = None  # when it took that, seconds since the Unix epoch
    path_reason: str = ""  # why records, though the flow's data_path is auto

    def as_dict(self) -> dict[str, Any]:
        """The partition as it is printed with --json."""
        incident = None if self.incident is None else self.incident._asdict()
        return {**asdict(self), "incident": incident}


@dataclass(frozen=True, slots=True)
class ReportedFlow:
    """One flow as its plan and the reports on the target show it."""

    flow: str
    state: str  # running, stopped (in order), silent (no task reports), new (never run) or unknown
    reason: str
    flow_leader: str  # its service id; this name is in --json
    generation: int
    orders: tuple[str, ...]
    partitions: tuple[ReportedPartition, ...]

    @staticmethod
    def without_reports(flow: str, state: str, reason: str) -> ReportedFlow:
        """A flow of which nothing but the reason is known."""
        return ReportedFlow(flow, state, reason, "", 0, (), ())

    @property
    def well(self) -> bool:
        """True if the flow runs and every partition is starting, running or paused."""
        return self.state == "running" and all(p.state in WELL for p in self.partitions)

    def as_dict(self) -> dict[str, Any]:
        """The flow as it is printed with --json."""
        partitions = [partition.as_dict() for partition in self.partitions]
        return {**asdict(self), "partitions": partitions, "well": self.well}


def read_status(flow: Flow) -> ReportedFlow:
    """Read the present state of a flow. If it can't be read, that is the flow's reason."""
    try:
        return ask_status(flow)
    except (ClusterAway, FlowError) as error:
        return ReportedFlow.without_reports(flow.name, "unknown", str(error))


def ask_status(flow: Flow) -> ReportedFlow:
    """Read the present state of a flow. Raises ClusterAway, and FlowError for a plan that can't be decoded."""
    topics = ClusterAdmin(flow.target).partitions()
    if flow.status_topic not in topics:
        return ReportedFlow.without_reports(
            flow.name, "new", f"no service has run it yet: {flow.target.alias} has no {flow.status_topic}"
        )
    if flow.control_topic not in topics:
        return _without_plan(flow)
    with closing(ControlReader(flow)) as control:
        control.read_to_end()
    plan = control.plan
    if plan is None:
        return _without_plan(flow)
    reports = StatusReader.newest(flow, sum(map(len, plan.slices)))
    if not {p for each in plan.slices for p in each} <= {each.report.partition for each in reports}:
        reports = StatusReader.newest(flow)
    orders = tuple(f"{scope}: {'paused' if order.paused else 'not paused'}" for scope, order in control.orders.items())
    return reported_flow(flow.name, plan, orders, reports, time.time())


def _without_plan(flow: Flow) -> ReportedFlow:
    """A deleted control topic is made again, and lacks its plan for a moment. Tasks go on, and report."""
    if tasks_report(flow):
        return ReportedFlow.without_reports(flow.name, "unknown", no_plan(flow))
    return ReportedFlow.without_reports(flow.name, "new", "no service has written a plan yet")


def tasks_report(flow: Flow) -> bool:
    """True if a task has just reported a partition. Raises ClusterAway."""
    return any(not is_silent(time.time() - each.at) for each in StatusReader.newest(flow, 1))


def no_plan(flow: Flow) -> str:
    """What is said of a flow whose tasks report, and whose control topic has no plan."""
    said = "it was probably deleted, and a service that runs writes the plan again within seconds"
    return f"flow {flow.name}: {flow.control_topic} has no plan: {said}"


def reported_flow(
    flow: str, plan: Plan, orders: tuple[str, ...], reports: Iterable[DatedReport], now: float
) -> ReportedFlow:
    """The state of a flow by its plan and its reports, oldest first. `now` is in seconds since the Unix epoch."""
    by_partition: dict[Partition, list[DatedReport]] = {}
    for each in reports:
        by_partition.setdefault(each.report.partition, []).append(each)
    wanted = sorted(partition for part in plan.slices for partition in part)
    partitions = tuple(_partition(p, plan, by_partition.get(p, []), now) for p in wanted)
    ours = [each.at for some in by_partition.values() for each in some if each.report.service_id == plan.service_id]
    age = now - max(ours) if ours else None
    if plan.stop:
        state, reason = "stopped", "the service was stopped in order, or another flow is in the way: see mirror check"
    elif not wanted:
        state, reason = "silent", "no topic that mirror may see matches: look at topics and exclude, and at Describe"
    elif is_silent(age):
        since = "ever" if age is None else f"for {duration(age)}"
        state, reason = "silent", f"no task has reported {since}: is the service running?"
    else:
        state, reason = "running", ""
    return ReportedFlow(flow, state, reason, plan.service_id, plan.generation, orders, partitions)


def _partition(partition: Partition, plan: Plan, reports: list[DatedReport], now: float) -> ReportedPartition:
    remote = plan.topics[partition.topic].remote
    if not reports:
        return ReportedPartition(
            *partition, remote, UNASSIGNED, "no task has reported it", None, None, None, None, None, None
        )
    report, age = reports[-1].report, max(0.0, now - reports[-1].at)
    state, reason = observed_state(report, age, plan.service_id), report.reason
    if state == UNASSIGNED:
        reason = f"no task has reported it for {duration(age)}; before: {report.state} {reason}".rstrip()
    return ReportedPartition(
        *partition,
        remote,
        state,
        reason,
        position(report),
        lag(report),
        lag_seconds(report, now),
        _rate(reports) if state == "running" else None,
        report.last_commit or None,
        age,
        report.incident,
        report.held_back,
        report.path,
        report.path_since or None,
        report.path_reason,
    )


def _rate(reports: list[DatedReport]) -> float | None:
    """Records per second between the newest report and the last one that is more than RATE_SPAN older."""
    newest = reports[-1]
    for older in reversed(reports[:-1]):
        if older.report.incarnation != newest.report.incarnation:
            return None
        if newest.at - older.at > RATE_SPAN:
            return (newest.report.counters.records - older.report.counters.records) / (newest.at - older.at)
    return None


def shown(flow: ReportedFlow, by_partition: bool) -> str:
    """The flow as text: one line about it, and a table of its topics or partitions."""
    led_by = f", generation {flow.generation} of {flow.flow_leader[:8]}" if flow.flow_leader else ""
    counts = Counter(p.state for p in flow.partitions)
    states = ", ".join(f"{count} {state}" for state, count in counts.most_common())
    head = f"{flow.flow}  {flow.state}{led_by}" + (f"  ({states})" if states else "")
    lines = [head, *([f"  {flow.reason}"] if flow.reason else []), *(f"  order: {order}" for order in flow.orders)]
    if flow.partitions:
        lines += ["", _partition_table(flow) if by_partition else _topic_table(flow)]
    return "\n".join(lines)


def _partition_table(flow: ReportedFlow) -> str:
    rows: list[list[Cell]] = []
    for p in flow.partitions:
        name, when = f"{p.topic}-{p.partition}", (_moment(p.last_commit), _age(p.report_age))
        rows.append([name, p.state, _path(p), p.position, p.lag, p.lag_seconds, p.records_per_second, *when, p.reason])
    return table(
        ["partition", "state", "path", "position", "lag", "seconds", "records/s", "last commit", "reported", "reason"],
        rows,
    )


def _path(partition: ReportedPartition) -> str | None:
    """Which path it takes, and if that is not the one that its flow prefers, why and since when."""
    if not partition.path_reason:
        return partition.path
    since = f" since {moment(partition.path_since)}" if partition.path_since else ""
    return f"{partition.path}: {partition.path_reason}{since}"


def _topic_table(flow: ReportedFlow) -> str:
    rows: list[list[Cell]] = []
    for topic, group in groupby(flow.partitions, lambda p: p.topic):
        some = list(group)
        worst = min(some, key=lambda p: (STATES.index(p.state) if p.state in STATES else 0, not p.reason))
        state = worst.state + ("" if len({p.state for p in some}) == 1 else " (some)")
        age = max((p.report_age for p in some if p.report_age is not None), default=None)
        last = max((p.last_commit for p in some if p.last_commit), default=None)
        records, rate = _total(p.lag for p in some), _total(p.records_per_second for p in some)
        waited = max((p.lag_seconds for p in some if p.lag_seconds is not None), default=None)
        numbers = (len(some), state, records, waited, rate)
        rows.append([topic, some[0].remote, *numbers, _moment(last), _age(age), worst.reason])
    headers = ["topic", "remote topic", "partitions", "state", "lag", "seconds", "records/s"]
    return table([*headers, "last commit", "reported", "reason"], rows)


def _total(values: Iterable[float | int | None]) -> float | int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _age(seconds: float | None) -> str | None:
    return None if seconds is None else f"{duration(seconds)} ago"


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else moment(seconds)
