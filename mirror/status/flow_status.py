"""What the service knows of one flow: its tasks' reports, what happened lately, and whether it is led."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from mirror.control.reports import Counters, Report
from mirror.control.state import STOPPED_BY_ERROR
from mirror.model import Partition
from mirror.status.rates import Recent, Sample
from mirror.timing import SILENCE

# unassigned: no task reports it. Of the others see control/state.py.
PARTITION_STATES = ("unassigned", "starting", "running", "paused", "retrying", "blocked")
# retrying and blocked as for a partition: the flow goes on by itself, or waits for a person. stopped: this service does
# not run it any more.
FLOW_STATES = ("starting", "running", "retrying", "blocked", "stopped")
EVENTS = 30  # that are remembered
_STARTING = "starting"


@dataclass(frozen=True, slots=True)
class Tally:
    """A partition's newest report, and the sum of what all its incarnations have counted: it never goes back."""

    report: Report
    seen: float  # monotonic
    since: float  # of its state; seconds since the Unix epoch
    total: Counters
    earlier: Counters = field(default_factory=Counters)
    ended: frozenset[str] = frozenset()  # earlier incarnations; what they still say is old

    @staticmethod
    def first(report: Report) -> Tally:
        """Of the first report since the service started."""
        return Tally(report, time.monotonic(), time.time(), report.counters)

    @property
    def age(self) -> float:
        """Seconds since the newest report came."""
        return time.monotonic() - self.seen

    @property
    def state(self) -> str:
        """One of PARTITION_STATES: what the report says, unless its task has let go or is silent."""
        return "unassigned" if self.report.state == "released" or self.age > SILENCE else self.report.state

    @property
    def waited(self) -> float | None:
        """Seconds that the next record has waited, 0 without one; None: not known."""
        since = self.report.behind_since
        if since <= 0:
            return None if since else 0.0
        return max(0.0, time.time() - since)

    @property
    def stuck(self) -> float:
        """Seconds that the source's last stable offset has stood still below the high watermark; 0: it does not."""
        since = self.report.stuck_since
        return max(0.0, time.time() - since) if since > 0 else 0.0

    def absorb(self, report: Report) -> Tally:
        """With a newer report; an older one, which a reader that lost its place can meet again, says nothing."""
        same = report.incarnation == self.report.incarnation
        if report.incarnation in self.ended or (same and report.counters.precedes(self.report.counters)):
            return self
        earlier, ended = self.earlier, self.ended
        if not same:
            earlier, ended = self.total, ended | {self.report.incarnation}
        total = earlier.plus(report.counters) if ended else report.counters
        since = self.since if report.state == self.report.state else time.time()
        return Tally(report, time.monotonic(), since, total, earlier, ended)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that an operator would want to know of later; without a partition it concerns the whole flow."""

    at: float  # seconds since the Unix epoch
    partition: Partition | None
    state: str
    reason: str
    others: int = 0  # partitions to which the same happened right after


class FlowStatus:
    """Reports of one flow's tasks under one leader. Safe to be used by several threads."""

    def __init__(self, source: str, target: str, leader: str) -> None:
        self.labels = (source, target)
        self.leads = False
        self.active = False  # does the Spark query run?
        self.stopped = False  # does this service not run it any more?
        self.generation = 0
        self.lost_tasks = 0  # whose slices other tasks of this service took over
        self.recent = Recent()
        self.ignored = 0  # records of the status topic that were no reports
        self._problem = _STARTING
        self._blocked = False  # does the problem wait for a person?
        self._lacking = ""
        self.refused: Collection[str] = ()  # remote topics: to create, to grow, or for their timestamps
        self._leader = leader
        self._lock = threading.Lock()
        self._tallies: dict[Partition, Tally] = {}
        self._planned: dict[Partition, float] = {}  # since when, monotonic
        self._slices: list[list[Partition]] = []  # of the newest plan
        self._events: deque[Event] = deque(maxlen=EVENTS)

    @property
    def problem(self) -> str:
        """Why the flow does not run as it should, for people; empty when it does."""
        return self._problem

    def tell_problem(self, text: str, blocked: bool = False) -> None:
        """Say why the flow does not run, or with "" that it does; `blocked`: only a person can end that."""
        with self._lock:
            before, self._problem, self._blocked = self._problem, text, blocked
            if text != before and (text or before != _STARTING):
                self._remember(text)

    @property
    def lacking(self) -> str:
        """What of the flow does not run while the rest does, for people; empty when all of it does."""
        return self._lacking

    @lacking.setter
    def lacking(self, text: str) -> None:
        with self._lock:
            before, self._lacking = self._lacking, text
            if text != before:
                self._remember(text)

    def remember(self, text: str) -> None:
        """Something happened to the flow that an operator would want to know of later."""
        with self._lock:
            self._remember(text)

    def _remember(self, text: str) -> None:
        self._events.append(Event(time.time(), None, self.state, text))

    @property
    def state(self) -> str:
        """One of FLOW_STATES."""
        if self.stopped:
            return "stopped"
        if self._problem and self._problem != _STARTING:
            return "blocked" if self._blocked else "retrying"
        return "running" if self.active else "starting"

    def absorb(self, reports: Iterable[Report]) -> None:
        """Take reports; those of another leader's tasks don't count, nor of partitions that are mirrored no more."""
        with self._lock:
            for report in reports:
                if report.leader != self._leader or (self.generation and report.partition not in self._planned):
                    continue
                before = self._tallies.get(report.partition)
                tally = before.absorb(report) if before else Tally.first(report)
                self._tallies[report.partition] = tally
                self._notice(before, tally.report)
        if self.recent.due():
            self.recent.take([self._sample(tally) for tally in self.tallies()])

    def _notice(self, before: Tally | None, report: Report) -> None:
        """Remember that an error stops a partition, with its first reason only, or that the partition has recovered."""
        old, new = before.report.state if before else "", report.state
        if new == old or not {old, new} & {*STOPPED_BY_ERROR} or new == "released":
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

    def _sample(self, tally: Tally) -> Sample:
        return Sample(tally.report.partition, max(0, tally.report.lag), tally.total)

    def planned(self, generation: int, slices: Iterable[Iterable[Partition]]) -> None:
        """There is a newer plan; partitions that are not in it are not mirrored any more."""
        dealt = [list(each) for each in slices]
        with self._lock:
            self.generation, self._slices = generation, dealt
            now = time.monotonic()
            self._planned = {partition: self._planned.get(partition, now) for each in dealt for partition in each}
            self._tallies = {p: t for p, t in self._tallies.items() if p in self._planned}

    def unreported(self) -> dict[Partition, float]:
        """Partitions of the plan that no task has ever reported, and for how many seconds they have been planned."""
        now = time.monotonic()
        with self._lock:
            return {p: now - since for p, since in sorted(self._planned.items()) if p not in self._tallies}

    @property
    def size(self) -> int:
        """Partitions of the newest plan."""
        return len(self._planned)

    @property
    def tasks(self) -> int:
        """Slices of the newest plan."""
        return len(self._slices)

    def silent(self) -> int:
        """How many partitions of the plan no task has reported for a while."""
        with self._lock:
            return len(self._silent())

    def silent_tasks(self) -> int:
        """How many tasks of the plan have said nothing for a while, of any of their partitions."""
        with self._lock:
            silent = self._silent()
            return sum(bool(each) and silent.issuperset(each) for each in self._slices)

    def _silent(self) -> set[Partition]:
        before = time.monotonic() - SILENCE
        seen = {partition: tally.seen for partition, tally in self._tallies.items()}
        return {p for p, since in self._planned.items() if max(since, seen.get(p, 0.0)) < before}

    def bytes_per_second(self) -> dict[Partition, float]:
        """Of each partition, over the last seconds; without those that nothing is known of yet."""
        rates = {}
        for tally in self.tallies():
            lately = self.recent.of(tally.report.partition, tally.total)
            if lately is not None:
                rates[tally.report.partition] = lately.counters.bytes / lately.seconds
        return rates

    def tallies(self) -> list[Tally]:
        """All partitions that were reported, in order."""
        with self._lock:
            return [self._tallies[partition] for partition in sorted(self._tallies)]

    def events(self) -> list[Event]:
        """The last ones, newest first."""
        with self._lock:
            return list(self._events)[::-1]
