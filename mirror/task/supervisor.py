"""A task's second thread: follows the plan, closes idle producers, reports once a second."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from mirror.backoff import Backoff
from mirror.control.control_reader import ControlReader
from mirror.control.control_topics import ControlWriter
from mirror.control.partition_state import State
from mirror.control.reported_positions import newer, reported_positions
from mirror.control.reports import Report
from mirror.control.slice_claims import Claimant
from mirror.errors import ClusterAway, MirrorError, PartitionError, TaskHung
from mirror.kafka import clients
from mirror.model import Partition, Position, Topic
from mirror.source.end_offsets import SourceEnds
from mirror.source.fetcher import Join, Leave, Move
from mirror.task.assignment import Assignment, Start, find_starts
from mirror.task.replicator import Owner, Replicator
from mirror.timing import REPORT_ALL_INTERVAL, REPORT_INTERVAL

log = logging.getLogger(__name__)

FOLLOW_TIMEOUT = 0.2  # seconds; a new plan wakes it at once
SLOW_AFTER = 5.0  # seconds that a step takes
HUNG_AFTER = 5  # transaction time-outs: a step waits at most one for each of deliveries, flush, position, commit, abort
HUNG_LEAST = 30.0  # seconds: what a take-over waits for does not depend on that time-out


class Supervisor(threading.Thread):
    """Owns `assigned`; hands joins and leaves to the fetcher, which owns the consumer."""

    def __init__(
        self,
        owner: Owner,
        assignment: Assignment,
        control: ControlReader,
        writer: ControlWriter,
        claimant: Claimant,
        moves: queue.SimpleQueue[Move[Replicator]],
    ) -> None:
        super().__init__(daemon=True, name="supervisor")
        self.done = threading.Event()
        self.failure: MirrorError | None = None
        self._owner = owner
        self._flow = owner.flow
        self._assignment = assignment
        self._control = control
        self._writer = writer
        self._claimant = claimant
        self._moves = moves
        self._source = clients.admin(owner.flow.source)
        self._assigned: dict[Partition, Replicator] = {}
        self._leaving: list[Replicator] = []
        self._resting: dict[Partition, Replicator] = {}  # paused
        self._positions: dict[Partition, Position] = {}  # of those that have let go: newer than their last report
        self._orders = assignment.orders
        self._decisions = assignment.decisions
        self._ends = SourceEnds(self._source, self._flow.open_transaction_warn_after)
        self._caught_up: dict[Partition, float] = {}  # when each last had no lag, seconds since the Unix epoch
        self._backoff = Backoff(0.2, 5.0)
        self._said = ""
        self._retry_at = 0.0
        self._report_at = 0.0
        self._said_of: dict[Partition, tuple[object, ...]] = {}
        self._all_said_at = 0.0

    def run(self) -> None:
        """Until the task has to finish, which is when `done` gets set."""
        try:
            while not self.done.is_set():
                self._follow()
                if time.monotonic() >= self._report_at:
                    self._report_at = time.monotonic() + REPORT_INTERVAL
                    self._tend()
                    self._ends.ask([*self._assigned, *self._resting])
                    self._writer.report(self._news())
                self._control.poll(FOLLOW_TIMEOUT)
                self._claimant.keep()
        except MirrorError as error:
            self.failure = error
        except Exception as error:  # without a supervisor the task would run blindly
            log.exception("defect", extra={"flow": self._flow.name})
            self.failure = MirrorError(f"{type(error).__name__}: {error}")
        finally:
            self.done.set()

    def report(self) -> None:
        """Say once more how each partition stands, after the task has finished."""
        self._writer.report(self._reports())

    def _follow(self) -> None:
        wanted = self._assignment.wanted()
        if wanted is None:
            self.done.set()
            return
        for partition, replicator in list(self._assigned.items()):
            if _is_over(replicator, wanted):
                self._release(self._assigned.pop(partition))
            elif self._assignment.is_paused(partition):
                self._release(self._assigned.pop(partition), State.PAUSED)
        for partition, replicator in list(self._resting.items()):
            if _is_over(replicator, wanted) or not self._assignment.is_paused(partition):
                self._release(self._resting.pop(partition))
                log.info("partition not paused any more", extra=self._where(replicator))
        self._let_go()
        if self._orders is not self._assignment.orders:  # who gave the new one waits for an answer
            self._orders = self._assignment.orders
            self._report_at = self._all_said_at = 0.0
        self._follow_decisions()
        held = {r.partition for r in self._leaving} | self._assigned.keys() | self._resting.keys()
        joining = {p: topic for p, topic in wanted.items() if p not in held}
        if joining and time.monotonic() >= self._retry_at:
            self._join(joining)

    def _follow_decisions(self) -> None:
        if self._decisions is not self._assignment.decisions:
            self._decisions = self._assignment.decisions
            for replicator in self._assigned.values():
                if replicator.incident is not None:
                    replicator.request(0.0)

    def _let_go(self) -> None:
        for replicator in [r for r in self._leaving if r.has_let_go]:
            self._leaving.remove(replicator)
            if replicator.position_topic_id:
                self._positions[replicator.partition] = replicator.at
            self._writer.report([self._report(replicator)])  # its last transaction counts too
            self._moves.put(Leave(replicator))
            if replicator.state is State.PAUSED:
                self._resting[replicator.partition] = replicator
                log.info("partition paused", extra={**self._where(replicator), "position": replicator.position})

    def _release(self, replicator: Replicator, into: State = State.RELEASED) -> None:
        replicator.release(into)
        self._leaving.append(replicator)
        if into is State.RELEASED:
            self._caught_up.pop(replicator.partition, None)

    def _join(self, joining: dict[Partition, Topic]) -> None:
        try:
            starts = self._find_starts(joining)
        except (ClusterAway, PartitionError) as error:
            state = State.BLOCKED if error.blocked else State.RETRYING
            self._wait_to_join(str(error), logging.DEBUG if error.away else logging.WARNING, state)
            return
        missing = len(joining) - len(starts)
        if missing:
            self._wait_to_join(
                f"the source gives no offsets of {missing} partitions, e.g. "
                f"{next(p for p in joining if p not in starts)}",
                logging.WARNING,
            )
        else:
            self._backoff.reset()
            self._said = ""
        for partition, start in starts.items():
            replicator = Replicator(self._owner, partition, joining[partition], start)
            if self._assignment.is_paused(partition):
                self._release(replicator, State.PAUSED)
            else:
                self._assigned[partition] = replicator
                self._moves.put(Join(replicator))

    def _find_starts(self, joining: dict[Partition, Topic]) -> dict[Partition, Start]:
        with ThreadPoolExecutor(1) as pool:  # meanwhile: records wait for both
            reports = pool.submit(reported_positions, self._flow, joining.keys(), self._assignment.size)
            positions = self._owner.positions
            return find_starts(
                self._flow, positions, self._source, joining, lambda: newer(reports.result(), self._positions)
            )

    def _wait_to_join(self, reason: str, level: int, state: State = State.RETRYING) -> None:
        self._retry_at = time.monotonic() + self._backoff.next()
        if reason != self._said:
            self._said = reason
            where = {"flow": self._flow.name, "state": state.value, "reason": reason}
            log.log(level, "partitions wait for their start", extra=where)

    def _tend(self) -> None:
        """What a partition needs now and then. Raises TaskHung."""
        now = time.monotonic()
        hung_after = max(HUNG_LEAST, HUNG_AFTER * self._flow.transaction_timeout)
        slow = 0
        for replicator in (*self._assigned.values(), *self._resting.values(), *self._leaving):
            lasts = replicator.step_lasts
            slow += lasts > SLOW_AFTER
            if lasts > hung_after:
                # Seen with librdkafka 2.16, whose send_offsets_to_transaction can forget its time-out.
                raise TaskHung(f"{replicator.partition}: a transaction hangs for {lasts:.0f} s; the task starts again")
        self._owner.have_threads(slow)
        for replicator in (*self._assigned.values(), *self._resting.values()):
            if replicator.position_is_old:
                replicator.request()
            elif replicator.has_producer and replicator.last_used < now - self._flow.producer_idle_timeout:
                replicator.close_idle_producer()

    def _news(self) -> Iterator[Report]:
        """What has changed since it was last said, and everything now and then, as a sign of life."""
        everything = time.monotonic() - self._all_said_at > REPORT_ALL_INTERVAL
        if everything:
            self._all_said_at = time.monotonic()
            self._said_of.clear()
        for report in self._reports():
            waits = (report.lag, report.behind_since, report.stuck_since)
            gist = (report.state, report.reason, report.position, report.last_commit, waits)
            if self._said_of.get(report.partition) != gist:
                self._said_of[report.partition] = gist
                yield report

    def _reports(self) -> Iterator[Report]:
        return map(self._report, [*self._assigned.values(), *self._resting.values()])

    def _report(self, replicator: Replicator) -> Report:
        lag = self._lag(replicator)
        throttled_by = self._owner.throttles.active if lag else []
        hold = self._ends.hold(replicator.partition)
        overdue = hold is not None and hold.lasts >= self._flow.open_transaction_warn_after
        reasons = [replicator.reason, *map(self._owner.throttles.reason, throttled_by)]
        reasons += [hold.reason] if hold and overdue else []
        return Report(
            leader=self._assignment.leader,
            incarnation=replicator.identity,
            generation=self._assignment.generation,
            partition=replicator.partition,
            remote=replicator.topic.remote,
            state=replicator.state.value,
            reason="; ".join(filter(None, reasons)),
            throttled_by=throttled_by,
            topic_id=replicator.position_topic_id,
            remote_id=replicator.at.remote_id,
            resets=replicator.at.resets,
            incident=replicator.incident,
            position=replicator.position,
            lag=lag,
            behind_since=self._behind_since(replicator, lag),
            last_commit=replicator.last_commit,
            counters=replicator.counters,
            stuck_since=hold.since if hold else 0.0,
            held_back=hold.offsets if hold and overdue else 0,
        )

    def _where(self, replicator: Replicator) -> dict[str, object]:
        topic, partition = replicator.partition
        return {"flow": self._flow.name, "topic": topic, "partition": partition}

    def _lag(self, replicator: Replicator) -> int:
        """Records up to the last stable offset; markers and aborted records at the end do not count."""
        end = self._ends.stable.get(replicator.partition)
        if end is None:
            return -1
        drained_to = replicator.buffer.drained_to
        position = replicator.position if replicator.position >= 0 else replicator.start.offset
        return max(0, end - (position if drained_to is None else max(position, drained_to)))

    def _behind_since(self, replicator: Replicator, lag: int) -> float:
        """When the next record came: by its timestamp, but not before the partition was last caught up.

        Records may have timestamps of long ago, and one whose fetch is still to come shows none.
        """
        if lag <= 0:
            if lag == 0:
                self._caught_up[replicator.partition] = time.time()
            return float(lag)
        timestamp = replicator.buffer.head_timestamp
        known = [timestamp / 1000] if timestamp is not None else []
        if replicator.partition in self._caught_up:
            known.append(self._caught_up[replicator.partition])
        return max(known, default=-1.0)


def _is_over(replicator: Replicator, wanted: Mapping[Partition, Topic]) -> bool:
    """Is the replicator not one for what is wanted (any more)?"""
    topic, ours = wanted.get(replicator.partition), replicator.topic
    if topic is None or replicator.state is State.RELEASED:
        return True
    theirs = (topic.topic_id, topic.remote, topic.remote_id, topic.remote_lost)
    return theirs != (ours.topic_id, ours.remote, ours.remote_id, ours.remote_lost)
