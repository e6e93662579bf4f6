"""Writes one partition's transactions of whole batches, each with the position after it.

Requests of a transaction, and what each waits for (docs/decisions/0006):

1. Produce of the first batch, with records of our own topics that the same broker leads. It adds these partitions to
   the transaction, and of two requests that add something at once one is refused. So nothing else is under way.
2. Produce of records of our own topics that other brokers lead, one broker after another, for the same reason.
3. Produce of the other batches, one after another without a wait, and TxnOffsetCommit beside them.
4. EndTxn, once every answer is there, and each base offset follows the one before.

That is three round trips if one broker leads all, or there are no records of our own. Whatever else happens means
discard: the session is not used again, and the next one fences it, which ends its transaction.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mirror.backoff import Backoff
from mirror.batches.headers import RecordBatch
from mirror.batches.stamping import stamp
from mirror.errors import Interleaved, OutcomeUnknown, WireError
from mirror.target.batch_take_over import Owner
from mirror.target.coordination import AGAIN, PATIENCE, ask, codes, refusal
from mirror.wire.cluster import Cluster
from mirror.wire.fetch import TopicKey
from mirror.wire.metadata import GROUP, TRANSACTION
from mirror.wire.offsets import Offset
from mirror.wire.produce import ALL, LEADER, PRODUCE, Batch, ProduceAnswer, produce
from mirror.wire.transactional import Identity, end_txn, txn_offset_commit

# A request that adds waits in a lane of its own, inside the broker, until the last transaction's markers are written.
FIRST_LANE, LANE = "first", "produce"
# So does the first Produce, which is added before anything is appended. The broker says the last one when that fails
# (ReplicaManager.handleProduceAppend).
_AGAIN = AGAIN | codes("NETWORK_EXCEPTION", "NOT_ENOUGH_REPLICAS")


@dataclass(frozen=True, slots=True)
class Beside:
    """One batch for a topic of our own, which others write to as well."""

    topic: str
    partition: int
    data: memoryview


Own = Callable[[int], Sequence[Beside]]  # what goes beside batches whose first record has this downstream offset


class BatchSession:
    """The transactions of one producer. Its methods raise PartitionError; after that it must not be used any more.

    After Interleaved, the next session is `careful` in its first transaction: every batch waits for replication, so
    nothing depends on where the batches stand.
    """

    def __init__(self, target: Cluster, owner: Owner, by: Identity, careful: bool = False) -> None:
        self._target = target
        self._careful = careful
        self._owner = owner
        self._by = by
        self._next: int | None = None  # where the next transaction begins, if nobody else writes there

    async def commit(self, batches: Sequence[RecordBatch], position: Offset, own: Own | None = None) -> int:
        """Commit batches, perhaps none, and the position after them. Returns where the first record is, or -1.

        Batches are changed. The place of the records of our own depends on the batches' offset, which is predicted from
        the last transaction. A wrong prediction means discard.
        """
        try:
            base = await self._written(batches, position, own) if batches else -1
            if not batches:
                await self._commit_position(position)
            name = self._owner.name
            ended = await ask(self._target, TRANSACTION, name, end_txn(self._by, True), lambda found: (found.error,))
        except WireError as error:
            raise OutcomeUnknown(str(error), away=True) from error
        self._by = Identity(name, ended.producer, ended.epoch)
        if batches:
            self._careful = False
            self._next = base + sum(batch.records for batch in batches) + 1  # after the marker
        return base

    async def _written(self, batches: Sequence[RecordBatch], position: Offset, own: Own | None) -> int:
        """Everything but the end."""
        sequence = 0
        for batch in batches:
            stamp(batch.data, self._by.producer, self._by.epoch, sequence)
            sequence += batch.records
        base = await self._begin(batches[0], own)
        sent = await self._send(batches[1:])
        found = await asyncio.gather(self._commit_position(position), *sent, return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException):
                raise each
        expected = base + batches[0].records
        for batch, answer in zip(batches[1:], found[1:], strict=True):
            assert isinstance(answer, ProduceAnswer)
            at = self._base(answer, self._remote)
            if at != expected and not self._careful:
                raise Interleaved(f"{self._where}: a batch stands at {at} instead of {expected}")
            expected += batch.records
        return base

    async def _begin(self, batch: RecordBatch, own: Own | None) -> int:
        """Send the first batch, and the records of our own, with it where that is possible."""
        predicted, leader = self._next, await self._target.leader(*self._owner.where)
        remote = self._remote
        first, later = [Batch(remote, self._owner.partition, batch.data)], list[tuple[int, Batch]]()
        for node, each in await self._placed(own, predicted):
            if node == leader.node:
                first.append(each)
            else:
                later.append((node, each))
        base = self._base(await self._add(leader.node, first), remote)
        if predicted is None:
            later = await self._placed(own, base)
        elif base != predicted:
            raise Interleaved(f"{self._where}: the records stand at {base} instead of {predicted}")
        for node, each in later:
            await self._add(node, [each])
        return base

    async def _placed(self, own: Own | None, base: int | None) -> list[tuple[int, Batch]]:
        """The records of our own for this downstream offset, with the node that each goes to."""
        if own is None or base is None:
            return []
        found = []
        for each in own(base):
            leader = await self._target.leader(each.topic, each.partition)
            stamp(each.data, self._by.producer, self._by.epoch, 0)
            topic = TopicKey(each.topic, self._target.topic_id(each.topic))
            found.append((leader.node, Batch(topic, each.partition, each.data)))
        return found

    async def _add(self, node: int, batches: Sequence[Batch]) -> ProduceAnswer:
        """Send batches that are their partitions' first, and wait until they are replicated.

        They are sent again only when no partition has taken its batch.
        """
        deadline, backoff = time.monotonic() + PATIENCE, Backoff(0.002, 0.1)
        while True:
            connection = await self._target.connection(node, FIRST_LANE)
            answer = await connection.ask(produce(self._by.name, batches, ALL))
            errors = [each.error for _, each in answer.partitions]
            if not any(errors):
                return answer
            if not all(each in _AGAIN for each in errors) or time.monotonic() > deadline:
                self._refuse(answer)
            await asyncio.sleep(backoff.next())

    async def _send(self, batches: Sequence[RecordBatch]) -> list[asyncio.Future[ProduceAnswer]]:
        """Send batches over one connection, so that they arrive in order. Only the last one waits for replication."""
        if not batches:
            return []
        leader, remote = await self._target.leader(*self._owner.where), self._remote
        connection = await self._target.connection(leader.node, LANE)
        acks = [ALL if self._careful else LEADER] * (len(batches) - 1) + [ALL]
        return [
            connection.send(produce(self._by.name, [Batch(remote, self._owner.partition, batch.data)], each))
            for batch, each in zip(batches, acks, strict=True)
        ]

    async def _commit_position(self, position: Offset) -> None:
        request = txn_offset_commit(self._by, self._owner.group, {self._owner.where: position})
        await ask(self._target, GROUP, self._owner.group, request, lambda found: found.values() or (-1,))

    @property
    def _remote(self) -> TopicKey:
        return TopicKey(self._owner.remote, self._target.topic_id(self._owner.remote))

    @property
    def _where(self) -> str:
        return f"{self._owner.remote}-{self._owner.partition}"

    def _base(self, answer: ProduceAnswer, topic: TopicKey) -> int:
        self._refuse(answer)
        for named, each in answer.partitions:
            if named in (topic.id, topic.name) and each.partition == self._owner.partition:
                return each.base
        raise OutcomeUnknown(f"an answer to {PRODUCE.name} does not have {self._where}")

    def _refuse(self, answer: ProduceAnswer) -> None:
        """Raise the first error, and take what the broker says of a newer leader."""
        for _, each in answer.partitions:
            if each.error:
                self._target.forget_leader(*self._owner.where)
                if each.leader and each.leader.node in answer.addresses:
                    self._target.hint(*self._owner.where, each.leader, answer.addresses[each.leader.node])
                raise refusal(PRODUCE.name, each.error, each.message)
