"""A task's second thread: takes on and lets go partitions as the plan says, and reports once a second.

It also finds hung steps and closes idle producers.

It starts no task. Spark does that, also for a lost one: spark/slice_tasks.py.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from confluent_kafka import KafkaError

from mirror import logs
from mirror.control.control_reader import ControlReader
from mirror.control.control_topics import ControlWriter
from mirror.control.partition_state import State
from mirror.control.slice_claims import Claimant
from mirror.control.task_settings import TaskSettings
from mirror.errors import ClusterAway, MirrorError, PartitionError
from mirror.kafka import clients
from mirror.kafka.renewed import Renewed
from mirror.logs import OnChange
from mirror.model import Partition, Position, Topic
from mirror.source.end_offsets import SourceEnds
from mirror.source.fetcher import Fetcher
from mirror.source.holding_producers import HoldingProducers
from mirror.target.open_transactions import holding_producer
from mirror.task.copier import RecordCopier
from mirror.task.data_paths import Copier, DataPaths
from mirror.task.events import DecisionMade, LetGo, RenewalDue, ThrottleChanged
from mirror.task.known_positions import StartPoint
from mirror.task.reading_watch import ReadingWatch
from mirror.task.reporter import Reported, Reporter
from mirror.task.slice_plan import SlicePlan
from mirror.task.start_offsets import LastPositions, find_starts
from mirror.task.step_watch import StepWatch
from mirror.task.task_services import TaskServices
from mirror.task.thread_stack import stack_of
from mirror.task.transaction_threads import TransactionThreads
from mirror.task.waiting_partitions import WaitingPartitions
from mirror.text import BUG, plural
from mirror.timing import REPORT_INTERVAL

log = logging.getLogger(__name__)

FOLLOW_TIMEOUT = 0.2  # seconds; a new plan wakes the plan follower at once


class PlanFollower(threading.Thread):
    """Decides which partitions the task has. It asks the fetcher, which has the consumer, to start or stop fetching."""

    def __init__(
        self,
        services: TaskServices,
        plan: SlicePlan,
        control: ControlReader,
        writer: ControlWriter,
        claimant: Claimant,
        fetcher: Fetcher[RecordCopier],
        threads: TransactionThreads,
        paths: DataPaths,
    ) -> None:
        super().__init__(daemon=True, name="plan-follower")
        self.done = threading.Event()
        self.failure: MirrorError | None = None
        self._services = services
        self._flow = services.flow
        self._plan = plan
        self._control = control
        self._writer = writer
        self._claimant = claimant
        self._paths = paths
        self._main_thread_id = threading.get_ident()  # it creates this object, and polls the fetcher
        self._reading = ReadingWatch(lambda: fetcher.loops, services.clock)
        self._steps = StepWatch(services.flow, threads)
        self._source = Renewed(services.flow.source, lambda: clients.admin(services.flow.source))
        self._assigned: dict[Partition, Copier] = {}
        self._being_let_go: list[tuple[Copier, State]] = []  # each with the state that it was asked to enter
        self._paused: dict[Partition, Copier] = {}
        self._waiting = WaitingPartitions()
        self._last = LastPositions(services.flow)
        self._settings: TaskSettings | None = None  # as last followed
        self._orders = plan.orders
        self._decisions = plan.decisions
        holding = HoldingProducers(partial(holding_producer, self._flow.source))
        self._ends = SourceEnds(self._source, self._flow.open_transaction_warn_after, holding.of)
        self._reporter = Reporter(plan, services.clock, services.throttles, self._ends, self._reported, paths.of)
        self._waits_for = OnChange()
        self._report_at = 0.0

    def run(self) -> None:
        """Run until the task has to finish; then `done` is set."""
        try:
            while not self.done.is_set():
                self._follow()
                if time.monotonic() >= self._report_at:
                    self._report_at = time.monotonic() + REPORT_INTERVAL
                    self._check_steps()
                    if self._reading.hangs():
                        self._end_process()
                    self._ends.ask([*self._assigned, *self._paused, *self._waiting.all], self._paths.ends)
                    self._writer.report(self._reporter.news())
                self._control.poll(FOLLOW_TIMEOUT)
                self._claimant.keep()
        except MirrorError as error:
            self.failure = error
        except Exception as error:  # without a plan follower the task would not notice a new plan
            log.exception(BUG, extra={"flow": self._flow.name})
            self.failure = MirrorError(f"{type(error).__name__}: {error}")
        finally:
            self.done.set()

    def report(self) -> None:
        """Report once more how each partition stands, after the task has finished. Nobody has those that wait."""
        self._waiting.keep({})
        self._writer.report(self._reporter.all())

    def _held_copiers(self) -> list[Copier]:
        return [*self._assigned.values(), *self._paused.values()]

    def _reported(self) -> list[Reported]:
        return [*self._held_copiers(), *self._waiting.all.values()]

    def _follow(self) -> None:
        """Compare what the plan wants with what we hold: let go, pause, resume, join."""
        generation, wanted = self._wanted()
        if wanted is None:
            self.done.set()
            return
        self._last.follow(generation, wanted)
        self._follow_settings()
        self._follow_throttle()
        for partition, copier in list(self._assigned.items()):
            if _is_over(copier, wanted):
                self._ask_to_let_go(self._assigned.pop(partition))
            elif self._plan.is_paused(partition):
                self._ask_to_let_go(self._assigned.pop(partition), State.PAUSED)
        for partition, copier in list(self._paused.items()):
            if _is_over(copier, wanted) or not self._plan.is_paused(partition):
                self._ask_to_let_go(self._paused.pop(partition))
                log.info("partition resumed", extra=self._where(copier))
        self._finish_letting_go(wanted)
        if self._orders is not self._plan.orders:  # report now: whoever gave the order waits for an answer
            self._orders = self._plan.orders
            self._report_at = 0.0
            self._reporter.report_all_next()
        self._follow_decisions()
        held = {copier.partition for copier, _ in self._being_let_go} | self._assigned.keys() | self._paused.keys()
        joining = {p: topic for p, topic in wanted.items() if p not in held}
        self._waiting.keep(joining)
        if due := self._waiting.due(joining):
            self._join(due)

    def _wanted(self) -> tuple[int, Mapping[Partition, Topic] | None]:
        """What the plan wants, and the generation of that plan: another thread may read a newer one at any time."""
        while True:
            generation = self._plan.generation
            wanted = self._plan.wanted()
            if generation == self._plan.generation:
                return generation, wanted

    def _follow_settings(self) -> None:
        """Apply those settings of a newer plan that are copied into other objects."""
        if self._plan.settings != self._settings:
            self._settings = self._plan.settings
            self._ends.warn_after = self._plan.flow.open_transaction_warn_after
            if self._settings is not None:
                logs.set_level(self._settings.log_level)
            log.debug("task follows settings of the plan", extra={"flow": self._flow.name})

    def _follow_throttle(self) -> None:
        if self._services.limits.follow(self._plan.shares):
            for copier in self._assigned.values():
                copier.post(ThrottleChanged())

    def _follow_decisions(self) -> None:
        """Wake whose decision has come. The others keep their back-off: one look may read whole logs."""
        before, self._decisions = self._decisions, self._plan.decisions
        if self._decisions is before:
            return
        for partition, copier in self._assigned.items():
            if copier.snapshot.incident is not None and self._decisions.get(partition) is not before.get(partition):
                copier.post(DecisionMade())

    def _finish_letting_go(self, wanted: Collection[Partition]) -> None:
        for copier, next_state in [each for each in self._being_let_go if each[0].snapshot.has_become(each[1])]:
            self._being_let_go.remove((copier, next_state))
            seen = copier.snapshot
            report = self._reporter.one(copier)  # its last transaction counts too
            goes_on = copier.partition in wanted  # this task goes on: it is nobody else's
            if goes_on:
                self._last.keep(copier.partition, copier.topic, seen.position)
            if goes_on and seen.state is State.RELEASED:
                report = replace(report, state=State.STARTING.value)
            self._writer.report([report])
            self._paths.end(copier, goes_on)
            if not goes_on:  # another task goes on, and knows nothing of it
                self._services.unconfirmed.pop((copier.topic.remote, copier.partition.partition), None)
            if seen.state is State.PAUSED:
                self._paused[copier.partition] = copier
                log.info("partition paused", extra={**self._where(copier), "position": seen.position.offset})

    def _ask_to_let_go(self, copier: Copier, next_state: State = State.RELEASED) -> None:
        copier.post(LetGo(next_state))
        self._being_let_go.append((copier, next_state))
        if next_state is State.RELEASED:
            self._reporter.forget(copier.partition)

    def _join(self, joining: Mapping[Partition, Topic]) -> None:
        missing: dict[Partition, KafkaError] = {}
        try:
            starts = self._find_starts(joining, missing)
        except (ClusterAway, PartitionError) as error:
            state = State.BLOCKED if error.blocked else State.RETRYING
            self._note_tried(joining, dict.fromkeys(joining, str(error)), state)
            return
        self._source.note(bool(missing), "starts")
        reasons = {p: f"the source gives no offset to start at: {why.str()}" for p, why in missing.items()}
        self._note_tried(joining, reasons, State.RETRYING)
        self._last.begun({partition: joining[partition] for partition in starts})
        for partition, start in starts.items():
            paused = self._plan.is_paused(partition)
            copier = self._paths.copier(partition, joining[partition], start, paused)
            if paused:
                self._ask_to_let_go(copier, State.PAUSED)
            else:
                self._assigned[partition] = copier
                self._paths.begin(copier)

    def _find_starts(
        self, joining: Mapping[Partition, Topic], missing: dict[Partition, KafkaError]
    ) -> dict[Partition, StartPoint]:
        self._waiting.begin()

        def reported() -> Mapping[Partition, Position]:
            self._waiting.reported = found = self._last.of(joining, self._plan.size)
            return found

        with ThreadPoolExecutor(1) as pool:  # reads the reports while the positions are read: copying waits for both
            read, positions, source = pool.submit(reported), self._services.positions, self._source.client
            return find_starts(self._plan.flow, positions, source, joining, read.result, missing)

    def _note_tried(self, tried: Mapping[Partition, Topic], reasons: Mapping[Partition, str], state: State) -> None:
        """Report and log why partitions wait. If the status topic is away, nobody else logs it, and no report comes."""
        self._waiting.tried(tried, reasons, state)
        if not self._waiting.failed:
            self._waits_for.clear()
        if not reasons:
            return
        some, why = next(iter(reasons.items()))
        reason = f"{plural(len(reasons), 'partition')}, e.g. {some}: {why}"
        if self._waits_for.is_new(reason):
            where = {"flow": self._flow.name, "state": state.value, "reason": reason}
            log.warning("partitions wait for their start", extra=where)

    def _check_steps(self) -> None:
        """Find hung steps, ask for renewals, close idle producers. Called once a second. Raises TaskHung."""
        self._steps.check((*self._held_copiers(), *(copier for copier, _ in self._being_let_go)))
        self._paths.keep(self._assigned.values())
        now = self._services.clock.monotonic()
        for copier in self._held_copiers():
            seen = copier.snapshot
            if seen.position_is_old(now):
                copier.post(RenewalDue())
            elif seen.has_producer and seen.last_used < now - self._plan.flow.producer_idle_timeout:
                copier.close_idle_producer()

    def _end_process(self) -> None:
        """Kill this process, so that Spark starts the task in another one. The main thread hangs and can't end it."""
        where = {"flow": self._flow.name, "stack": stack_of(self._main_thread_id)}
        log.warning("reading hangs, the task's process is killed", extra=where)
        os.kill(os.getpid(), signal.SIGKILL)

    def _where(self, copier: Copier) -> dict[str, object]:
        return {"flow": self._flow.name, **copier.partition._asdict()}


def _is_over(copier: Copier, wanted: Mapping[Partition, Topic]) -> bool:
    """True if the plan no longer wants this copier."""
    topic, ours = wanted.get(copier.partition), copier.topic
    if topic is None or copier.snapshot.state is State.RELEASED:
        return True
    theirs = (topic.topic_id, topic.remote, topic.remote_id, topic.remote_lost, topic.compacted)
    return theirs != (ours.topic_id, ours.remote, ours.remote_id, ours.remote_lost, ours.compacted)
