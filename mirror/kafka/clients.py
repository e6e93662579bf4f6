"""Creates librdkafka clients: our defaults, then the user's properties, then what exactly-once requires.

The producers are in producers.py.

Never call a client inside an `except` block. In confluent-kafka 2.16 the KafkaError that it raises keeps the handled
exception, and every object in its frames, alive for ever. Discarded producers would never be freed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from mirror.errors import ClusterAway
from mirror.kafka.credentials import client_properties
from mirror.kafka.throttling import Throttle
from mirror.settings import Cluster, Flow

Properties = Mapping[str, Any]

INTERNAL_MAX = 8 * 2**20  # most bytes of a record on mirror's own topics
FETCH_MAX = 8 * 2**20  # most bytes in one answer of the source
QUEUE_RECORDS = 100  # librdkafka fetches more while it holds fewer records than these
QUEUE_BACKOFF = 10  # milliseconds until it looks again whether it does; its default of a second would hold up readers
OnError = Callable[[KafkaError], None]
C = TypeVar("C", Consumer, AdminClient)

# The logger for librdkafka's own lines: by default only those that the user's `log_level` or `debug` asks for.
LIBRDKAFKA = logging.getLogger("mirror.librdkafka")
# The user's properties override these. mirror reports an unreachable cluster once, so librdkafka's log is off.
DEFAULTS: Properties = {
    "client.id": "mirror",
    "log_level": 0,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 2000,
    "enable.metrics.push": False,
    # A lone broker that restarts may answer that there are no brokers. librdkafka then drops the last one, and
    # bootstraps again (KIP-1102) only after this time, by default five minutes.
    "metadata.recovery.rebootstrap.trigger.ms": 5000,
}

# These override the user's properties: the position is stored on the target, and a truncated log must never make the
# consumer jump silently.
SOURCE_CONSUMER: Properties = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
}

CONSUMER_DEFAULTS: Properties = {
    # A broker sends what its disk returns. Without this check a corrupt batch would get a new, valid checksum on the
    # target.
    "check.crcs": True,
    # A leader that is cut off from the other brokers, but not from us, goes on answering that there is nothing new. So
    # others are asked who leads each minute, as on the batch path; librdkafka's default is five minutes.
    "topic.metadata.refresh.interval.ms": 60_000,
}

# Milliseconds. A consumer always looks for its group's coordinator. However long no broker answers, librdkafka (2.16)
# tries to connect for that once in half of this time.
CONSUMER_BACKOFF = 250

# Removed for admin clients: an idempotent client requests a producer id, which an admin client may not be allowed.
PRODUCER_ONLY = frozenset({"transactional.id", "enable.idempotence"})

# A leader that does not know our rack names no nearer replica.
_FROM_LEADERS: Properties = {"client.rack": ""}


def base_properties(cluster: Cluster) -> dict[str, Any]:
    """Our defaults for any client, then the user's properties of the cluster. Raises what these raise."""
    return {**DEFAULTS, **client_properties(cluster)}


def _consumer_base(cluster: Cluster, section: Properties = MappingProxyType({})) -> dict[str, Any]:
    """Our defaults for a consumer, then the user's properties of the cluster, then those of its `section` for them.

    Raises what `client_properties` raises.
    """
    user = {**client_properties(cluster), **section}
    # librdkafka refuses a back-off above the longest one, which may be the user's.
    longest = int(user.get("reconnect.backoff.max.ms", CONSUMER_BACKOFF))
    return {**DEFAULTS, **CONSUMER_DEFAULTS, "reconnect.backoff.ms": min(CONSUMER_BACKOFF, longest), **user}


def source_consumer(flow: Flow, logger: Any, throttle: Throttle, from_leaders: bool = False) -> Consumer:
    """A consumer on the source. It only ever reads from offsets that it is given explicitly.

    With `from_leaders` it does so from no nearer replica (KIP-392), whatever the user's properties say.

    Its `group.id` is the position's group. The consumer never joins it or commits to it on the source; it has the group
    because `send_offsets_to_transaction` takes a consumer's `consumer_group_metadata()`. `logger` gets the debug lines
    about metadata: librdkafka reports a recreated topic in no other way.
    """
    user = _consumer_base(flow.source, flow.source.consumer)
    config = {
        "fetch.queue.backoff.ms": QUEUE_BACKOFF,
        # librdkafka repeats a request whose whole answer does not arrive within `socket.timeout.ms`. The default answer
        # of 50 MiB takes longer on a slow link. librdkafka refuses a value below `message.max.bytes`.
        "fetch.max.bytes": max(FETCH_MAX, int(user.get("message.max.bytes", 0))),
        # All partitions share one queue. A small value bounds its memory, because librdkafka does not count the bytes
        # of headers, and lets live records pass soon, because they queue after those of partitions that catch up.
        "queued.min.messages": QUEUE_RECORDS,
        **user,
        **SOURCE_CONSUMER,
        **(_FROM_LEADERS if from_leaders else {}),
        "group.id": flow.group,
        "log_level": 7,
        "debug": "metadata",
        "throttle_cb": throttle,
    }
    return Consumer(config, logger=logger)


def batch_reader(flow: Flow) -> Consumer:
    """A consumer on the source with the user's properties. Each answer that it gets has at most one record batch.

    It reads from leaders: what only another replica lacks is not lost.
    """
    config = {
        **_consumer_base(flow.source, flow.source.consumer),
        **SOURCE_CONSUMER,
        **_FROM_LEADERS,
        "group.id": flow.group,
        "fetch.message.max.bytes": 1,
        "fetch.wait.max.ms": 100,
    }
    return Consumer(config, logger=LIBRDKAFKA)


def group_reader(cluster: Cluster, group: str, isolation: str) -> Consumer:
    """A consumer that only reads committed offsets of `group`; with read_committed, stable ones (KIP-447).

    It is not an admin client, because librdkafka's `ListConsumerGroupOffsets` dereferences a null pointer when the
    coordinator moves or loads, or waits for it for ever (librdkafka 2.16.1). All admin requests to a coordinator abort
    the process if they time out before it is found: see ClusterAdmin.active_groups.
    """
    config = {**_consumer_base(cluster), **SOURCE_CONSUMER, "isolation.level": isolation, "group.id": group}
    return Consumer(config, logger=LIBRDKAFKA)


def group_committer(cluster: Cluster, group: str, on_commit: Callable[..., None]) -> Consumer:
    """A consumer that only commits offsets of `group`; `on_commit` gets an error or None, and the partitions.

    librdkafka holds a commit back for as long as a session while there is no coordinator, and then sends it up to three
    times, waiting for an answer. These limits make that less than a minute in all.
    """
    own = {"group.protocol": "classic", "session.timeout.ms": 6_000, "socket.timeout.ms": 10_000}
    config = {**_consumer_base(cluster), **SOURCE_CONSUMER, **own, "group.id": group, "on_commit": on_commit}
    return Consumer(config, logger=LIBRDKAFKA)


def internal_consumer(
    cluster: Cluster,
    group: str,
    reset: str = "earliest",
    metadata: Any = None,
    fetch_wait: float = 0.5,
    stable: bool = True,
    more: Properties = MappingProxyType({}),
) -> Consumer:
    """A consumer for one of mirror's own topics. It reports when it has reached the end.

    The logger `metadata` gets the debug lines about metadata, which report a recreated topic. A broker waits for
    `fetch_wait` seconds before it answers that there is nothing to read. With `stable` False it also gets what was not
    committed. `more` are other properties. Raises ClusterAway if it can't be made.
    """
    config = {**_consumer_base(cluster), **SOURCE_CONSUMER, "auto.offset.reset": reset, "group.id": group}
    config["fetch.wait.max.ms"] = round(1_000 * fetch_wait)
    # librdkafka counts no headers, so only the number of records bounds what it holds.
    config |= {"queued.min.messages": QUEUE_RECORDS, "fetch.queue.backoff.ms": QUEUE_BACKOFF}
    if not stable:
        config["isolation.level"] = "read_uncommitted"
    if metadata is not None:
        config |= {"log_level": 7, "debug": "metadata"}
    logger = LIBRDKAFKA if metadata is None else metadata
    return _made(cluster, "consumer", lambda: Consumer({**config, **more}, logger=logger))


def admin(
    cluster: Cluster,
    on_error: OnError | None = None,
    features: logging.Logger | None = None,
    patience: float | None = None,
) -> AdminClient:
    """An admin client. librdkafka builds it from a producer, which must not be transactional.

    The logger `features` gets the lines about what each broker supports: librdkafka only logs that. A connection that
    gives no answer for `patience` seconds is replaced, whatever the user's properties say. By default librdkafka keeps
    it for a minute, however soon the request is given up. Raises ClusterAway if it can't be made.
    """
    config = {key: value for key, value in base_properties(cluster).items() if key not in PRODUCER_ONLY}
    # Otherwise librdkafka connects thousands of times a second to a broker that is down while a request waits for it:
    # each failure makes it ask for a connection again, which resets the back-off (librdkafka 2.16).
    config["enable.sparse.connections"] = False
    if patience is not None:
        config |= dict.fromkeys(("socket.timeout.ms", "socket.connection.setup.timeout.ms"), round(1_000 * patience))
    if on_error:
        config["error_cb"] = on_error
    if features:
        config |= {"debug": "feature", "log_level": 7}
    return _made(cluster, "admin client", lambda: AdminClient(config, logger=features or LIBRDKAFKA))


def _made(cluster: Cluster, what: str, make: Callable[[], C]) -> C:
    """A client. Raises ClusterAway if librdkafka makes none, as while a certificate and its key are being replaced."""
    try:
        return make()
    except KafkaException as error:
        reason = f"no {what} can be made: {error.args[0].str()}"
    raise ClusterAway(cluster.alias, reason)
