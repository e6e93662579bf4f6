"""librdkafka clients: the user's properties, our defaults under them, what exactly-once fixes over them.

No client is called in an `except` block. If it raises, its KafkaError keeps the exception that is being handled for
ever (confluent-kafka 2.16), with the frames of its traceback and what they have: so producers that were given up stay.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from mirror.kafka.throttling import Throttle
from mirror.settings import Cluster, Flow

Properties = Mapping[str, Any]

INTERNAL_MAX = 8 * 2**20  # bytes of a record on mirror's own topics
FETCH_MAX = 8 * 2**20  # bytes in one answer of the source
QUEUE_RECORDS = 100  # that librdkafka holds while it asks for more
AWAY = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE})
OnError = Callable[[KafkaError], None]

# librdkafka's own lines go here; by default only what `log_level` or `debug` of the user asks for.
LIBRDKAFKA = logging.getLogger("mirror.librdkafka")
# What a broker, or librdkafka for it, tells a producer whose transactional id somebody else has opened since.
FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)

# Under the user's properties. Away clusters are reported once by us, so librdkafka itself keeps still.
DEFAULTS: Properties = {
    "client.id": "mirror",
    "log_level": 0,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 2000,
    "enable.metrics.push": False,
    # A lone broker that restarts may answer that there are no brokers: librdkafka drops the last one, and only
    # bootstraps again (KIP-1102) once this is over, by default five minutes.
    "metadata.recovery.rebootstrap.trigger.ms": 5000,
}

# Over the user's properties: the position lives on the target, and truncation must never be a silent jump.
SOURCE_CONSUMER: Properties = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
}

# A broker hands on what its disk gives. Without a look at the checksum the target would get it with a new, valid one.
CONSUMER_DEFAULTS: Properties = {"check.crcs": True}

# The short retry back-off is for CONCURRENT_TRANSACTIONS, which each transaction meets while the last one's markers are
# written.
TARGET_PRODUCER_DEFAULTS: Properties = {
    "retry.backoff.ms": 1,
    "retry.backoff.max.ms": 50,
    "message.max.bytes": 1_000_000_000,  # what is too large is the target topic's to say
    "batch.size": 1_000_000,  # librdkafka's own defaults: the pacing of deliveries has to know them
    "batch.num.messages": 10_000,
}

# An idempotent client asks for a producer id, which nobody has to allow an admin client.
PRODUCER_ONLY = frozenset({"transactional.id", "enable.idempotence"})

# Idempotence is what keeps the order over retries. A topic that was deleted is ours to make again, with what it needs:
# brokers that make topics of themselves (auto.create.topics.enable) would give it their defaults.
TARGET_PRODUCER: Properties = {"enable.idempotence": True, "acks": "all", "allow.auto.create.topics": False}


def is_away(error: KafkaError) -> bool:
    """Does the error say that a cluster does not answer now, rather than that it refuses?"""
    return error.code() in AWAY or error.retriable()


def _base(cluster: Cluster) -> dict[str, Any]:
    return {**DEFAULTS, **cluster.properties}


def source_consumer(flow: Flow, logger: Any, throttle: Throttle) -> Consumer:
    """A consumer on the source that is only ever given explicit offsets.

    Its `group.id` is the position's group, never joined or committed to on the source: it is there because
    `consumer_group_metadata()` of a consumer is what `send_offsets_to_transaction` takes. `logger` is told about
    metadata: it is the only word that librdkafka has for a topic that was created again.
    """
    user = {**_base(flow.source), **flow.source.consumer}
    config = {
        **CONSUMER_DEFAULTS,
        "fetch.queue.backoff.ms": 10,
        # librdkafka asks for the same again if an answer is not there, whole, within `socket.timeout.ms`: over a slow
        # link 50 MiB are not. It refuses less than a message may have.
        "fetch.max.bytes": max(FETCH_MAX, int(user.get("message.max.bytes", 0))),
        # Of all partitions in one queue. It bounds the queue's memory, for librdkafka counts no bytes of headers; and
        # live records wait behind those that catch up.
        "queued.min.messages": QUEUE_RECORDS,
        **user,
        **SOURCE_CONSUMER,
        "group.id": flow.group,
        "log_level": 7,
        "debug": "metadata",
        "throttle_cb": throttle,
    }
    return Consumer(config, logger=logger)


def batch_reader(flow: Flow) -> Consumer:
    """A consumer on the source with the user's properties that gets no more than one batch with each answer."""
    config = {
        **CONSUMER_DEFAULTS,
        **_base(flow.source),
        **flow.source.consumer,
        **SOURCE_CONSUMER,
        "group.id": flow.group,
        "fetch.message.max.bytes": 1,
        "fetch.wait.max.ms": 100,
    }
    return Consumer(config, logger=LIBRDKAFKA)


def position_reader(cluster: Cluster, group: str, isolation: str) -> Consumer:
    """A consumer that only asks for committed offsets of `group`; with read_committed for stable ones (KIP-447).

    Not an admin client: librdkafka's `ListConsumerGroupOffsets` dereferences a null pointer when the coordinator
    moves or loads, or waits for it for ever (librdkafka 2.16.1).
    """
    config = {**_base(cluster), **SOURCE_CONSUMER, "isolation.level": isolation, "group.id": group}
    return Consumer(config, logger=LIBRDKAFKA)


def internal_consumer(cluster: Cluster, group: str, reset: str = "earliest", metadata: Any = None) -> Consumer:
    """A consumer for one of mirror's own topics; says when it has read to the end.

    The logger `metadata` is told about metadata, as that of `source_consumer`.
    """
    config = {**_base(cluster), **SOURCE_CONSUMER, "auto.offset.reset": reset, "group.id": group}
    if metadata is not None:
        config |= {"log_level": 7, "debug": "metadata"}
    return Consumer(config, logger=LIBRDKAFKA if metadata is None else metadata)


def transactional_properties(flow: Flow, transactional_id: str) -> dict[str, Any]:
    """The target producer's properties for one `transactional.id`.

    A batch is flushed by its commit, so lingering delays no lone record. With less of it a busy partition's records go
    in requests of a hundred, which cost both sides more than the records, and librdkafka polls without pause while
    records that have lingered wait for the request before them (see TransactionalProducer.keep_down). More of it would
    stall a batch whose requests were taken for full and are not.
    """
    return _target_properties(flow, transactional_id, linger=100)


def idempotent_properties(flow: Flow) -> dict[str, Any]:
    """The target producer's properties where there are no transactions.

    After a record that fails none is sent, and none fails for its age: what is delivered is a batch's beginning.
    Its end is not flushed, see IdempotentProducer.flush, but lingers.
    """
    properties = _target_properties(flow, "", linger=5) | {"enable.gapless.guarantee": True, "message.timeout.ms": 0}
    del properties["transactional.id"]
    return properties


def request_limits(flow: Flow) -> tuple[int, int]:
    """When a request of the target's producers is full: bytes of keys and values, and records.

    At least a megabyte, or uneven records would too often be taken for a full one. Three have to fit into the queue.
    """
    properties = _target_properties(flow, "", linger=0)
    size = max(int(properties["batch.size"]), TARGET_PRODUCER_DEFAULTS["batch.size"])
    return size, min(int(properties["batch.num.messages"]), int(properties["queue.buffering.max.messages"]) // 3)


def _target_properties(flow: Flow, transactional_id: str, linger: int) -> dict[str, Any]:
    properties = {
        **TARGET_PRODUCER_DEFAULTS,
        "linger.ms": linger,
        "compression.type": flow.compression,
        **_base(flow.target),
        **flow.target.producer,
        **_fixed_producer(flow),
        "transactional.id": transactional_id,
    }
    # librdkafka refuses a transaction that is shorter than one request.
    if "socket.timeout.ms" in properties:
        longest = properties["transaction.timeout.ms"] - 100
        properties["socket.timeout.ms"] = min(int(properties["socket.timeout.ms"]), longest)
    return properties


def _fixed_producer(flow: Flow) -> dict[str, Any]:
    timeout = int(flow.transaction_timeout * 1000)  # a message must not outlive its transaction
    return {
        **TARGET_PRODUCER,
        "transaction.timeout.ms": timeout,
        "message.timeout.ms": timeout,
        # Batches are paced, so that the queue never has more than a few requests and a batch's offset syncs. A smaller
        # one would refuse the same batch again and again.
        "queue.buffering.max.messages": max(100_000, 2 * flow.batch_max_records),
        "queue.buffering.max.kbytes": 1048576,
        # When the group's coordinator goes away at the wrong moment, librdkafka waits in send_offsets_to_transaction
        # for any connection of the producer to change, without a limit. An idle one that is closed is such a change.
        "connections.max.idle.ms": timeout,
        # A lost connection is only logged, and must be noticed: see producer.Disturbances.
        "log_level": 6,
        "log.connection.close": True,
    }


def internal_producer(cluster: Cluster) -> Producer:
    """An idempotent producer for mirror's own topics (claims and reports)."""
    config = {
        **_base(cluster),
        **cluster.producer,
        **TARGET_PRODUCER,
        "linger.ms": 0,
        "compression.type": "gzip",
        "message.max.bytes": INTERNAL_MAX,
        "message.timeout.ms": 10_000,  # an old report is worth nothing
    }
    config.pop("transactional.id", None)
    return Producer(config, logger=LIBRDKAFKA)


def admin(cluster: Cluster, on_error: OnError | None = None, features: logging.Logger | None = None) -> AdminClient:
    """An admin client; librdkafka makes it of a producer, which must not be a transactional one.

    What each broker can do librdkafka tells nobody but a logger: `features`.
    """
    config = {key: value for key, value in _base(cluster).items() if key not in PRODUCER_ONLY}
    # Otherwise a request that waits for a broker that is down has librdkafka connect to it thousands of times a
    # second: each failure makes it ask again, which takes back the back-off (librdkafka 2.16).
    config["enable.sparse.connections"] = False
    if on_error:
        config["error_cb"] = on_error
    if features:
        config |= {"debug": "feature", "log_level": 7}
    return AdminClient(config, logger=features or LIBRDKAFKA)


def overridden(flow: Flow) -> list[str]:
    """One line for each of the user's properties that exactly-once replaces, for the log."""
    fixed_consumer = {**SOURCE_CONSUMER, "group.id": flow.group}
    fixed_producer = {**_fixed_producer(flow), "transactional.id": "one per partition"}
    pairs = [
        (flow.source, "consumer", {**flow.source.properties, **flow.source.consumer}, fixed_consumer),
        (flow.target, "producer", {**flow.target.properties, **flow.target.producer}, fixed_producer),
    ]
    return [
        f"clusters.{cluster.alias}: {key} is ignored for the {role}: exactly-once needs {str(ours).lower()}"
        for cluster, role, theirs, fixed in pairs
        for key, ours in fixed.items()
        if key in theirs and str(theirs[key]).lower() != str(ours).lower()
    ]
