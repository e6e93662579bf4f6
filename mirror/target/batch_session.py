"""Writes the transactions of one partition on the batch path.

They contain what the record path writes, but whole record batches in place of single records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from mirror.batches.headers import RecordBatch
from mirror.clock import Clock
from mirror.errors import OutcomeUnknown, RecordsRefused, Unsupported, WireError
from mirror.model import Partition, Position, Topic
from mirror.settings import Flow
from mirror.target.batch_take_over import Owner, TakenOver, check_remote
from mirror.target.batch_transaction import FIRST_PURPOSE, PURPOSE, BatchTransaction, purpose
from mirror.target.beside import Beside, beside, topics_beside
from mirror.target.coordination import ask, failed
from mirror.target.runs import Runs
from mirror.target.session_marks import Due, Marks, SessionMarks
from mirror.target.transaction_content import Made, Places, TransactionContent
from mirror.target.written import Written
from mirror.wire.cluster import Cluster
from mirror.wire.metadata import TRANSACTION
from mirror.wire.transactional import end_txn

T = TypeVar("T")


class BatchSession:
    """The transactions of one producer, and what was written with it so far: offset syncs and map entries.

    Its methods raise PartitionError and Unsupported. After that it must not be used any more: the next session fences
    it, which ends its transaction. After RecordsRefused the record path has to find the record that the target refuses.
    """

    def __init__(
        self,
        target: Cluster,
        flow: Flow,
        partition: Partition,
        topic: Topic,
        taken: TakenOver,
        clock: Clock,
        careful: bool = False,
    ) -> None:
        """`careful` is for the first transaction after Interleaved."""
        self.end: int | None = None  # of the remote partition after the last transaction's records and marker
        self.duration = 0.0  # seconds that the last transaction took
        self.ended = 0.0  # when it ended, monotonic; 0: there was none
        # The position of the last transaction, and the remote offset of its first record, if its commit may have been
        # asked for. None once it is committed.
        self.commit_asked: tuple[Position, int] | None = None
        self._target = target
        self._flow = flow
        self._owner = Owner.of(flow, topic, partition.partition)
        self._by = taken.by
        self._least = taken.end
        self._clock = clock
        self._careful = careful
        self._transaction: BatchTransaction | None = None  # that is under way, or has failed
        self._marks = SessionMarks(flow, partition, topic)

    @property
    def in_transaction(self) -> bool:
        """True if a transaction was begun, and is not known to be committed."""
        return self._transaction is not None and self._transaction.begun

    @property
    def unsynced_tail(self) -> bool:
        """True if the last record has no offset sync yet."""
        return self._marks.tail is not None

    @property
    def quiet_until(self) -> float:
        """Until when a quota of the target holds a transaction back, by the loop's clock.

        If one began before, its time would pass though it could not send anything, or not all.
        """
        first, rest = (purpose(self._target, self._owner, each) for each in (FIRST_PURPOSE, PURPOSE))
        needs = [(self._owner.where, first), (self._owner.where, rest), *((each, first) for each in self._beside)]
        return max(self._target.quiet_until(*where, each) for where, each in needs)

    async def copy(self, batches: Sequence[RecordBatch], position: Position) -> Written:
        """Commit at least one batch, and the position after them. It overwrites the batches' producer id and sequence.

        `position.map_end` is where the map ended before this transaction. `copy` commits where it ends afterwards.
        """
        expected = self.end
        due = self._marks.due(Runs(range(each.first, each.last + 1) for each in batches), position)

        content = TransactionContent(batches, partial(self._made, due), topics_beside(self._flow, due))

        async def write(transaction: BatchTransaction) -> tuple[Places, Position]:
            if self._careful:
                return await transaction.write_carefully(content)
            return await transaction.write(content, expected)

        places, after = await self._run(write, lambda found: (found[1], found[0].bases[0]))
        self._careful = False
        self._least, self.end = places.last + 1, places.last + 2  # before and after the marker
        self._marks.committed(due, places.of(due.needed))
        return Written(sum(len(each.data) for each in batches), after, places.appended(expected))

    async def settle(self, position: Position) -> None:
        """Commit a position without records, and the sync of the last record if it has none yet."""
        tail = self._marks.tail

        async def write(transaction: BatchTransaction) -> None:
            if tail:
                await transaction.write_beside(self._dated(Marks([tail], (), position)))
            await transaction.commit_position(position)

        await self._run(write)
        if tail:
            self._marks.settled()

    async def commit_position(self, position: Position) -> None:
        """Commit only the position, as it is."""
        await self._run(lambda transaction: transaction.commit_position(position))

    def _made(self, due: Due, places: Places) -> Made:
        """What goes beside the records, and the position, once the downstream offsets are known."""
        marks = self._marks.marks(due, places.of(due.needed))
        return Made(self._dated(marks), marks.position)

    def _dated(self, marks: Marks) -> list[Beside]:
        """Batches of offset syncs and map entries, with the time now as timestamp."""
        return beside(self._flow, marks, int(self._clock.now() * 1000))

    async def _run(
        self,
        write: Callable[[BatchTransaction], Coroutine[Any, Any, T]],
        asked: Callable[[T], tuple[Position, int] | None] = lambda _: None,
    ) -> T:
        """Run one transaction, which `write` fills. The target aborts it when its time is over, so we give it up.

        `asked` makes `commit_asked` of what `write` returns.
        """
        check_remote(self._target, self._owner)
        begun = self._clock.monotonic()
        transaction = self._transaction = BatchTransaction(self._target, self._owner, self._by, self._least)
        try:
            async with asyncio.timeout(self._owner.timeout):
                found = await write(transaction)
                if transaction.replaces_timestamps and not self._flow.accept_log_append_time:
                    raise RecordsRefused(f"{self._owner.remote} replaces the timestamps of records")
                request = end_txn(self._by, True)
                self.commit_asked = asked(found)
                ended = await ask(self._target, TRANSACTION, self._by.name, request, lambda each: (each.error,))
        except Unsupported:
            raise
        except TimeoutError as error:
            self._forget_leaders()
            text = f"{self._owner.remote}-{self._owner.partition}: a transaction takes too long"
            raise OutcomeUnknown(text) from error
        except WireError as error:
            self._forget_leaders()
            raise failed(error) from error
        self.commit_asked = self._transaction = None
        self._target.unreplicated.discard(self._owner.where)
        self._by = replace(self._by, producer=ended.producer, epoch=ended.epoch)
        self.ended = self._clock.monotonic()
        self.duration = self.ended - begun
        return found

    def _forget_leaders(self) -> None:
        """A broker does not answer: perhaps others lead by now."""
        self._target.forget_leader(*self._owner.where)
        for where in self._beside:
            self._target.forget_leader(*where)

    @property
    def _beside(self) -> tuple[tuple[str, int], ...]:
        """The partitions of our own topics that a transaction may write to."""
        return (self._flow.offset_syncs_topic, 0), (self._flow.offset_map_topic, 0)
