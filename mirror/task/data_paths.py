"""The two ways to copy a partition in one task: makes the copiers of either path, and hands partitions over.

A hand-over is a take-over as any other: the one copier lets go at a transaction's end, and the other one fences, loads
and seeks. A partition leaves the batch path when its copier says so. Once its stay on the record path is over, it comes
back, if record batches fit again: the record path is told at which offset to end, because librdkafka does not tell
where batches begin.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from queue import SimpleQueue

from mirror.control.data_path import BATCHES, RECORDS, DataPath
from mirror.control.partition_state import State
from mirror.errors import MirrorError, TaskHung, Unsupported, WireError
from mirror.kafka.credentials import FileChanges
from mirror.model import Partition, Topic
from mirror.source.batch_boundary import boundary
from mirror.source.fetch_moves import Move, StartFetching, StopFetching
from mirror.source.fetch_session import Ends
from mirror.task.batch_copier import LET_GO
from mirror.task.batch_loop import BatchLoop
from mirror.task.batch_path_obstacles import DATA_PATH, obstacle
from mirror.task.cluster_releases import SOURCE, TARGET, Releases
from mirror.task.copier import RecordCopier
from mirror.task.events import EndAt
from mirror.task.known_positions import StartPoint
from mirror.task.path_memory import PathMemory
from mirror.task.supervised_batch_copier import SupervisedBatchCopier
from mirror.task.task_services import TaskServices
from mirror.text import BUG
from mirror.wire.fetch import TopicKey
from mirror.wire.metadata import id_of

log = logging.getLogger(__name__)

LOOKS_MAX = 16  # at once, for where batches begin

Copier = RecordCopier | SupervisedBatchCopier


@dataclass(frozen=True, slots=True)
class _Known:
    """What is remembered of a partition, while its topic stays the same."""

    topic_id: str
    memory: PathMemory


class DataPaths:
    """Only the plan follower calls it, but for `copiers` and `close`, which are the task's."""

    def __init__(self, services: TaskServices, moves: SimpleQueue[Move[RecordCopier]]) -> None:
        self._services = services
        self._moves = moves
        self._loop: BatchLoop | None = None
        self._unfit = ""  # why this task can have no batch path, as long as no file with a certificate changes
        self._changes = [FileChanges(services.flow.source), FileChanges(services.flow.target)]
        self._releases = Releases(services.clock)
        self._known: dict[Partition, _Known] = {}
        self._looks: dict[Partition, Future[bool]] = {}
        self._copying: dict[Partition, SupervisedBatchCopier] = {}

    @property
    def copiers(self) -> list[SupervisedBatchCopier]:
        """Those of the batch path, until they are ended."""
        return list(self._copying.values())

    @property
    def ends(self) -> Mapping[Partition, Ends]:
        """Where partitions on the batch path end, as far as its fetches say it now."""
        found = self._loop.fetcher.ends if self._loop is not None else {}
        keys = {here: each.fetches for here, each in self._copying.items()}
        return {here: found[key] for here, key in keys.items() if key and key in found}

    def of(self, partition: Partition) -> DataPath:
        """Which path the partition takes."""
        known = self._known.get(partition)
        return known.memory.path if known else DataPath(RECORDS, 0.0, "")

    def copier(self, partition: Partition, topic: Topic, start: StartPoint, paused: bool) -> Copier:
        """A copier on the path that the partition takes now: the record path if it is paused. It does not run yet."""
        if look := self._looks.pop(partition, None):  # it reads what the new copier reads
            look.cancel()
        memory = self._memory(partition, topic)
        if memory.start is not None and not start.known:  # asked for again, `latest` was a later offset
            start = replace(start, offset=memory.start)
        memory.start = None
        against = self._obstacle(partition, topic) or memory.keeps_off
        loop = None if paused or against else self._started()
        if loop is None:
            against = against or self._unfit or self._releases.too_old
            self._tell(partition, memory, RECORDS, "" if against == DATA_PATH else against)
            return RecordCopier(self._services.of_topic(partition.topic), partition, topic, start)
        self._tell(partition, memory, BATCHES, "")
        return SupervisedBatchCopier(loop.services, loop.call, partition, topic, start)

    def begin(self, copier: Copier) -> None:
        """Start a copier."""
        if isinstance(copier, RecordCopier):
            self._moves.put(StartFetching(copier))
            memory = self._known[copier.partition].memory
            if memory.end is not None:
                copier.post(EndAt(memory.end))
        elif self._loop is not None:
            self._copying[copier.partition] = copier
            self._loop.start(copier)

    def end(self, copier: Copier, goes_on: bool) -> None:
        """A copier has let go of its partition. `goes_on` is True if this task has it still, or pauses it."""
        known = self._known.get(copier.partition)
        if known is not None and goes_on and not (copier.start.known or copier.snapshot.position.topic_id):
            known.memory.start = copier.start.offset  # nothing was committed, and `latest` would be a later offset now
        if isinstance(copier, RecordCopier):
            self._moves.put(StopFetching(copier))
            if known is not None and copier.buffer.ended:
                known.memory.returns()
        else:
            self._copying.pop(copier.partition, None)
            left = copier.left
            if left is not None and left.reason in (SOURCE, TARGET):
                self._releases.found(left.reason)
            elif known is not None and left is not None and left.reason != LET_GO:
                known.memory.left(left.reason, left.until)

    def keep(self, copiers: Iterable[Copier]) -> None:
        """Now and then: have partitions leave a path that is not theirs any more.

        Raises TaskHung if the event loop hangs, MirrorError if it has died. Spark then starts the task again.
        """
        self._check_loop()
        if self._loop is not None:
            self._releases.keep(self._loop)
        elif self._services.flow.data_path == "records":
            return
        self._note_looks()
        for copier in copiers:
            against = self._obstacle(copier.partition, copier.topic)
            if isinstance(copier, SupervisedBatchCopier):
                if against:
                    copier.leave(against)
            elif not (against or copier.buffer.has_end) and copier.snapshot.state in (State.RUNNING, State.STARTING):
                self._look(copier)

    def _check_loop(self) -> None:
        if self._loop is None:
            return
        if self._loop.has_died:
            raise MirrorError("the event loop of the batch path has ended by a defect; the task starts again")
        if self._loop.silent_for > self._services.flow.transaction_timeout:
            log.warning("the event loop hangs", extra={"flow": self._services.flow.name, "stack": self._loop.stack})
            raise TaskHung("the event loop of the batch path hangs; the task starts again")

    def close(self, timeout: float) -> None:
        """End what runs on the batch path."""
        if self._loop is not None:
            self._loop.close(timeout)

    def _memory(self, partition: Partition, topic: Topic) -> PathMemory:
        known = self._known.get(partition)
        if known is None or known.topic_id != topic.topic_id:
            known = self._known[partition] = _Known(topic.topic_id, PathMemory(self._services.clock))
        return known.memory

    def _obstacle(self, partition: Partition, topic: Topic) -> str:
        if self._unfit and any([each.any() for each in self._changes]):
            self._unfit = ""  # perhaps the certificate's key had not come yet
        flow = self._services.flow.of_topic(partition.topic)
        return obstacle(flow, partition.topic, topic) or self._unfit or self._releases.too_old

    def _started(self) -> BatchLoop | None:
        """The event loop; None if the clusters need what only librdkafka has, or are too old."""
        if self._loop is None:
            for each in self._changes:
                each.note()
            try:
                self._loop = BatchLoop(self._services)
            except Unsupported as error:
                self._unfit = "client"
                where = {"flow": self._services.flow.name, "reason": str(error)}
                log.info(
                    "the record path is used: the batch path's client lacks what the configuration needs", extra=where
                )
            else:
                self._releases.ask_first(self._loop)
        return None if self._releases.too_old else self._loop

    def _tell(self, partition: Partition, memory: PathMemory, name: str, reason: str) -> None:
        if memory.take(name, reason):
            topic, number = partition
            where = {"flow": self._services.flow.name, "topic": topic, "partition": number, "reason": reason}
            log.info("partition takes the %s path", "batch" if name == BATCHES else "record", extra=where)

    def _look(self, copier: RecordCopier) -> None:
        """Look whether batches fit again after what the record path has read. It is told by the loop, at once."""
        known, loop = self._known.get(copier.partition), self._started()
        here = copier.partition
        if known is None or loop is None or here in self._looks or len(self._looks) >= LOOKS_MAX:
            return
        if not known.memory.may_return:
            return
        at = max(copier.snapshot.position.offset, copier.buffer.read_to)
        if at < 0:
            return
        known.memory.wait()
        key, plan = TopicKey(here.topic, id_of(copier.topic.topic_id)), self._services.plan

        async def look() -> bool:
            found = await boundary(loop.fetcher, key, here.partition, at, lambda: plan.largest(here.topic))
            if found is not None:
                copier.post(EndAt(found))
            return found is not None

        self._looks[here] = loop.ask(look())

    def _note_looks(self) -> None:
        """Learn of the looks that are over."""
        for partition, look in [each for each in self._looks.items() if each[1].done()]:
            del self._looks[partition]
            if look.cancelled():  # the event loop ends with the task, while the plan follower may go on for a moment
                continue
            known, error = self._known.get(partition), look.exception()
            if error is not None and not isinstance(error, WireError):
                log.error(BUG, extra={"flow": self._services.flow.name}, exc_info=error)
            elif known is not None and error is not None:
                known.memory.unanswered()
            elif known is not None and look.result():
                known.memory.told()
