"""Fences producers from outside of the tasks that copy, so that nothing more is committed with their ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import Consumer

from mirror.clock import Clock
from mirror.kafka.throttling import Throttles
from mirror.kafka.transactional_ids import transactional_id
from mirror.model import Partition, Topic
from mirror.settings import Flow
from mirror.target.position_reader import PositionReader
from mirror.target.record_transactions import TransactionSession
from mirror.target.transactional_producer import TransactionalProducer

T = TypeVar("T")


def fence(flow: Flow, name: str, member: Consumer) -> None:
    """Fence whoever has a producer open with this transactional id, and end the transaction that it has left open.

    `member` is a consumer of the flow's group on the target. Raises ClusterAway or PartitionError.
    """
    producer = _producer(flow, name, member)
    _then_discard(producer.fence, producer.discard)


def as_owner(
    flow: Flow,
    partition: Partition,
    topic: Topic,
    positions: PositionReader,
    member: Consumer,
    act: Callable[[TransactionSession], T],
) -> T:
    """Fence the partition's owner, wait until all transactions that are open there have ended, and call `act`.

    `act` may load the position, and commit one with the session. Returns what it returns. Raises ClusterAway or
    PartitionError, and what `act` raises.
    """
    where = topic.remote, partition.partition
    producer = _producer(flow, transactional_id(flow, *where), member)
    session = TransactionSession(flow, partition, topic, producer, Clock())

    def acted() -> T:
        producer.fence()
        positions.await_no_open_transaction(*where)
        return act(session)

    return _then_discard(acted, session.discard)


def _producer(flow: Flow, name: str, member: Consumer) -> TransactionalProducer:
    return TransactionalProducer(flow, name, member.consumer_group_metadata(), Throttles(flow).target)


def _then_discard(call: Callable[[], T], discard: Callable[[], None]) -> T:
    """Make a call with a producer, and then discard the producer. Returns or raises what the call does.

    A `finally` would discard it while that exception is handled. After a fatal error the producer would then never be
    freed: kafka/clients.py says why.
    """
    try:
        result = call()
    except Exception as error:
        failure = error
    else:
        discard()
        return result
    discard()
    try:
        raise failure
    finally:
        del failure
