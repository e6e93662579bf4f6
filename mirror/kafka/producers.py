"""Creates librdkafka producers, for the target and for mirror's own topics. What clients.py says holds here, too."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaException, Producer

from mirror.errors import ClusterAway
from mirror.kafka.clients import INTERNAL_MAX, LIBRDKAFKA, Properties, base_properties
from mirror.settings import Cluster, Flow

# The retry back-off is short because each transaction may meet CONCURRENT_TRANSACTIONS, while the markers of the
# previous one are being written.
TARGET_PRODUCER_DEFAULTS: Properties = {
    "retry.backoff.ms": 1,
    "retry.backoff.max.ms": 50,
    "message.max.bytes": 1_000_000_000,  # the target topic decides what is too large
    "batch.size": 1_000_000,  # librdkafka's own defaults, set here because the pacing of deliveries has to know them
    "batch.num.messages": 10_000,
}

# Idempotence keeps the order of records when requests are retried. Only mirror creates a deleted topic again, with the
# configuration that it needs; a broker that creates topics itself (auto.create.topics.enable) uses its defaults.
TARGET_PRODUCER: Properties = {"enable.idempotence": True, "acks": "all", "allow.auto.create.topics": False}

# librdkafka's other names of properties that are fixed.
ALIASES = {"request.required.acks": "acks", "delivery.timeout.ms": "message.timeout.ms"}


def transactional_properties(flow: Flow, transactional_id: str) -> dict[str, Any]:
    """The target producer's properties for one `transactional.id`.

    The commit flushes a batch, so lingering never delays a lone record. With a shorter linger time a busy partition's
    records go in requests of a hundred, which cost both sides more than the records do. librdkafka also polls without
    pause while records that have lingered wait for the previous request (see TransactionalProducer.limit_undelivered).
    A longer one would stall a batch whose requests look full to us but are not.
    """
    return _target_properties(flow, transactional_id, linger=100)


def idempotent_properties(flow: Flow) -> dict[str, Any]:
    """The target producer's properties for a flow without transactions.

    After a record that fails, no later record is sent, and no record fails because of its age. So the delivered records
    are always the first ones of a batch. The last records of a batch linger, see IdempotentProducer.flush.
    """
    properties = _target_properties(flow, "", linger=5) | {"enable.gapless.guarantee": True, "message.timeout.ms": 0}
    del properties["transactional.id"]
    return properties


def request_limits(flow: Flow) -> tuple[int, int]:
    """How much fills one request of a target producer: bytes of keys and values, and number of records.

    The bytes are at least a megabyte, because with less, records of uneven size would too often look like a full
    request. Three full requests have to fit into the producer's queue.
    """
    properties = {**TARGET_PRODUCER_DEFAULTS, **flow.target.properties, **flow.target.producer, **fixed_producer(flow)}
    size = max(int(properties["batch.size"]), TARGET_PRODUCER_DEFAULTS["batch.size"])
    return size, min(int(properties["batch.num.messages"]), int(properties["queue.buffering.max.messages"]) // 3)


def _target_properties(flow: Flow, transactional_id: str, linger: int) -> dict[str, Any]:
    properties = {
        **TARGET_PRODUCER_DEFAULTS,
        "linger.ms": linger,
        "compression.type": flow.compression,
        **base_properties(flow.target),
        **flow.target.producer,
        **fixed_producer(flow),
        "transactional.id": transactional_id,
    }
    for other in ALIASES:  # of two names librdkafka takes the last one
        properties.pop(other, None)
    # librdkafka refuses a transaction timeout that is shorter than the timeout of one request.
    if "socket.timeout.ms" in properties:
        longest = properties["transaction.timeout.ms"] - 100
        properties["socket.timeout.ms"] = min(int(properties["socket.timeout.ms"]), longest)
    return properties


def fixed_producer(flow: Flow) -> dict[str, Any]:
    """What exactly-once requires of a target producer, whatever the user's properties say."""
    timeout = int(flow.transaction_timeout * 1000)  # a message must not outlive its transaction
    return {
        **TARGET_PRODUCER,
        "transaction.timeout.ms": timeout,
        "message.timeout.ms": timeout,
        # Batches are paced, so the queue never holds more than a few requests and a batch's offset syncs. A smaller
        # queue would refuse the same batch at every attempt.
        "queue.buffering.max.messages": max(100_000, 2 * flow.batch_max_records),
        "queue.buffering.max.kbytes": 1048576,
        # If the group's coordinator goes away at the wrong moment, librdkafka waits in send_offsets_to_transaction
        # without a limit until any connection of the producer changes. Closing an idle connection is such a change.
        "connections.max.idle.ms": timeout,
        # A lost connection must be noticed, and librdkafka only logs it: see transactional_producer.Disturbances.
        "log_level": 6,
        "log.connection.close": True,
    }


def internal_producer(cluster: Cluster) -> Producer:
    """An idempotent producer for mirror's own topics (claims, orders, decisions and reports).

    Where the caller leaves the partition to it, the producer takes the one that Java's producer would take for the key.
    """
    config = {
        **base_properties(cluster),
        **cluster.producer,
        **TARGET_PRODUCER,
        "linger.ms": 0,
        "partitioner": "murmur2",
        "compression.type": "gzip",
        "message.max.bytes": INTERNAL_MAX,
        "message.timeout.ms": 10_000,  # after this time a report is outdated
    }
    config.pop("transactional.id", None)
    return Producer(config, logger=LIBRDKAFKA)


def target_producer(cluster: Cluster, config: Properties, logger: Any) -> Producer:
    """A producer. Raises ClusterAway if it can't be made, as while a certificate and its key are being replaced."""
    try:
        return Producer(dict(config), logger=logger)
    except KafkaException as error:
        reason = f"no producer can be made: {error.args[0].str()}"
    raise ClusterAway(cluster.alias, reason)
