"""Fences a producer from outside, so that nothing more is committed with its transactional id."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import Consumer

from mirror.kafka.throttling import Throttles
from mirror.settings import Flow
from mirror.target.transactional_producer import TransactionalProducer

T = TypeVar("T")


def fence(flow: Flow, transactional_id: str, member: Consumer) -> None:
    """Fence whoever has a producer open with this id, and end the transaction that it has left open.

    `member` is a consumer of the flow's group on the target. Raises ClusterAway or PartitionError.
    """
    metadata = member.consumer_group_metadata()
    producer = TransactionalProducer(flow, transactional_id, metadata, Throttles(flow).target)
    then_discard(producer.fence, producer.discard)


def then_discard(call: Callable[[], T], discard: Callable[[], None]) -> T:
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
