"""Fences producers from outside of the tasks that copy, so that nothing more is committed with their ids."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer

from mirror.clock import Clock
from mirror.kafka.throttling import Throttles
from mirror.kafka.transactional_ids import transactional_id
from mirror.model import Partition, Position, Topic
from mirror.settings import Flow
from mirror.target.position_reader import PositionReader, to_commit
from mirror.target.record_transactions import TransactionSession
from mirror.target.transactional_producer import TransactionalProducer


def fence(flow: Flow, name: str, member: Consumer) -> None:
    """Fence whoever has a producer open with this transactional id, and end the transaction that it has left open.

    `member` is a consumer of the flow's group on the target. Raises ClusterAway or PartitionError.
    """
    producer = _producer(flow, name, member)
    _then_discard(producer.fence, producer.discard)


def commit_as_owner(
    flow: Flow,
    partition: Partition,
    topic: Topic,
    positions: PositionReader,
    member: Consumer,
    choose: Callable[[Position | None], Position | None],
) -> None:
    """Load a partition's position as its owner, and commit what `choose` makes of it; None: nothing.

    It fences the owner, and waits until all transactions that are open there have ended. So what it loads is the last
    word, and who takes the partition over after that fences us before we could commit. With `exactly_once: false`
    nobody is fenced. `member` is a consumer of the flow's group on the target. Raises ClusterAway or PartitionError,
    and what `choose` raises.
    """
    where = topic.remote, partition.partition
    if not flow.exactly_once:
        wanted = choose(positions.load(*where))
        if wanted is not None:
            positions.commit(to_commit(wanted, *where))
        return
    producer = _producer(flow, transactional_id(flow, *where), member)
    session = TransactionSession(flow, partition, topic, producer, Clock())

    def committed() -> None:
        producer.fence()
        positions.await_no_open_transaction(*where)
        wanted = choose(positions.load(*where))
        if wanted is not None:
            session.commit_position(wanted)

    _then_discard(committed, session.discard)


def _producer(flow: Flow, name: str, member: Consumer) -> TransactionalProducer:
    return TransactionalProducer(flow, name, member.consumer_group_metadata(), Throttles(flow).target)


def _then_discard(call: Callable[[], None], discard: Callable[[], None]) -> None:
    """Make a call with a producer, and then discard the producer. Raises what the call does.

    A `finally` would discard it while that exception is handled. After a fatal error the producer would then never be
    freed: kafka/clients.py says why.
    """
    try:
        call()
    except Exception as error:
        failure = error
    else:
        discard()
        return
    discard()
    try:
        raise failure
    finally:
        del failure
