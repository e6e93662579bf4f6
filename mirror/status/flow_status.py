"""What the service knows of one flow: the reports of its tasks, the last events, and whether it is led."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from mirror.control.partition_state import STOPPED_BY_ERROR, State
from mirror.control.reports import Counters, Report
from mirror.control.verification import Verification
from mirror.groups.group_rounds import Round
from mirror.model import Partition
from mirror.status.canary import CanaryStatus
from mirror.status.coverage import Coverage
from mirror.status.observed import UNASSIGNED, is_silent, lag_seconds, observed_state, stuck_seconds
from mirror.status.rates import RateHistory, Sample
from mirror.status.retention import Retention, retention
from mirror.topics.acl_rounds import AclRound
from mirror.topics.config_rounds import ConfigRound

# unassigned: no task reports it. Of the others see control/partition_state.py.
PARTITION_STATES = (UNASSIGNED, "starting", "running", "paused", "retrying", "blocked")
# retrying and blocked as for a partition: the flow goes on by itself, or waits for a person. stopped: this service does
# not run it any more. standby: it waits until no service leads the flow.
FLOW_STATES = ("standby", "starting", "running", "retrying", "blocked", "stopped")
ENDED_MAX = 16  # incarnations that are remembered; a late report comes within seconds
EVENTS = 30  # kept; older ones are forgotten
FOREIGN_INTERVAL = 60.0  # seconds between two events that somebody else writes to a remote topic
_STARTING = "starting"
_PASSING = (State.RELEASED.value, State.STARTING.value)  # on the way from one copier of a partition to the next


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """A partition's newest report, and the sum of what all its incarnations have counted, which never goes back."""

    report: Report
    seen: float  # monotonic time at which it came
    since: float  # epoch time of the change to the present state
    total: Counters  # of all incarnations
    earlier: Counters = field(default_factory=Counters)  # of the incarnations before the present one
    ended: tuple[str, ...] = ()  # the last of the earlier incarnations, whose late reports are ignored

    @staticmethod
    def first(report: Report) -> PartitionStatus:
        """The status after the first report since the service started."""
        return PartitionStatus(report, time.monotonic(), time.time(), report.counters)

    @property
    def age(self) -> float:
        """Seconds since the newest report came."""
        return time.monotonic() - self.seen

    @property
    def state(self) -> str:
        """One of PARTITION_STATES: what the report says, unless its task has let go or is silent."""
        service_id = self.report.service_id  # `FlowStatus` takes only the reports of its own service's tasks
        return observed_state(self.report, self.age, service_id)

    @property
    def lag_seconds(self) -> float | None:
        """Seconds that the next record has waited, 0 without lag; None if it is not known."""
        return lag_seconds(self.report, time.time())

    @property
    def stuck_seconds(self) -> float:
        """Seconds that the source's last stable offset has not moved below the high watermark; 0 if it moves."""
        return stuck_seconds(self.report, time.time())

    def absorb(self, report: Report) -> PartitionStatus:
        """The status after one more report. One that is older, which a reader can meet again, changes nothing."""
        same = report.incarnation == self.report.incarnation
        if report.incarnation in self.ended or (same and report.counters.precedes(self.report.counters)):
            return self
        earlier, ended = self.earlier, self.ended
        if not same:
            earlier, ended = self.total, (*ended, self.report.incarnation)[-ENDED_MAX:]
        total = earlier.plus(report.counters) if ended else report.counters
        since = self.since if report.state == self.report.state else time.time()
        return PartitionStatus(report, time.monotonic(), since, total, earlier, ended)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that an operator may want to look up later. Without a partition it concerns the whole flow."""

    at: float  # seconds since the Unix epoch
    partition: Partition | None
    state: str
    reason: str
    others: int = 0  # partitions to which the same happened right after this one


class FlowStatus:
    """Collects the reports of one flow's tasks, as one service leads them. Safe for use by several threads."""

    def __init__(self, source: str, target: str, service_id: str) -> None:
        self.labels = (source, target)
        self.leads = False
        self.active = False  # True while the Spark query runs
        self.stopped = False  # True once this service does not run the flow any more
        self.generation = 0
        self.lost_tasks = 0  # tasks whose slices other tasks of this service took over
        self.history = RateHistory()
        self.coverage: Coverage | None = None  # of the last look for topics
        self.retired: int | None = None  # topics that left the plan while their remote topics exist; as `coverage`
        self.kept: Mapping[str, float] = {}  # seconds for which the source keeps records, by topic, where it is known
        self.throttles: Mapping[str, int] = {}  # bytes per second, by topic, and under OF_FLOW that of the flow
        self.verified: Verification | None = None  # the last comparison of the whole flow by `mirror verify`
        self.groups: Round | None = None  # the last one over the consumer groups
        self.configs: ConfigRound | None = None  # the last one over the topics' configurations
        self.acls: AclRound | None = None  # the last round over the topics' ACLs
        self.canary: CanaryStatus | None = None  # None without a canary, and while another service leads
        self.ignored = 0  # records of the status topic that were not reports
        self._stands_by = False
        self._problem = _STARTING
        self._blocked = False  # does the problem wait for a person?
        self._lacking = ""
        # Remote topics that the target refuses to create or grow, or that replace timestamps; and source topics whose
        # remote topic can't have its name.
        self.refused: Collection[str] = ()
        self._service_id = service_id
        self._lock = threading.Lock()
        self._statuses: dict[Partition, PartitionStatus] = {}
        self._planned: dict[Partition, float] = {}  # monotonic time since which each is in the plan
        self._slices: list[list[Partition]] = []  # of the newest plan
        self._foreign: dict[str, float] = {}  # by topic: when the last event of foreign records was added, epoch time
        self._events: deque[Event] = deque(maxlen=EVENTS)

    @property
    def problem(self) -> str:
        """Why the flow does not run, for people; empty if it does."""
        return self._problem

    def tell_problem(self, text: str, blocked: bool = False) -> None:
        """Say why the flow does not run, or with "" that it does; `blocked`: only a person can end that."""
        with self._lock:
            before, self._problem, self._blocked = self._problem, text, blocked
            if text != before and (text or before != _STARTING):
                self._remember(text)

    def stand_by(self, text: str | None) -> None:
        """Say what a standby knows of the flow's service, for people; None: it waits no more, and starts."""
        self._stands_by = text is not None
        self.tell_problem(_STARTING if text is None else text)

    @property
    def lacking(self) -> str:
        """Which part of the flow does not run while the rest does, for people; empty if all of it runs."""
        return self._lacking

    @lacking.setter
    def lacking(self, text: str) -> None:
        with self._lock:
            before, self._lacking = self._lacking, text
            if text != before and not self.stopped:
                self._remember(text)

    def remember(self, text: str) -> None:
        """Add an event of the whole flow."""
        with self._lock:
            self._remember(text)

    def _remember(self, text: str) -> None:
        self._events.append(Event(time.time(), None, self.state, text))

    @property
    def state(self) -> str:
        """One of FLOW_STATES."""
        if self.stopped:
            return "stopped"
        if self._stands_by:
            return "standby"
        if self._problem and self._problem != _STARTING:
            return "blocked" if self._blocked else "retrying"
        return "running" if self.active else "starting"

    def absorb(self, reports: Iterable[Report]) -> None:
        """Take reports. Those of another service's tasks, and of partitions outside the plan, are ignored."""
        with self._lock:
            for report in reports:
                if report.service_id != self._service_id or (self.generation and report.partition not in self._planned):
                    continue
                before = self._statuses.get(report.partition)
                status = before.absorb(report) if before else PartitionStatus.first(report)
                self._statuses[report.partition] = status
                self._notice(before, status.report)
                self._notice_foreign(before, status)
        if self.history.due():
            self.history.take([_sample(status) for status in self.partitions()])

    def _notice(self, before: PartitionStatus | None, report: Report) -> None:
        """Add an event when an error stops a partition, with its first reason only, or when the partition recovers."""
        old, new = before.report.state if before else "", report.state
        if new == old or not {old, new} & {*STOPPED_BY_ERROR} or new in _PASSING:
            return
        last = self._events[-1] if self._events else None
        if (
            last
            and last.partition not in (None, report.partition)
            and (last.state, last.reason) == (new, report.reason)
        ):
            self._events[-1] = replace(last, others=last.others + 1)  # a cluster that is away stops them all
        else:
            self._events.append(Event(time.time(), report.partition, new, report.reason))

    def _notice_foreign(self, before: PartitionStatus | None, status: PartitionStatus) -> None:
        """Add an event when somebody else has written to a remote topic; while it goes on, one a minute."""
        if status.total.foreign <= (before.total.foreign if before else 0):
            return
        report, now = status.report, time.time()
        if now - self._foreign.get(report.partition.topic, 0.0) >= FOREIGN_INTERVAL:
            self._foreign[report.partition.topic] = now
            first, last = report.foreign
            said = f"somebody else wrote to {report.remote} on {self.labels[1]}, at offsets {first} to {last}"
            self._events.append(Event(now, report.partition, report.state, said))

    def planned(self, generation: int, slices: Iterable[Iterable[Partition]]) -> None:
        """Take a newer plan. Partitions that it lacks are forgotten: they are not mirrored any more."""
        dealt = [list(each) for each in slices]
        with self._lock:
            self.generation, self._slices = generation, dealt
            now = time.monotonic()
            self._planned = {partition: self._planned.get(partition, now) for each in dealt for partition in each}
            self._statuses = {p: s for p, s in self._statuses.items() if p in self._planned}
            topics = {partition.topic for partition in self._planned}
            self._foreign = {topic: at for topic, at in self._foreign.items() if topic in topics}

    def unreported(self) -> dict[Partition, float]:
        """Partitions of the plan that no task has ever reported, each with the seconds since it was planned."""
        now = time.monotonic()
        with self._lock:
            return {p: now - since for p, since in sorted(self._planned.items()) if p not in self._statuses}

    def keep_retention(self, seconds: Mapping[str, float]) -> None:
        """Take the time for which the source keeps the records of each topic."""
        self.kept = seconds

    @property
    def retention(self) -> Retention | None:
        """The partitions that the source's retention overtakes next; None if nothing waits, or that is not known."""
        return retention((each.report for each in self.partitions()), self.kept, time.time())

    def topics(self) -> set[str]:
        """The source topics of the newest plan."""
        return {partition.topic for partition in list(self._planned)}

    @property
    def size(self) -> int:
        """Number of partitions in the newest plan."""
        return len(self._planned)

    @property
    def tasks(self) -> int:
        """Number of slices in the newest plan, so of tasks."""
        return len(self._slices)

    def silent_partitions(self) -> int:
        """Number of partitions of the plan that no task has reported for SILENCE seconds."""
        with self._lock:
            return len(self._silent())

    def silent_tasks(self) -> int:
        """Number of tasks of the plan that have not reported any of their partitions for SILENCE seconds."""
        with self._lock:
            silent = self._silent()
            return sum(bool(each) and silent.issuperset(each) for each in self._slices)

    def _silent(self) -> set[Partition]:
        now = time.monotonic()
        seen = {partition: status.seen for partition, status in self._statuses.items()}
        return {p for p, since in self._planned.items() if is_silent(now - max(since, seen.get(p, 0.0)))}

    def bytes_per_second(self) -> dict[Partition, float]:
        """The rate of each partition over the last seconds; without those whose rate is not known yet."""
        windows = {s.report.partition: self.history.window(s.report.partition, s.total) for s in self.partitions()}
        return {partition: window.bytes_per_second for partition, window in windows.items() if window is not None}

    def throttled(self) -> frozenset[Partition]:
        """The partitions that would copy more without a throttle."""
        known = (status for status in self.partitions() if status.state != UNASSIGNED)
        return frozenset(status.report.partition for status in known if status.report.throttled)

    def partitions(self) -> list[PartitionStatus]:
        """The status of each partition that was reported, in order."""
        with self._lock:
            return [self._statuses[partition] for partition in sorted(self._statuses)]

    def events(self) -> list[Event]:
        """The last events, newest first."""
        with self._lock:
            return list(self._events)[::-1]


def _sample(status: PartitionStatus) -> Sample:
    return Sample(status.report.partition, max(0, status.report.lag), status.total)
