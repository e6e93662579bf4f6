"""How everything stands now, as plain data: what the status page shows, and `/status` says as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from mirror import __version__
from mirror.control.reports import Counters
from mirror.model import Partition
from mirror.status.flow_status import PARTITION_STATES, Event, FlowStatus, Tally
from mirror.status.rates import INTERVAL, Lately, Point, quantile, total


@dataclass(frozen=True, slots=True)
class Pace:
    """What was copied in the last 20 to 30 seconds. Latencies in seconds, None without records."""

    records_per_second: float
    bytes_per_second: float
    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class Lag:
    """Records up to the source's last stable offset, and for how many seconds the next one has waited.

    None where it is not known.
    """

    records: int | None
    seconds: float | None
    unknown: int = 0  # of several together: partitions whose lag is not known


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition. Times are seconds since the Unix epoch; None: not yet, or not known."""

    partition: int
    state: str
    since: float | None  # of the state
    reason: str
    position: int | None  # next upstream offset
    last_commit: float | None
    report_age: float  # seconds
    lag: Lag
    pace: Pace
    held_back: int = 0  # offsets behind a transaction that is open on the source for too long: see `reason`


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic; `rates` has records per second of the last minutes, oldest first."""

    topic: str
    remote: str | None
    partitions_by_state: dict[str, int]
    lag: Lag
    pace: Pace
    rates: list[float]
    partitions: list[PartitionView]


@dataclass(frozen=True, slots=True)
class EventView:
    """Something that happened, to `others` too; without a topic it concerns the whole flow."""

    at: float
    topic: str | None
    partition: int | None
    state: str
    reason: str
    others: int


@dataclass(frozen=True, slots=True)
class FlowView:
    """One flow; `points` are of the last minutes, oldest first, `events` newest first."""

    source: str
    target: str
    state: str
    problem: str
    lacking: str
    leader: bool
    generation: int
    tasks: int
    partitions_by_state: dict[str, int]
    lag: Lag
    pace: Pace
    points: list[Point]
    topics: list[TopicView]
    events: list[EventView]

    @property
    def name(self) -> str:
        """As in the log: `primary->backup`."""
        return f"{self.source}->{self.target}"


@dataclass(frozen=True, slots=True)
class Overview:
    """All flows of a service."""

    version: str
    at: float
    interval: float  # seconds between points
    flows: list[FlowView]

    def json(self) -> bytes:
        """For programs."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()


def overview(flows: Iterable[FlowStatus]) -> Overview:
    """How all flows stand now."""
    return Overview(__version__, time.time(), INTERVAL, [_flow(status) for status in flows])


def _flow(status: FlowStatus) -> FlowView:
    seen = [(tally, status.recent.of(tally.report.partition, tally.total)) for tally in status.tallies()]
    by_topic: dict[str, list[PartitionView]] = {}
    counted: dict[str, list[Lately]] = {}
    remotes: dict[str, str] = {}
    for tally, lately in seen:
        topic = tally.report.partition.topic
        remotes[topic] = tally.report.remote
        by_topic.setdefault(topic, []).append(_partition(tally, lately))
        counted.setdefault(topic, []).extend([lately] if lately else [])
    for partition, age in status.unreported().items():
        by_topic.setdefault(partition.topic, []).append(_unreported(partition, age))
    topics = [
        TopicView(
            topic=topic,
            remote=remotes.get(topic),
            partitions_by_state=_states(partitions),
            lag=_lag(partitions),
            pace=_pace(counted.get(topic, [])),
            rates=list(status.recent.rates.get(topic, ())),
            partitions=sorted(partitions, key=lambda p: p.partition),
        )
        for topic, partitions in sorted(by_topic.items())
    ]
    everything = [partition for topic in topics for partition in topic.partitions]
    return FlowView(
        *status.labels,
        state=status.state,
        problem=status.problem,
        lacking=status.lacking,
        leader=status.leads,
        generation=status.generation,
        tasks=status.tasks,
        partitions_by_state=_states(everything),
        lag=_lag(everything),
        pace=_pace([lately for each in counted.values() for lately in each]),
        points=list(status.recent.points),
        topics=topics,
        events=[_event(event) for event in status.events()],
    )


def _event(event: Event) -> EventView:
    topic, number = event.partition or (None, None)
    return EventView(event.at, topic, number, event.state, event.reason, event.others)


def _partition(tally: Tally, lately: Lately | None) -> PartitionView:
    report = tally.report
    return PartitionView(
        partition=report.partition.partition,
        state=tally.state,
        since=tally.since,
        reason=report.reason,
        position=report.position if report.position >= 0 else None,
        last_commit=report.last_commit or None,
        report_age=tally.age,
        lag=Lag(report.lag if report.lag >= 0 else None, tally.waited),
        pace=_pace([lately] if lately else []),
        held_back=report.held_back,
    )


def _unreported(partition: Partition, age: float) -> PartitionView:
    return PartitionView(partition.partition, "unassigned", None, "", None, None, age, Lag(None, None), _pace([]))


def _states(partitions: Iterable[PartitionView]) -> dict[str, int]:
    counts = dict.fromkeys(PARTITION_STATES, 0)
    for partition in partitions:
        counts[partition.state] = counts.get(partition.state, 0) + 1
    return counts


def _lag(partitions: Iterable[PartitionView]) -> Lag:
    """Of several together: the sum of records, the longest wait."""
    lags = [partition.lag for partition in partitions]
    records = [lag.records for lag in lags if lag.records is not None]
    seconds = [lag.seconds for lag in lags if lag.seconds is not None]
    return Lag(sum(records) if records else None, max(seconds, default=None), len(lags) - len(records))


def _pace(counted: Sequence[Lately]) -> Pace:
    """Of several together: each may have been looked at over a little more or less time."""
    buckets: Counters = total(lately.counters for lately in counted)
    p50, p95, p99 = (quantile(buckets.latency_buckets, q) for q in (0.5, 0.95, 0.99))
    return Pace(
        sum(lately.records_per_second for lately in counted),
        sum(lately.bytes_per_second for lately in counted),
        p50,
        p95,
        p99,
    )
