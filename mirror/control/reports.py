"""Reports: the state and the counters of each partition, which its task writes to the status topic once a second."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from mirror import decode
from mirror.control.data_path import RECORDS
from mirror.control.decisions import Incident, an_incident
from mirror.control.partition_state import State
from mirror.model import SIDES, Partition, Side, a_partition

# Upper bounds of the histograms of replication latency and of transactions' durations, seconds.
LATENCY_BUCKETS = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600,
)  # fmt: skip
_BOUNDS_MS = [bound * 1000 for bound in LATENCY_BUCKETS]
SIZE_BUCKETS = (1, 10, 100, 1_000, 10_000, 100_000)  # records in a transaction

TRANSACTION_OUTCOMES = ("committed", "aborted", "unknown")
# Reasons why upstream offsets were skipped. remote_topic: the copy was deleted together with the remote topic.
LOST = (
    "deleted",
    "truncated",
    "recreated",
    "corrupt",
    "refused",
    "dead_letter",
    "remote_topic",
)


NOWHERE = (-1, -1)  # no offsets


@dataclass(slots=True)
class Counters:
    """What one incarnation (one copier) of a partition has done since it began. Counters never decrease."""

    records: int = 0
    bytes: int = 0  # keys, values and headers, or whole batches as they are stored
    transactions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TRANSACTION_OUTCOMES, 0))
    fenced: int = 0  # producers of ours that were fenced by a newer one
    retries: int = 0  # attempts after a failure
    throttled: float = 0.0  # seconds waited because of the throttle
    dropped: int = 0  # records that the topic's transform has left out
    foreign: int = 0  # offsets of the remote partition that somebody else's records take
    left_out: int = 0  # records that have been on the target before; one that is fetched again counts again
    lost: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LOST, 0))  # offsets, by reason
    latency_buckets: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BUCKETS) + 1))
    latency_sum: float = 0.0  # seconds
    age_sum: float = 0.0  # seconds from the records' timestamps to the start of their transactions
    duration_buckets: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BUCKETS) + 1))
    duration_sum: float = 0.0  # seconds
    size_buckets: list[int] = field(default_factory=lambda: [0] * (len(SIZE_BUCKETS) + 1))

    def committed(self, records: int, duration: float) -> None:
        """Count a committed transaction of `records` records (0 is possible) that took `duration` seconds."""
        self.transactions["committed"] += 1
        self.duration_buckets[bisect_left(LATENCY_BUCKETS, duration)] += 1
        self.duration_sum += duration
        self.size_buckets[bisect_left(SIZE_BUCKETS, records)] += 1

    def copied(self, timestamps: Sequence[int], size: int, now: int, duration: float = 0.0) -> None:
        """Count a batch of `size` bytes and the replication latency of its records: `now` minus timestamp, ms.

        Its transaction took `duration` seconds. A producer's clock may be ahead of ours; the latency of such a record
        counts as 0. A record without a timestamp has no latency.
        """
        self.records += len(timestamps)
        self.bytes += size
        known = sorted(timestamps)
        begin = bisect_right(known, 0)
        past = known[begin : bisect_right(known, now, lo=begin)]
        latency = (now * len(past) - sum(past)) / 1000
        self.latency_sum += latency
        self.age_sum += max(0.0, latency - (len(known) - begin) * duration)
        younger = len(known)  # records before this index are not counted yet
        for index, bound in enumerate(_BOUNDS_MS):
            before = bisect_left(known, now - bound, lo=begin, hi=younger)
            self.latency_buckets[index] += younger - before
            younger = before
            if younger == begin:
                return
        self.latency_buckets[-1] += younger - begin

    def copied_whole(self, batches: Sequence[tuple[int, int]], size: int, now: int, duration: float = 0.0) -> None:
        """Count batches that nobody has unpacked, as (newest timestamp, number of records), and their latency.

        All records of a batch count as old as its newest. `size` is that of the batches, compressed or not. `now` and
        `duration` are those of `copied`.
        """
        self.bytes += size
        for timestamp, records in batches:
            self.records += records
            if timestamp > 0:
                latency = max(0, now - timestamp)
                self.latency_sum += records * latency / 1000
                self.age_sum += records * max(0.0, latency / 1000 - duration)
                self.latency_buckets[bisect_left(_BOUNDS_MS, latency)] += records

    def copy(self) -> Counters:
        """A copy of the counters as they are now."""
        return Counters(*[_copied(getattr(self, name)) for name in _COUNTERS])

    def plus(self, other: Counters) -> Counters:
        """The sum of both."""
        return self._combined(other, 1)

    def minus(self, other: Counters) -> Counters:
        """What was counted since `other`, an earlier state of the same counters."""
        return self._combined(other, -1)

    def precedes(self, other: Counters) -> bool:
        """True if this is an earlier state than `other`, given that both are of the same incarnation."""
        progress = [(each.records, each.retries, *each.transactions.values()) for each in (self, other)]
        return any(mine < theirs for mine, theirs in zip(*progress, strict=True))

    def _combined(self, other: Counters, sign: int) -> Counters:
        return Counters(*[_added(getattr(self, name), getattr(other, name), sign) for name in _COUNTERS])


_COUNTERS = [each.name for each in fields(Counters)]


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, list | dict) else value


def _added(a: Any, b: Any, sign: int) -> Any:
    if isinstance(a, list):
        return [x + sign * y for x, y in zip(a, b, strict=True)]
    if isinstance(a, dict):
        return {key: a.get(key, 0) + sign * b.get(key, 0) for key in a | b}
    return a + sign * b


@dataclass(frozen=True, slots=True)
class Report:
    """A partition's state and cumulative counters, as the task that owns it sees them."""

    service_id: str  # of the flow leader whose plan the task follows
    incarnation: str  # id of the copier that counts; the counters of another one start at zero
    generation: int
    partition: Partition
    remote: str
    state: str
    reason: str
    position: int  # next upstream offset; -1 before it is known
    lag: int  # records up to the source's last stable offset; -1 before it is known
    behind_since: float  # seconds since the Unix epoch: timestamp of the next record; 0: no lag, -1: not known
    last_commit: float  # seconds since the Unix epoch; 0 before the first commit
    counters: Counters
    topic_id: str = ""  # of the position; "" while nothing has been committed
    remote_id: str = ""  # of the position
    resets: int = 0  # of the position
    incident: Incident | None = None  # set if the partition is blocked until an operator decides
    unfollowed: str = ""  # the request of a decision about it that the task can't follow
    throttled_by: Sequence[Side] = ()  # the clusters whose quotas slow it down
    throttled: bool = False  # our own throttle slows it down
    # Seconds since the Unix epoch: when the source's last stable offset stopped moving below the high watermark.
    stuck_since: float = 0.0  # 0: it moves
    held_back: int = 0  # offsets that wait for a transaction that has been open on the source for too long
    # Seconds since the Unix epoch: an estimate of the next record's timestamp that is rather too old than too new.
    next_timestamp: float = -1.0  # 0: no lag, -1: not known
    # The last offsets of the remote partition, first and last, at which somebody else has written; -1: none.
    foreign: tuple[int, int] = NOWHERE
    group: str = ""  # the consumer group that has the position; "" in the reports of older versions
    path: str = RECORDS  # of DATA_PATHS
    path_since: float = 0.0  # seconds since the Unix epoch; 0: not known
    path_reason: str = ""  # of PATH_REASONS; "" if the flow wants that path

    def key(self) -> bytes:
        """The record key: the newest report of a partition replaces the older ones."""
        return key_of(self.partition)

    def encode(self) -> bytes:
        """The record value, JSON."""
        raw = {key: getattr(self, name) for key, name in _REPORT.items()}  # asdict would copy each list
        raw["counters"] = {name: getattr(self.counters, name) for name in _COUNTERS}
        return json.dumps(raw, separators=(",", ":")).encode()

    @staticmethod
    def decode(value: bytes) -> Report:
        """Decode a value that `encode` made. Fields that a newer mirror has added are ignored. Raises DecodeError."""
        found = decode.fields(decode.parsed(value, REPORT_MAX), _REQUIRED, _ADDED_LATER)
        report = Report(service_id=found.pop("leader"), **found)
        return report if report.state != _FAILED else replace(report, state=_state_of_failed(report).value)


def key_of(partition: Partition) -> bytes:
    """The key under which the status topic has the reports of a partition."""
    return f"{partition.topic}/{partition.partition}".encode()


_FAILED = "failed"  # a state of mirrors that did not tell RETRYING from BLOCKED


def _state_of_failed(report: Report) -> State:
    return State.RETRYING if report.incident is None else State.BLOCKED


# The names in the JSON, with those of the fields.
_REPORT = {"leader" if each.name == "service_id" else each.name: each.name for each in fields(Report)}
REPORT_MAX = 2**18  # bytes; a usual report has 2,000
_BUCKETS = decode.listed(decode.integer(), len(LATENCY_BUCKETS) + 1)
_COUNTED: Mapping[str, decode.Check[Any]] = {
    "records": decode.integer(),
    "bytes": decode.integer(),
    "transactions": decode.counts(TRANSACTION_OUTCOMES),
    "fenced": decode.integer(),
    "retries": decode.integer(),
    "throttled": decode.number(),
    "dropped": decode.integer(),
    "foreign": decode.integer(),
    "left_out": decode.integer(),
    "lost": decode.counts(LOST),
    "latency_buckets": _BUCKETS,
    "latency_sum": decode.number(),
    "age_sum": decode.number(),
    "duration_buckets": _BUCKETS,
    "duration_sum": decode.number(),
    "size_buckets": decode.listed(decode.integer(), len(SIZE_BUCKETS) + 1),
}


def _two_offsets(raw: Any) -> tuple[int, int]:
    first, last = decode.listed(decode.integer(-1), 2)(raw)
    return first, last


def _counters(raw: Any) -> Counters:
    return Counters(**decode.fields(raw, {}, _COUNTED))


_REQUIRED: Mapping[str, decode.Check[Any]] = {
    "leader": decode.name,
    "incarnation": decode.name,
    "generation": decode.integer(),
    "partition": a_partition,
    "remote": decode.topic_name,
    "state": decode.name,
    "reason": decode.text,
    "position": decode.integer(-1),
    "lag": decode.integer(-1),
    "behind_since": decode.moment(-1.0),
    "last_commit": decode.moment(),
    "counters": _counters,
}
_ADDED_LATER: Mapping[str, decode.Check[Any]] = {
    "topic_id": decode.name,
    "remote_id": decode.name,
    "resets": decode.integer(),
    "incident": lambda raw: None if raw is None else an_incident(raw),
    "unfollowed": decode.name,
    "stuck_since": decode.moment(),
    "held_back": decode.integer(),
    "group": decode.text,
    "next_timestamp": decode.moment(-1.0),
    "foreign": _two_offsets,
    "throttled": decode.flag,
    "path": decode.name,
    "path_since": decode.moment(),
    "path_reason": decode.text,
    "throttled_by": lambda raw: tuple(decode.listed(decode.among(SIDES))(raw)),
}
