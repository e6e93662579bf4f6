"""What a task reports about its partitions, made from the snapshots that their steps have published."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from mirror.clock import Clock
from mirror.control.data_path import DataPath
from mirror.control.partition_state import State
from mirror.control.reports import Report
from mirror.kafka.throttling import Throttles
from mirror.model import Partition, Topic
from mirror.source.end_offsets import SourceEnds
from mirror.task.known_positions import StartPoint
from mirror.task.partition_snapshot import PartitionSnapshot
from mirror.task.slice_plan import SlicePlan
from mirror.timing import REPORT_ALL_INTERVAL


class Reported(Protocol):
    """What a report is made of: the snapshot, and what the buffer says now."""

    @property
    def partition(self) -> Partition: ...
    @property
    def topic(self) -> Topic: ...
    @property
    def incarnation(self) -> str: ...
    @property
    def snapshot(self) -> PartitionSnapshot: ...
    @property
    def start(self) -> StartPoint: ...

    @property
    def hang_reason(self) -> str:
        """A text that names the record for which the transform hangs; "" while it is not known to hang."""

    @property
    def drained_to(self) -> int | None:
        """Everything that was fetched before this offset is committed; None while records wait."""

    @property
    def head_timestamp(self) -> int | None:
        """The first waiting record's timestamp, ms since the Unix epoch; None if no record waits, or it has none."""


class Reporter:
    """Makes the reports of a task. `copiers` gives the partitions that it has now, `path` the way that one takes."""

    def __init__(
        self,
        plan: SlicePlan,
        clock: Clock,
        throttles: Throttles,
        ends: SourceEnds,
        copiers: Callable[[], Iterable[Reported]],
        path: Callable[[Partition], DataPath],
    ) -> None:
        self._plan = plan
        self._clock = clock
        self._throttles = throttles
        self._ends = ends
        self._copiers = copiers
        self._path = path
        self._caught_up: dict[Partition, float] = {}  # when each last had no lag, seconds since the Unix epoch
        self._next: dict[Partition, float] = {}  # last known timestamps of next records, seconds since the Unix epoch
        self._reported: dict[Partition, tuple[object, ...]] = {}
        self._all_reported_at = 0.0

    def news(self) -> Iterator[Report]:
        """The reports that have changed since the last call. Now and then it gives all, as a sign of life."""
        everything = self._clock.monotonic() - self._all_reported_at > REPORT_ALL_INTERVAL
        if everything:
            self._all_reported_at = self._clock.monotonic()
            self._reported.clear()
        for report in self.all():
            waits = (report.lag, report.behind_since, report.stuck_since)
            gist = (report.state, report.reason, report.position, report.last_commit, waits, report.path)
            if self._reported.get(report.partition) != gist:
                self._reported[report.partition] = gist
                yield report

    def all(self) -> Iterator[Report]:
        """How each partition stands."""
        return map(self.one, self._copiers())

    def report_all_next(self) -> None:
        """Make the next `news` give all reports."""
        self._all_reported_at = 0.0

    def forget(self, partition: Partition) -> None:
        """Drop what is known of a partition that is let go."""
        self._caught_up.pop(partition, None)
        self._next.pop(partition, None)

    def one(self, copier: Reported) -> Report:
        """How one partition stands."""
        seen, path = copier.snapshot, self._path(copier.partition)
        lag = self._lag(copier, seen)
        throttled_by = self._throttles.active if lag > 0 else []
        hold = self._ends.hold(copier.partition)
        overdue = hold is not None and hold.lasts >= self._plan.flow.open_transaction_warn_after
        waits = lag != 0 and seen.is_throttled(self._clock.monotonic())
        hangs = copier.hang_reason
        reasons = [hangs or seen.reason, seen.throttle if waits else "", *map(self._throttles.reason, throttled_by)]
        reasons += [hold.reason] if hold and overdue else []
        return Report(
            service_id=self._plan.service_id,
            incarnation=copier.incarnation,
            generation=self._plan.generation,
            partition=copier.partition,
            remote=copier.topic.remote,
            state=State.RETRYING.value if hangs else seen.state.value,
            reason="; ".join(filter(None, reasons)),
            throttled_by=throttled_by,
            throttled=waits,
            topic_id=seen.position.topic_id,
            remote_id=seen.position.remote_id,
            resets=seen.position.resets,
            incident=seen.incident,
            unfollowed=seen.unfollowed,
            position=seen.position.offset,
            lag=lag,
            behind_since=self._behind_since(copier, lag),
            last_commit=seen.last_commit,
            counters=seen.counters,
            stuck_since=hold.since if hold else 0.0,
            held_back=hold.offsets if hold and overdue else 0,
            group=self._plan.flow.group,
            foreign=seen.foreign,
            next_timestamp=self._next_timestamp(copier, lag),
            path=path.name,
            path_since=path.since,
            path_reason=path.reason,
        )

    def _lag(self, copier: Reported, seen: PartitionSnapshot) -> int:
        """Records up to the last stable offset; markers and aborted records at the end do not count."""
        end = self._ends.stable.get(copier.partition)
        position = seen.position.offset if seen.position.offset >= 0 else copier.start.offset
        if end is None or position < 0:
            return -1
        drained_to = copier.drained_to
        return max(0, end - (position if drained_to is None else max(position, drained_to)))

    def _behind_since(self, copier: Reported, lag: int) -> float:
        """When the next record came to the source, in seconds since the Unix epoch; 0 without lag, -1 if not known.

        A timestamp from the future counts as now.

        It is the record's timestamp, or the time at which the partition was last caught up, whichever is later: a
        record may have an old timestamp, and a record that was not fetched yet shows none.
        """
        if lag <= 0:
            if lag == 0:
                self._caught_up[copier.partition] = self._clock.now()
            return float(lag)
        timestamp = copier.head_timestamp
        known = [min(timestamp / 1000, self._clock.now())] if timestamp is not None else []
        if copier.partition in self._caught_up:
            known.append(self._caught_up[copier.partition])
        return max(known, default=-1.0)

    def _next_timestamp(self, copier: Reported, lag: int) -> float:
        """An estimate of the next record's timestamp, from what is known without a request; 0 without lag.

        If no record waits in the buffer, as of a paused partition, the timestamp of one that was copied before stands
        for it, or the time at which the partition was last caught up. A timestamp from the future counts as now. -1 if
        none of these is known.
        """
        here = copier.partition
        if lag == 0:
            self._next.pop(here, None)
            return 0.0
        head = copier.head_timestamp  # asked once: a transaction thread may empty the buffer meanwhile
        if head is not None:
            self._next[here] = min(head / 1000, self._clock.now())
        elif lag > 0 and here not in self._next and here in self._caught_up:
            self._next[here] = self._caught_up[here]
        return self._next.get(here, -1.0)
