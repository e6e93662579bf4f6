"""`mirror status`: how flows stand, from the control and status topics on the target."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from mirror.commands.tables import Cell, table
from mirror.control.decisions import Incident
from mirror.control.plan import Plan
from mirror.control.reader import ControlReader
from mirror.control.reports import Report
from mirror.control.state import State
from mirror.control.topics import Heard, StatusReader
from mirror.errors import ClusterAway, FlowError
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition
from mirror.settings import Flow
from mirror.status.flow_status import SILENCE
from mirror.text import duration, moment

WELL = (State.STARTING.value, State.PAUSED.value, State.RUNNING.value)
# The worst first.
STATES = ("unassigned", *(state.value for state in State if state.value not in WELL), *WELL)


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition as its task has last reported it; None where nothing is known."""

    topic: str
    partition: int
    remote: str
    state: str  # as reported, or "unassigned": no report for SILENCE seconds
    reason: str
    position: int | None  # next upstream offset
    lag: int | None  # records
    lag_seconds: float | None
    records_per_second: float | None
    last_commit: float | None  # seconds since the Unix epoch
    report_age: float | None  # seconds
    incident: Incident | None = None  # what somebody has to decide about: see `mirror resume`
    held_back: int = 0  # offsets behind a transaction that is open on the source for too long

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        incident = None if self.incident is None else self.incident._asdict()
        return {**asdict(self), "blocked": incident is not None, "incident": incident}


@dataclass(frozen=True, slots=True)
class FlowView:
    """One flow."""

    flow: str
    state: str  # running, stopped (in order), silent (no task reports), new (never run), unknown
    reason: str
    leader: str
    generation: int
    orders: tuple[str, ...]
    partitions: tuple[PartitionView, ...]

    @property
    def well(self) -> bool:
        """Does it run, and no partition fail or keep silent?"""
        return self.state == "running" and all(p.state in WELL for p in self.partitions)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        partitions = [partition.as_dict() for partition in self.partitions]
        return {**asdict(self), "partitions": partitions, "well": self.well}


def look(flow: Flow) -> FlowView:
    """How the flow stands now. A target that does not answer is told as the flow's reason."""
    nothing = FlowView(flow.name, "unknown", "", "", 0, (), ())
    try:
        topics = ClusterAdmin(flow.target).partitions()
        if not {flow.control_topic, flow.status_topic} <= topics.keys():
            return _but(nothing, "new", f"no service has run it yet: {flow.target.alias} has no {flow.control_topic}")
        with closing(ControlReader(flow)) as control:
            control.read_to_end()
        plan = control.plan
        if plan is None:
            return _but(nothing, "new", "no service has written a plan yet")
        heard = StatusReader.recent(flow, sum(map(len, plan.slices)))
        if not {p for each in plan.slices for p in each} <= {each.report.partition for each in heard}:
            with closing(StatusReader(flow, back=2**62)) as status:
                heard = status.history()
    except (ClusterAway, FlowError) as error:
        return _but(nothing, "unknown", str(error))
    orders = tuple(f"{scope}: {'paused' if order.paused else 'not paused'}" for scope, order in control.orders.items())
    return view(flow.name, plan, orders, heard, time.time())


def _but(nothing: FlowView, state: str, reason: str) -> FlowView:
    return FlowView(nothing.flow, state, reason, "", 0, (), ())


def view(flow: str, plan: Plan, orders: tuple[str, ...], heard: Iterable[Heard], now: float) -> FlowView:
    """What plan and reports, oldest first, say together. `now`: seconds since the Unix epoch."""
    reports: dict[Partition, list[Heard]] = {}
    for each in heard:
        reports.setdefault(each.report.partition, []).append(each)
    wanted = sorted(partition for part in plan.slices for partition in part)
    partitions = tuple(_partition(p, plan, reports.get(p, []), now) for p in wanted)
    ours = [each.at for some in reports.values() for each in some if each.report.leader == plan.leader]
    age = now - max(ours) if ours else None
    if plan.stop:
        state, reason = "stopped", "the service was stopped in order, or another flow is in the way: see mirror check"
    elif not wanted:
        state, reason = "silent", "no topic that mirror may see matches: look at topics and exclude, and at Describe"
    elif age is None or age > SILENCE:
        since = "ever" if age is None else f"for {duration(age)}"
        state, reason = "silent", f"no task has reported {since}: is the service running?"
    else:
        state, reason = "running", ""
    return FlowView(flow, state, reason, plan.leader, plan.generation, orders, partitions)


def _partition(partition: Partition, plan: Plan, heard: list[Heard], now: float) -> PartitionView:
    remote = plan.topics[partition.topic].remote
    if not heard:
        return PartitionView(
            *partition, remote, "unassigned", "no task has reported it", None, None, None, None, None, None
        )
    report, age = heard[-1].report, max(0.0, now - heard[-1].at)
    state, reason = report.state, report.reason
    if age > SILENCE or report.leader != plan.leader:
        state, reason = "unassigned", f"no task has reported it for {duration(age)}; before: {state} {reason}".rstrip()
    return PartitionView(
        *partition,
        remote,
        state,
        reason,
        report.position if report.position >= 0 else None,
        report.lag if report.lag >= 0 else None,
        _behind(report, now),
        _rate(heard) if state == "running" else None,
        report.last_commit or None,
        age,
        report.incident,
        report.held_back,
    )


def _behind(report: Report, now: float) -> float | None:
    if report.behind_since < 0:
        return None
    return max(0.0, now - report.behind_since) if report.behind_since else 0.0


def _rate(heard: list[Heard]) -> float | None:
    """Records per second, from the newest two reports that are more than a second apart."""
    newest = heard[-1]
    for older in reversed(heard[:-1]):
        if older.report.incarnation != newest.report.incarnation:
            return None
        if newest.at - older.at > 1:
            return (newest.report.counters.records - older.report.counters.records) / (newest.at - older.at)
    return None


def shown(view: FlowView, by_partition: bool) -> str:
    """For people: a line on the flow, and a table of its topics or partitions."""
    leader = f", generation {view.generation} of {view.leader[:8]}" if view.leader else ""
    counts = Counter(p.state for p in view.partitions)
    tally = ", ".join(f"{count} {state}" for state, count in counts.most_common())
    head = f"{view.flow}  {view.state}{leader}" + (f"  ({tally})" if tally else "")
    lines = [head, *([f"  {view.reason}"] if view.reason else []), *(f"  order: {order}" for order in view.orders)]
    if view.partitions:
        lines += ["", _partition_table(view) if by_partition else _topic_table(view)]
    return "\n".join(lines)


def _partition_table(view: FlowView) -> str:
    rows: list[list[Cell]] = []
    for p in view.partitions:
        name, when = f"{p.topic}-{p.partition}", (_moment(p.last_commit), _age(p.report_age))
        rows.append([name, p.state, p.position, p.lag, p.lag_seconds, p.records_per_second, *when, p.reason])
    return table(
        ["partition", "state", "position", "lag", "seconds", "records/s", "last commit", "reported", "reason"], rows
    )


def _topic_table(view: FlowView) -> str:
    rows: list[list[Cell]] = []
    for topic, group in groupby(view.partitions, lambda p: p.topic):
        some = list(group)
        worst = min(some, key=lambda p: (STATES.index(p.state) if p.state in STATES else 0, not p.reason))
        state = worst.state + ("" if len({p.state for p in some}) == 1 else " (some)")
        age = max((p.report_age for p in some if p.report_age is not None), default=None)
        last = max((p.last_commit for p in some if p.last_commit), default=None)
        lag, rate = _total(p.lag for p in some), _total(p.records_per_second for p in some)
        behind = max((p.lag_seconds for p in some if p.lag_seconds is not None), default=None)
        figures = (len(some), state, lag, behind, rate)
        rows.append([topic, some[0].remote, *figures, _moment(last), _age(age), worst.reason])
    headers = ["topic", "remote topic", "partitions", "state", "lag", "seconds", "records/s"]
    return table([*headers, "last commit", "reported", "reason"], rows)


def _total(values: Iterable[float | int | None]) -> float | int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _age(seconds: float | None) -> str | None:
    return None if seconds is None else f"{duration(seconds)} ago"


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else moment(seconds)
