"""How a session of whole batches becomes the owner of a partition: fence the last owner, then load the position."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from mirror.errors import OutcomeUnknown, PositionUnstable, Unavailable, Unsupported, WireError
from mirror.kafka.transactional_ids import transactional_id
from mirror.model import Position, Topic
from mirror.settings import Flow
from mirror.target.coordination import PATIENCE, STABLE, UNKNOWN, ask, committed_offsets, failed, refusal
from mirror.target.loading import LOOK_INTERVAL, Tokens, held
from mirror.target.open_transactions import ask_holding_producer
from mirror.target.position_metadata import decoded
from mirror.target.unconfirmed import Unconfirmed
from mirror.target.visible_records import has_records, is_visible
from mirror.wire.cluster import Cluster
from mirror.wire.connection import Connection
from mirror.wire.metadata import NO_ID, TRANSACTION, id_of
from mirror.wire.offsets import LIST_OFFSETS, Offsets, Where, list_offsets
from mirror.wire.transactional import END_TXN, NEEDED_LEVEL, TRANSACTION_VERSION, Identity, init_producer_id


@dataclass(frozen=True, slots=True)
class Owner:
    """Who copies to where: a transactional id, a group, a remote partition, and a topic for tokens."""

    name: str
    group: str
    remote: str
    partition: int
    token_topic: str
    timeout: float  # seconds of a transaction
    remote_id: bytes = NO_ID  # of the remote topic that the plan names; NO_ID if it does not say

    @classmethod
    def of(cls, flow: Flow, topic: Topic, partition: int) -> Owner:
        """The owner of a partition in a flow: the same as on the record path, so the two fence each other."""
        name = transactional_id(flow, topic.remote, partition)
        control, timeout = flow.control_topic, flow.transaction_timeout
        return cls(name, flow.group, topic.remote, partition, control, timeout, id_of(topic.remote_id))

    @property
    def where(self) -> Where:
        """Under what the position is committed."""
        return self.remote, self.partition


@dataclass(frozen=True, slots=True)
class TakenOver:
    """Who owns the partition now, and the position that was found; None if none was ever committed."""

    by: Identity
    position: Position | None
    end: int  # the remote partition's high watermark when the last owner was fenced
    has_records: bool = False  # visible ones, although there is no position
    torn: bool = False  # the position does not belong to the records: see Unconfirmed


async def take_over(
    target: Cluster,
    owner: Owner,
    tokens: Tokens,
    progressed: Callable[[], None] = lambda: None,
    last: Unconfirmed | None = None,
) -> TakenOver:
    """Fence whoever owns the partition, and load the position.

    In between, each transaction has to end that is open on the remote partition. A fenced producer has none, unless the
    target has lost its markers; then the next one would commit it, too. `progressed` is called after each part: each
    may take as long as a transaction. `last` is our last transaction, if nobody knows whether it took effect. Raises
    PartitionError, and Unsupported, before anybody is fenced, if the target can't be written to by whole batches.
    """
    try:
        check_target(await target.any())
        request = init_producer_id(owner.name, owner.timeout)
        entered = await ask(target, TRANSACTION, owner.name, request, lambda found: (found.error,))
        progressed()
        end = await _settled(target, owner)
        check_remote(target, owner)
        progressed()
        position = await _loaded(target, owner, tokens)
        # An owner may have failed in its first transaction, which leaves only what nobody sees.
        visible = position is None and await has_records(target, owner.where, end, progressed)
        progressed()
        torn = last is not None and last.concerns(position) and await _is_torn(target, owner, last, position)
    except Unsupported:
        raise
    except WireError as error:
        target.forget_leader(*owner.where)
        raise failed(error) from error
    return TakenOver(Identity(owner.name, entered.producer, entered.epoch), position, end, visible, torn)


async def _is_torn(target: Cluster, owner: Owner, last: Unconfirmed, found: Position | None) -> bool:
    return last.belonging(found, await is_visible(target, owner.where, last.first)) is not None


def check_target(connection: Connection) -> None:
    """Raise Unsupported unless the cluster uses transactions version 2, and Unavailable while the broker does not know.

    Without it, brokers of the same release add no partition by Produce, and keep the epoch after a transaction. All
    brokers of a cluster that uses it are new enough.
    """
    connection.version(END_TXN)
    finalized = connection.abilities.features.finalized
    if not finalized:  # it has just started, for a cluster of such a release uses some
        connection.close()  # the next one asks again
        raise Unavailable(f"{connection.name} does not know the cluster's features yet")
    level = finalized.get(TRANSACTION_VERSION, 0)
    if level < NEEDED_LEVEL:
        raise Unsupported(f"{TRANSACTION_VERSION} of the target is {level}, and has to be {NEEDED_LEVEL}")


def check_remote(target: Cluster, owner: Owner) -> None:
    """Raise OutcomeUnknown if the remote topic, as far as is known, is not the plan's: it was created again.

    Nothing may be written to it before the flow leader has seen that, too. Its plan then says what follows.
    """
    if owner.remote_id not in (NO_ID, target.topic_id(owner.remote)):
        target.forget_leader(*owner.where)  # perhaps only what we know of the topic is old: the next try asks
        raise OutcomeUnknown(f"{owner.remote} is another topic than the one that the plan names")


async def _settled(target: Cluster, owner: Owner) -> int:
    deadline = time.monotonic() + PATIENCE
    high = await _end(target, owner, stable=False)
    while await _end(target, owner, stable=True) < high:
        if time.monotonic() > deadline:
            producer = await ask_holding_producer(target, *owner.where)
            raise PositionUnstable(held(f"{owner.remote}-{owner.partition}", producer))
        await asyncio.sleep(LOOK_INTERVAL)
    return high


async def _end(target: Cluster, owner: Owner, stable: bool) -> int:
    leader = await target.leader(*owner.where)
    connection = await target.connection(leader.node)
    error, offset = await connection.ask(list_offsets(*owner.where, leader.epoch, stable))
    if error:
        target.forget_leader(*owner.where)
        raise refusal(LIST_OFFSETS.name, error)
    if offset < 0:  # it would look as if nothing had been copied
        raise OutcomeUnknown(f"an answer to {LIST_OFFSETS.name} says that {owner.remote} ends at {offset}")
    return offset


async def _loaded(target: Cluster, owner: Owner, tokens: Tokens) -> Position | None:
    """The position, once no transaction holds it."""
    token_topic, where = owner.token_topic, owner.where
    found = await committed_offsets(
        target, owner.group, token_topic, tokens, [where], lambda answer: _errors(answer, owner), STABLE
    )
    _, at = found[where]
    return decoded(at.offset, at.epoch, at.metadata)


def _errors(found: Offsets, owner: Owner) -> tuple[int, ...]:
    """The error codes of an answer to OffsetFetch."""
    failed, _ = found.found.get(owner.where, (UNKNOWN, None))
    return (found.error or failed,)
