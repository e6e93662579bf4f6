"""Fences a producer from outside, so that nothing more is committed with its transactional id."""

from __future__ import annotations

from confluent_kafka import Consumer

from mirror.kafka.throttling import Throttles
from mirror.settings import Flow
from mirror.target.transactional_producer import TransactionalProducer


def fence(flow: Flow, transactional_id: str, member: Consumer) -> None:
    """Fence whoever has a producer open with this id, and end the transaction that it has left open.

    `member` is a consumer of the flow's group on the target. Raises ClusterAway or PartitionError.
    """
    metadata = member.consumer_group_metadata()
    producer = TransactionalProducer(flow, transactional_id, metadata, Throttles(flow).target)
    try:
        producer.fence()
    finally:
        producer.discard()
