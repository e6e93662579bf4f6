"""The task of one slice: a fetcher, transaction threads, and a plan follower, which follows the plan and reports."""

from __future__ import annotations

import gc
import time
import uuid
from dataclasses import dataclass
from itertools import chain

from mirror.clock import Clock
from mirror.control.control_reader import ControlReader
from mirror.control.control_topics import Claim, ControlWriter
from mirror.control.partition_state import State
from mirror.control.slice_claims import Claimant
from mirror.errors import FlowError, TaskHung
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.throttling import Throttles
from mirror.settings import Flow
from mirror.source.fetcher import Fetcher
from mirror.source.full_buffers import BUFFER_RECORDS
from mirror.target.position_reader import PositionReader
from mirror.task.copier import RecordCopier
from mirror.task.data_paths import Copier, DataPaths
from mirror.task.events import LetGo
from mirror.task.interpreter_watch import interpreter_watch
from mirror.task.plan_follower import PlanFollower
from mirror.task.producer_budget import ProducerBudget
from mirror.task.rate_limits import RateLimits
from mirror.task.slice_plan import SlicePlan
from mirror.task.task_services import TaskServices
from mirror.task.transaction_threads import TransactionThreads
from mirror.task.transforming import import_early


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a task leaves of one partition when it ends: a row of the Spark source."""

    slice: int
    topic: str
    partition: int
    remote_topic: str
    position: int
    records: int
    state: str


class SliceTask:
    """Copies the partitions that the newest plan gives to slice `index`, until the plan says to finish."""

    def __init__(self, flow: Flow, service_id: str, index: int, count: int, restarts: int, spark_epoch: str) -> None:
        task_id = uuid.uuid4().hex
        self._flow = flow
        self._index = index
        throttles, clock = Throttles(flow), Clock()
        self._fetcher: Fetcher[RecordCopier] = Fetcher(flow, throttles.source)
        self._threads = TransactionThreads(flow, self._fetcher.progress)
        self._positions = PositionReader(flow.target, flow.group, flow.control_topic)
        self._writer = ControlWriter(flow)
        self._control = ControlReader(flow, follow=True)
        self._plan = SlicePlan(flow, self._control, service_id, index, count, restarts, task_id)
        self._claimant = Claimant(flow, self._control, self._writer, Claim(index, task_id, service_id, spark_epoch))
        services = TaskServices(
            plan=self._plan,
            positions=self._positions,
            source=ClusterAdmin(flow.source),
            throttles=throttles,
            group_metadata=self._fetcher.group_metadata,
            moves=self._fetcher.moves,
            scheduler=self._threads,
            producers=ProducerBudget(flow.producers_max),
            clock=clock,
            limits=RateLimits(clock),
        )
        self._paths = DataPaths(services, self._fetcher.moves)
        self._plan_follower = PlanFollower(
            services, self._plan, self._control, self._writer, self._claimant, self._fetcher, self._threads, self._paths
        )

    @interpreter_watch()
    def run(self) -> list[Receipt]:
        """Copy until the plan says to finish.

        Raises Replaced, ClusterAway, FlowError or TaskHung: Spark starts it again.
        """
        # Buffered records form no reference cycles, so Python's garbage collector need not scan them again and again.
        gc.set_threshold(2 * BUFFER_RECORDS)
        try:
            import_early(self._flow.transforms)  # until the slice is claimed, other tasks may copy its partitions
            self._control.read_to_end()
            if self._control.plan is None:  # there was one, or nobody would have started us
                where = f"flow {self._flow.name}: {self._flow.control_topic}"
                raise FlowError(
                    f"{where} has no plan, it must have been deleted: the flow leader writes the plan again"
                )
            if not self._plan.is_current:
                return []
            if self._flow.active_active and not self._plan.clusters:
                raise FlowError(f"flow {self._flow.name}: the plan has no cluster ids, which active_active needs")
            self._claimant.claim()
            self._control.read_to_end()
            self._threads.ensure_threads(slow=0)
            self._plan_follower.start()
            while not self._plan_follower.done.is_set():
                self._fetcher.poll()
            if not isinstance(self._plan_follower.failure, TaskHung):
                self._drain()
        finally:
            self._end()
        if self._plan_follower.failure:
            raise self._plan_follower.failure
        if self._hangs:
            raise TaskHung("a transform does not return; the task's process ends with it")
        return [self._receipt(copier) for copier in self._held]

    @property
    def _held(self) -> list[Copier]:
        return [*self._fetcher.held.values(), *self._paths.copiers]

    def _drain(self) -> None:
        """Wait until running transactions have ended. Begin no others."""
        held = self._held
        for copier in held:
            copier.post(LetGo(State.RELEASED))
        deadline = time.monotonic() + self._flow.transaction_timeout
        while any(map(_ends_soon, held)) and time.monotonic() < deadline:
            self._fetcher.progress.clear()
            self._fetcher.progress.wait(0.05)

    def _end(self) -> None:
        self._plan_follower.done.set()
        self._threads.close()
        self._paths.close(0.0 if self._hangs else self._flow.transaction_timeout)
        # The plan follower comes first: it may still start transaction threads.
        for thread in chain([self._plan_follower], self._threads.threads):
            if thread.is_alive() and not self._hangs:  # Spark ends a failed task's process, and with it what hangs
                thread.join(self._flow.transaction_timeout)
        for copier in self._fetcher.held.values():
            copier.close_idle_producer()  # a Python worker is used again, and must not keep it
        self._plan_follower.report()
        self._fetcher.close()
        if not self._hangs:  # else another thread may be within a call
            self._positions.close()
        self._control.close()
        self._writer.close(2.0)

    @property
    def _hangs(self) -> bool:
        held = self._fetcher.held.values()
        return isinstance(self._plan_follower.failure, TaskHung) or any(copier.hang_reason for copier in held)

    def _receipt(self, copier: Copier) -> Receipt:
        seen = copier.snapshot
        return Receipt(
            slice=self._index,
            topic=copier.partition.topic,
            partition=copier.partition.partition,
            remote_topic=copier.topic.remote,
            position=seen.position.offset,
            records=seen.counters.records,
            state=seen.state.value,
        )


def _ends_soon(copier: Copier) -> bool:
    """True if the partition is not released yet, but can be expected to be."""
    return copier.snapshot.state is not State.RELEASED and not copier.hang_reason
