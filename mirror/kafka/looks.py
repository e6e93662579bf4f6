"""Looks at records of a topic of the users': at where they are, not at what they have.

Their batches may be compressed, and librdkafka counts no headers when it says how much it holds. So a consumer that
fetches ahead could take any memory.
"""

from __future__ import annotations

from confluent_kafka import Consumer, Message

from mirror.kafka.clients import internal_consumer
from mirror.kafka.polling import polled
from mirror.settings import Cluster

# Bytes of a partition in an answer, which has one batch at least.
FIRST, SOME, MANY = 1, 4 * 2**10, 2**18
AT_ONCE = 1_000  # records


def look_consumer(
    cluster: Cluster,
    group: str,
    fetch_wait: float = 0.5,
    stable: bool = True,
    answer: int = SOME,
    reset: str = "earliest",
) -> Consumer:
    """A consumer that holds little. With many partitions, `answer` is FIRST. The rest is as for `internal_consumer`."""
    few = {"fetch.message.max.bytes": answer, "queued.min.messages": 1, "fetch.queue.backoff.ms": 1}
    return internal_consumer(cluster, group, reset, fetch_wait=fetch_wait, stable=stable, more=few)


def seen(consumer: Consumer, seconds: float) -> list[Message]:
    """What has come within so many seconds. It waits for no more: they would be fetched."""
    return polled(consumer, seconds, AT_ONCE)
