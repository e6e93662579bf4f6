"""Says whose transaction holds a partition, so that a person can end it."""

from __future__ import annotations

import asyncio

from mirror.errors import MirrorError, WireError
from mirror.kafka.credentials import properties_of
from mirror.settings import Cluster
from mirror.wire import cluster as wire
from mirror.wire.access import access
from mirror.wire.producers import open_transactions


def holding_producer(cluster: Cluster, topic: str, partition: int) -> str:
    """The same as `ask_holding_producer`, for a thread that has no client of its own."""

    async def asked() -> str:
        client = wire.Cluster(access(properties_of(cluster)))
        try:
            return await ask_holding_producer(client, topic, partition)
        finally:
            client.close()

    try:
        return asyncio.run(asked())
    except MirrorError:
        return ""


async def ask_holding_producer(client: wire.Cluster, topic: str, partition: int) -> str:
    """The producer of the transaction that has been open longest on a partition, for people.

    Empty if the cluster does not say it: it needs Read on the topic. `kafka-transactions.sh abort` takes what it has.
    """
    try:
        found = await open_transactions(client, topic, partition)
    except WireError:
        return ""
    if not found:
        return ""
    first = min(found, key=lambda each: each.start)
    return f" of producer id {first.producer_id} (epoch {first.producer_epoch}, start offset {first.start})"
