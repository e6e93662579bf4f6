"""One slice: a fetcher, a few transaction threads, and a supervisor that follows the plan and reports."""

from __future__ import annotations

import gc
import threading
import time
import uuid
from dataclasses import dataclass
from itertools import chain

from mirror.control.control_reader import ControlReader
from mirror.control.control_topics import Claim, ControlWriter
from mirror.control.decisions import Decision
from mirror.control.partition_state import State
from mirror.control.slice_claims import Claimant
from mirror.errors import FlowError, TaskHung
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.throttling import Throttles
from mirror.model import Partition, Position
from mirror.settings import Flow
from mirror.source.fetcher import BUFFER_RECORDS, Fetcher, Seek
from mirror.target.positions import Positions
from mirror.task.assignment import Assignment, Replaced
from mirror.task.replicator import Replicator
from mirror.task.scheduler import DelayQueue, Lane
from mirror.task.supervisor import Supervisor

THREADS_MAX = 128  # of transactions in a task


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

    def __init__(self, flow: Flow, leader: str, index: int, count: int, epoch: str) -> None:
        self.flow = flow
        self._identity = uuid.uuid4().hex
        self._index = index
        self._ready: DelayQueue[Replicator] = DelayQueue()
        self._room = threading.Lock()
        self._threads: list[threading.Thread] = []
        # Partitions that an error has stopped may wait for long at each try: they must leave threads for the others.
        self._for_stopped: Lane[Replicator] = Lane(max(1, flow.transaction_threads // 2))
        self.throttles = Throttles(flow)
        self._fetcher: Fetcher[Replicator] = Fetcher(flow, self.throttles.source)
        self.group_metadata = self._fetcher.group_metadata
        self.positions = Positions(flow.target, flow.group, flow.control_topic)
        self.source = ClusterAdmin(flow.source)
        self._writer = ControlWriter(flow)
        self._control = ControlReader(flow, follow=True)
        self._assignment = Assignment(flow, self._control, leader, index, count, self._identity)
        self._claimant = Claimant(flow, self._control, self._writer, Claim(index, self._identity, leader, epoch))
        parts = (self._assignment, self._control, self._writer, self._claimant)
        self._supervisor = Supervisor(self, *parts, self._fetcher.moves)

    def run(self) -> list[Receipt]:
        """Copy until the plan says to finish.

        Raises Replaced, ClusterAway, FlowError or TaskHung: Spark starts it again.
        """
        # Records make no cycles, but while they wait the collector would look through all of them again and again.
        gc.set_threshold(2 * BUFFER_RECORDS)
        try:
            self._control.read_to_end()
            if self._control.plan is None:  # there was one, or nobody would have started us
                where = f"flow {self.flow.name}: {self.flow.control_topic}"
                raise FlowError(f"{where} has no plan, it must have been deleted: the leader writes the plan again")
            if not self._assignment.stands:
                return []
            self._claimant.claim()
            self._control.read_to_end()
            self.have_threads(0)
            self._supervisor.start()
            while not self._supervisor.done.is_set():
                self._fetcher.poll()
            if not self._hangs:
                self._drain()
        finally:
            self._supervisor.done.set()
            self._ready.close()
            for thread in chain([self._supervisor], self._threads):  # the first may still add to the others
                if thread.is_alive() and not self._hangs:  # Spark ends a failed task's process, and with it what hangs
                    thread.join(self.flow.transaction_timeout)
            for replicator in self._fetcher.held.values():
                replicator.close_idle_producer()  # a Python worker is used again, and must not keep it
            self._supervisor.report()
            self._fetcher.close()
            if not self._hangs:  # else another thread may be within a call
                self.positions.close()
            self._control.close()
            self._writer.close(2.0)
        if self._supervisor.failure:
            raise self._supervisor.failure
        return [self._receipt(replicator) for replicator in self._fetcher.held.values()]

    @property
    def _hangs(self) -> bool:
        return isinstance(self._supervisor.failure, TaskHung)

    # What replicators ask of their owner.

    def wake(self, replicator: Replicator, delay: float) -> None:
        """Have `replicator.step` called in `delay` seconds."""
        self._ready.put(replicator, delay)

    def seek(self, replicator: Replicator, position: Position, number: int) -> None:
        """Have the consumer start again at `position`: the buffer's seek of this number."""
        self._fetcher.moves.put(Seek(replicator, position, number))

    def have_threads(self, slow: int) -> None:
        """Have as many threads as the flow wants, beside those of `slow` steps: they may wait for a dead broker."""
        while len(self._threads) < min(self.flow.transaction_threads + slow, THREADS_MAX):
            name = f"transactions-{len(self._threads)}"
            self._threads.append(threading.Thread(target=self._transact, name=name, daemon=True))
            self._threads[-1].start()
            if len(self._threads) > self.flow.transaction_threads:  # an error has stopped most of the slow ones
                self._admit(self._for_stopped.leave())

    def make_room(self) -> None:
        """Close the producers unused for longest while too many are open."""
        with self._room:
            opened = [r for r in list(self._fetcher.held.values()) if r.has_producer]
            excess = len(opened) + 1 - self.flow.producers_max
            for replicator in sorted(opened, key=lambda r: r.last_used):
                if excess <= 0:
                    return
                excess -= replicator.close_idle_producer()

    def still_ours(self, partition: Partition) -> bool:
        """Does the newest plan give us the partition? An unreadable plan counts as yes: we only try again."""
        try:
            return self._assignment.is_ours(partition)
        except Replaced:
            return False
        except Exception:  # whatever it is, the fence decides at the next try
            return True

    def decision(self, partition: Partition) -> Decision | None:
        """What somebody has decided about an incident of the partition, the last one; None: nothing."""
        return self._assignment.decisions.get(partition)

    @property
    def renew_interval(self) -> float:
        """Seconds between two commits of a position that stays the same."""
        return self._assignment.renew_interval

    def _transact(self) -> None:
        while (replicator := self._ready.take()) is not None:
            stopped = replicator.state.stopped_by_error
            if not stopped:  # it may have been waiting to enter, twice even, until it was copied again
                self._admit(self._for_stopped.next())
            elif not self._for_stopped.enter(replicator):
                continue
            try:
                replicator.step()
            finally:
                if stopped:
                    self._admit(self._for_stopped.leave())
            self._fetcher.progress.set()

    def _admit(self, replicator: Replicator | None) -> None:
        if replicator is not None:
            self._ready.put(replicator)

    def _drain(self) -> None:
        """Let running transactions end, begin no others."""
        held = self._fetcher.held.values()
        for replicator in held:
            replicator.release()
        deadline = time.monotonic() + self.flow.transaction_timeout
        while any(r.state is not State.RELEASED for r in held) and time.monotonic() < deadline:
            self._fetcher.progress.clear()
            self._fetcher.progress.wait(0.05)

    def _receipt(self, replicator: Replicator) -> Receipt:
        return Receipt(
            slice=self._index,
            topic=replicator.partition.topic,
            partition=replicator.partition.partition,
            remote_topic=replicator.topic.remote,
            position=replicator.position,
            records=replicator.counters.records,
            state=replicator.state.value,
        )
