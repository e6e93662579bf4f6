"""The requests of one transaction of whole batches, in an order in which brokers take them.

What waits for what (docs/decisions/0006-acks-within-a-transaction.md):

1. Produce of the first batch, with a batch of each of our own topics that the same broker leads. It adds these
   partitions to the transaction, and of two requests that add something at once one is refused. So nothing else is
   under way.
2. Produce of what else is for our own topics, one request after another, for the same reason.
3. Produce of the other batches, one after another without a wait, and TxnOffsetCommit beside them.

That is two round trips if one broker leads all, or nothing is for our own topics; EndTxn is the third. What is for our
own topics names downstream offsets. They follow from that of the first batch, which is predicted, because the answer
has to have it, and all others follow each other: if not, the transaction is not ended.

A careful transaction depends on none of that: every batch waits for replication, and what is for our own topics is made
and sent after all answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from typing import TypeVar

from mirror.backoff import Backoff
from mirror.batches.stamping import stamp
from mirror.errors import Interleaved, OutcomeUnknown
from mirror.model import Position
from mirror.target.batch_take_over import Owner, check_remote
from mirror.target.beside import Beside
from mirror.target.coordination import AGAIN, PATIENCE, UNKNOWN, ask, codes, refusal
from mirror.target.position_metadata import encoded, terminated
from mirror.target.transaction_content import Made, Places, TransactionContent
from mirror.wire.cluster import Cluster
from mirror.wire.connection import Connection
from mirror.wire.error_codes import CODES
from mirror.wire.fetch import TopicKey
from mirror.wire.metadata import GROUP
from mirror.wire.offsets import Offset
from mirror.wire.produce import ALL, LEADER, PRODUCE, Batch, ProduceAnswer, Produced, produce
from mirror.wire.transactional import Identity, txn_offset_commit

T = TypeVar("T")

BASE_MAX = 2**62  # no log is so long, and what follows from an offset has to fit into 64 bits
# A request that adds waits inside the broker until the last transaction's markers are written, so it has connections
# of its own.
FIRST_PURPOSE, PURPOSE = "first", "produce"
# So does the first Produce, which is added before anything is appended. The broker says the last one when that fails
# (ReplicaManager.handleProduceAppend).
_AGAIN = AGAIN | codes("NETWORK_EXCEPTION", "NOT_ENOUGH_REPLICAS")
# A Produce that can't be replicated blocks its connection until then. Partitions that have met this share other
# connections, until they commit.
_UNREPLICATED, UNREPLICATED_PURPOSE = CODES["REQUEST_TIMED_OUT"], "unreplicated"


class BatchTransaction:
    """One transaction, up to its end. Its methods raise PartitionError and WireError; then nobody may end it."""

    def __init__(self, target: Cluster, owner: Owner, by: Identity, least: int) -> None:
        """`least` is an offset that the remote partition has reached: no batch can be before it."""
        self._target = target
        self._owner = owner
        self._by = by
        self._least = least
        self.begun = False  # True once a request was sent that begins it
        self._append_times: list[int] = []

    @property
    def replaces_timestamps(self) -> bool:
        """True if the target has replaced the timestamps of a batch by its own clock."""
        return any(each >= 0 for each in self._append_times)

    async def write(self, content: TransactionContent, predicted: int | None) -> tuple[Places, Position]:
        """Write the batches, which are changed, and what goes beside them. Returns where they are, and the position.

        `predicted` is where the first one will be, if that is known.
        """
        batches = await self._stamped(content)
        expected, made = await self._begin(batches[0], content, predicted)
        answers, committed = await asyncio.gather(
            self._send(batches[1:], LEADER), self.commit_position(made.position), return_exceptions=True
        )
        bases = [expected.bases[0], *(self._base(_checked(each), batches) for each in _checked(answers))]
        _checked(committed)
        for found, wanted in zip(bases, expected.bases, strict=True):
            if found != wanted:
                places = Places(bases, content.counts)
                raise self._interleaved(f"a batch is at {found} instead of {wanted}", places, predicted)
        return expected, made.position

    async def write_carefully(self, content: TransactionContent) -> tuple[Places, Position]:
        """Write the batches and what goes beside them, when nobody knows beforehand where the batches will be."""
        batches = await self._stamped(content)
        leader = await self._target.leader(*self._owner.where)
        bases = [self._base(await self._add(leader.node, batches[:1]), batches)]
        bases += [self._base(_checked(each), batches) for each in await self._send(batches[1:], ALL)]
        places = Places(bases, content.counts)
        if any(after < before + count for before, after, count in zip(bases, bases[1:], content.counts, strict=False)):
            raise Interleaved(f"{self._where}: two batches are said to be at the same place")
        made = content.made(places)
        await self.write_beside(made.others)
        await self.commit_position(made.position)
        return places, made.position

    async def write_beside(self, others: Sequence[Beside]) -> None:
        """Write to our own topics. Nothing else that adds to the transaction may be under way."""
        for node, some in await self._requests(others):
            await self._add(node, some)

    async def commit_position(self, position: Position) -> None:
        """Put the position into the transaction."""
        offset = Offset(position.offset, terminated(encoded(position)), position.epoch)
        request = txn_offset_commit(self._by, self._owner.group, {self._owner.where: offset})
        where = self._owner.where
        self.begun = True
        await ask(self._target, GROUP, self._owner.group, request, lambda found: (found.get(where, UNKNOWN),))

    async def _stamped(self, content: TransactionContent) -> list[Batch]:
        """The batches as they are sent, once each partition that gets something has a leader.

        If they were sent while one of our own topics has none, each try would leave batches that are aborted.
        """
        for topic in content.topics_beside:
            await self._target.leader(topic, 0)
        await self._target.leader(*self._owner.where)  # with it the topic's id is known
        check_remote(self._target, self._owner)
        found, sequence, remote = list[Batch](), 0, self._topic(self._owner.remote)
        for each in content.batches:
            stamp(each.data, self._by.producer, self._by.epoch, sequence)
            sequence += each.records
            found.append(Batch(remote, self._owner.partition, each.data))
        return found

    async def _begin(self, first: Batch, content: TransactionContent, predicted: int | None) -> tuple[Places, Made]:
        """Write the first batch and what is for our own topics. Returns where the batches have to be."""
        leader = await self._target.leader(*self._owner.where)
        made, requests, along = None, list[tuple[int, list[Batch]]](), list[Batch]()
        if content.topics_beside and predicted is not None:
            made = content.made(Places.following(predicted, content.counts))
            requests = await self._requests(made.others)
            along = next((some for node, some in requests if node == leader.node), [])
        base = self._base(await self._add(leader.node, [first, *along]), [first, *along])
        places = Places.following(base, content.counts)
        if made is None or base != predicted:
            if along:
                found = Places([base], content.counts[:1])
                raise self._interleaved(f"the first batch is at {base} instead of {predicted}", found, predicted)
            made = content.made(places)
            requests = await self._requests(made.others)
        for node, some in requests:
            if some is not along:
                await self._add(node, some)
        return places, made

    async def _requests(self, others: Sequence[Beside]) -> list[tuple[int, list[Batch]]]:
        """The requests for our own topics, in order, each with the node that it is for.

        No request names a topic twice: brokers would drop one of the batches, and acknowledge both.
        """
        found: list[tuple[int, list[Batch]]] = []
        sequences: dict[str, int] = {}
        for each in others:
            leader = await self._target.leader(each.topic, 0)
            sequence = sequences.get(each.topic, 0)
            stamp(each.data, self._by.producer, self._by.epoch, sequence)
            sequences[each.topic] = sequence + each.records
            batch = Batch(self._topic(each.topic), 0, each.data)
            free = (some for node, some in found if node == leader.node and each.topic not in _names(some))
            some = next(free, None)
            if some is None:
                found.append((leader.node, [batch]))
            else:
                some.append(batch)
        return found

    async def _add(self, node: int, batches: Sequence[Batch]) -> ProduceAnswer:
        """Send batches that may be the first of their partitions, and wait until they are replicated.

        They are sent again only when no partition has taken its batch. Markers are written soon, but replicas may be
        away for long, and each try is the whole batch.
        """
        deadline, backoff = time.monotonic() + PATIENCE, Backoff(0.002, 1.0)
        while True:
            connection = await self._target.connection(node, self._purpose(FIRST_PURPOSE))
            self.begun = True
            with _retired_if_given_up(connection):
                answer = await connection.ask(produce(self._by.name, batches, ALL))
            meant = [_meant(named, each, batches) for named, each in answer.partitions]
            if len(meant) != len(batches) or _names(meant) != _names(batches):
                raise OutcomeUnknown(f"an answer to {PRODUCE.name} does not have each partition once")
            errors = [each.error for _, each in answer.partitions]
            if not any(errors):
                return answer
            if not all(each in _AGAIN for each in errors) or time.monotonic() > deadline:
                self._refuse(answer, batches)
            await asyncio.sleep(backoff.next())

    async def _send(self, batches: Sequence[Batch], acks: int) -> Sequence[ProduceAnswer | BaseException]:
        """Send batches over one connection, so that they arrive in order. The last one waits for replication."""
        if not batches:
            return []
        leader = await self._target.leader(*self._owner.where)
        connection = await self._target.connection(leader.node, self._purpose(PURPOSE))
        each_acks = [acks] * (len(batches) - 1) + [ALL]
        sent = [
            connection.send(produce(self._by.name, [batch], each))
            for batch, each in zip(batches, each_acks, strict=True)
        ]
        with _retired_if_given_up(connection):
            return await asyncio.gather(*sent, return_exceptions=True)

    def _purpose(self, usual: str) -> str:
        return purpose(self._target, self._owner, usual)

    def _topic(self, name: str) -> TopicKey:
        return TopicKey(name, self._target.topic_id(name))

    @property
    def _where(self) -> str:
        return f"{self._owner.remote}-{self._owner.partition}"

    def _interleaved(self, text: str, places: Places, predicted: int | None) -> Interleaved:
        return Interleaved(f"{self._where}: {text}", astuple(places.appended(predicted)))

    def _base(self, answer: ProduceAnswer, batches: Sequence[Batch]) -> int:
        """Where the batch for the remote partition is."""
        self._refuse(answer, batches)
        for named, each in answer.partitions:
            if _meant(named, each, batches).topic.name == self._owner.remote and 0 <= each.base <= BASE_MAX:
                if each.base < self._least:
                    self._target.forget_leader(*self._owner.where)  # so that the topic's id is read anew
                    raise OutcomeUnknown(f"{self._where} begins anew: a batch is at {each.base}, below {self._least}")
                self._append_times.append(each.appended)
                return each.base
        raise OutcomeUnknown(f"an answer to {PRODUCE.name} does not say where {self._where} has its batch")

    def _refuse(self, answer: ProduceAnswer, batches: Sequence[Batch]) -> None:
        """Raise the first error, and take what the broker says of a newer leader."""
        for named, each in answer.partitions:
            if each.error:
                topic = _meant(named, each, batches).topic.name
                self._doubt_leader(topic, each, answer)
                if each.error == _UNREPLICATED:
                    self._target.unreplicated.add(self._owner.where)
                raise refusal(f"{PRODUCE.name} to {topic}-{each.partition}", each.error, each.message)

    def _doubt_leader(self, topic: str, refused: Produced, answer: ProduceAnswer) -> None:
        self._target.forget_leader(topic, refused.partition)
        if refused.leader and refused.leader.node in answer.addresses:
            address = answer.addresses[refused.leader.node]
            self._target.hint(topic, refused.partition, refused.leader, address)


def purpose(target: Cluster, owner: Owner, usual: str) -> str:
    """Which connections a transaction uses in place of the usual ones, or these."""
    return UNREPLICATED_PURPOSE if owner.where in target.unreplicated else usual


@contextmanager
def _retired_if_given_up(connection: Connection) -> Iterator[None]:
    """Retire the connection if who waits within gives up.

    Otherwise others would begin to wait there until the broker has answered requests that nobody needs any more.
    """
    try:
        yield
    except asyncio.CancelledError:
        connection.retire()
        raise


def _checked(found: T | BaseException) -> T:
    if isinstance(found, BaseException):
        raise found
    return found


def _names(batches: Sequence[Batch]) -> set[str]:
    return {each.topic.name for each in batches}


def _meant(named: str | bytes, produced: Produced, batches: Sequence[Batch]) -> Batch:
    """The batch that an answer is about: it has the topic's name or its id. Raises OutcomeUnknown for another one."""
    for each in batches:
        if named in (each.topic.name, each.topic.id) and produced.partition == each.partition:
            return each
    raise OutcomeUnknown(f"an answer to {PRODUCE.name} has a partition that the request does not have")
