"""The present state of all flows and clusters as plain data: the status page shows it, `/status` gives it as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from mirror import __version__
from mirror.control.reports import Counters
from mirror.control.verification import Verification
from mirror.model import Partition
from mirror.status.acl_overview import AclsView, acls_view
from mirror.status.canary import CanaryStatus
from mirror.status.cluster_status import ClusterStatus, ClusterView, cluster_view
from mirror.status.config_overview import ConfigsView, configs_view
from mirror.status.configuration import ConfigurationView
from mirror.status.coverage import Coverage
from mirror.status.flow_status import PARTITION_STATES, Event, FlowStatus, PartitionStatus
from mirror.status.group_overview import GroupsView, groups_view
from mirror.status.observed import UNASSIGNED, lag, position
from mirror.status.rates import INTERVAL, Point, Window, quantile, total
from mirror.status.retention import Retention


@dataclass(frozen=True, slots=True)
class Pace:
    """Rates and latencies of the last 20 to 30 seconds. Latencies are in seconds, None without records."""

    records_per_second: float
    bytes_per_second: float
    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class Lag:
    """Records up to the source's last stable offset, and the seconds that the next one has waited; None if unknown."""

    records: int | None
    seconds: float | None
    unknown: int = 0  # partitions whose lag is not known, in a lag of several partitions


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition, as this service sees it. Times are seconds since the Unix epoch, None if not known."""

    partition: int
    state: str
    since: float | None  # time of the change to this state
    reason: str
    position: int | None  # next upstream offset
    last_commit: float | None
    report_age: float  # seconds
    lag: Lag
    pace: Pace
    held_back: int = 0  # offsets that a long open transaction on the source holds back: see `reason`
    path: str | None = None  # records or batches: by which way it is copied
    path_since: float | None = None  # when it took that
    path_reason: str = ""  # why records, though the flow's data_path is auto


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic. `rates` has its records per second over the last minutes, oldest first."""

    topic: str
    remote: str | None
    partitions_by_state: dict[str, int]
    lag: Lag
    pace: Pace
    rates: list[float]
    partitions: list[PartitionView]


@dataclass(frozen=True, slots=True)
class EventView:
    """An event. Without a topic it concerns the whole flow; `others` counts more partitions with the same event."""

    at: float
    topic: str | None
    partition: int | None
    state: str
    reason: str
    others: int


@dataclass(frozen=True, slots=True)
class FlowView:
    """One flow, as this service sees it. `points` cover the last minutes, oldest first; `events` are newest first."""

    source: str
    target: str
    state: str
    problem: str
    lacking: str
    leads: bool  # True if this service is the flow leader; this name is in the JSON
    generation: int
    tasks: int
    partitions_by_state: dict[str, int]
    lag: Lag
    pace: Pace
    points: list[Point]
    topics: list[TopicView]
    retention: Retention | None  # None if nothing waits, or the source's retention is not known
    verified: Verification | None  # the last `mirror verify` of the whole flow; None if none is known
    coverage: Coverage | None  # None before the first look for topics, and while another service leads
    canary: CanaryStatus | None  # None without a canary, and while another service leads
    groups: GroupsView | None  # None if no rounds are made, and while another service leads
    configs: ConfigsView | None  # the same
    acls: AclsView | None  # the same
    events: list[EventView]

    @property
    def name(self) -> str:
        """The flow's name as in the log: `primary->backup`."""
        return f"{self.source}->{self.target}"


@dataclass(frozen=True, slots=True)
class Overview:
    """All flows and clusters of a service, and its configuration."""

    version: str
    at: float
    interval: float  # seconds between points
    flows: list[FlowView]
    configuration: ConfigurationView
    clusters: list[ClusterView]

    def json(self) -> bytes:
        """The overview as JSON."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()


def overview(
    flows: Iterable[FlowStatus], configuration: ConfigurationView, clusters: Iterable[ClusterStatus] = ()
) -> Overview:
    """The present state of all flows, and of their clusters."""
    states = [cluster_view(each) for each in clusters]
    shown = [_flow(status) for status in flows]
    return Overview(__version__, time.time(), INTERVAL, shown, configuration, states)


def _flow(status: FlowStatus) -> FlowView:
    reported = [(each, status.history.window(each.report.partition, each.total)) for each in status.partitions()]
    by_topic: dict[str, list[PartitionView]] = {}
    windows: dict[str, list[Window]] = {}
    remotes: dict[str, str] = {}
    for each, window in reported:
        topic = each.report.partition.topic
        remotes[topic] = each.report.remote
        by_topic.setdefault(topic, []).append(_partition(each, window))
        windows.setdefault(topic, []).extend([window] if window else [])
    for partition, age in status.unreported().items():
        by_topic.setdefault(partition.topic, []).append(_unreported(partition, age))
    topics = [
        _topic(topic, remotes.get(topic), partitions, windows.get(topic, []), status.history.rates.get(topic, ()))
        for topic, partitions in sorted(by_topic.items())
    ]
    everything = [partition for topic in topics for partition in topic.partitions]
    return FlowView(
        *status.labels,
        state=status.state,
        problem=status.problem,
        lacking=status.lacking,
        leads=status.leads,
        generation=status.generation,
        tasks=status.tasks,
        partitions_by_state=_states(everything),
        lag=_lag(everything),
        pace=_pace([window for some in windows.values() for window in some]),
        points=list(status.history.points),
        topics=topics,
        retention=status.retention,
        verified=status.verified,
        coverage=status.coverage,
        canary=status.canary,
        groups=None if status.groups is None else groups_view(status.groups),
        configs=None if status.configs is None else configs_view(status.configs),
        acls=None if status.acls is None else acls_view(status.acls),
        events=[_event(event) for event in status.events()],
    )


def _topic(
    name: str,
    remote: str | None,
    partitions: Sequence[PartitionView],
    windows: Sequence[Window],
    rates: Iterable[float],
) -> TopicView:
    return TopicView(
        topic=name,
        remote=remote,
        partitions_by_state=_states(partitions),
        lag=_lag(partitions),
        pace=_pace(windows),
        rates=list(rates),
        partitions=sorted(partitions, key=lambda p: p.partition),
    )


def _event(event: Event) -> EventView:
    topic, number = event.partition or (None, None)
    return EventView(event.at, topic, number, event.state, event.reason, event.others)


def _partition(status: PartitionStatus, window: Window | None) -> PartitionView:
    report = status.report
    return PartitionView(
        partition=report.partition.partition,
        state=status.state,
        since=status.since,
        reason=report.reason,
        position=position(report),
        last_commit=report.last_commit or None,
        report_age=status.age,
        lag=Lag(lag(report), status.lag_seconds),
        pace=_pace([window] if window else []),
        held_back=report.held_back,
        path=report.path,
        path_since=report.path_since or None,
        path_reason=report.path_reason,
    )


def _unreported(partition: Partition, age: float) -> PartitionView:
    return PartitionView(partition.partition, UNASSIGNED, None, "", None, None, age, Lag(None, None), _pace([]))


def _states(partitions: Iterable[PartitionView]) -> dict[str, int]:
    counts = dict.fromkeys(PARTITION_STATES, 0)
    for partition in partitions:
        counts[partition.state] = counts.get(partition.state, 0) + 1
    return counts


def _lag(partitions: Iterable[PartitionView]) -> Lag:
    """The lag of several partitions: the sum of the records, the longest wait."""
    lags = [partition.lag for partition in partitions]
    records = [lag.records for lag in lags if lag.records is not None]
    seconds = [lag.seconds for lag in lags if lag.seconds is not None]
    return Lag(sum(records) if records else None, max(seconds, default=None), len(lags) - len(records))


def _pace(windows: Sequence[Window]) -> Pace:
    """The pace of several partitions. Rates are summed, since their windows differ a little in length."""
    buckets: Counters = total(window.counters for window in windows)
    p50, p95, p99 = (quantile(buckets.latency_buckets, q) for q in (0.5, 0.95, 0.99))
    return Pace(
        sum(window.records_per_second for window in windows),
        sum(window.bytes_per_second for window in windows),
        p50,
        p95,
        p99,
    )
