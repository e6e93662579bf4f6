"""Lists the transactional ids of a cluster (KIP-664), which librdkafka can't."""

from __future__ import annotations

import time
from collections.abc import Mapping

from mirror.backoff import Backoff
from mirror.errors import Unavailable, Unsupported
from mirror.wire import messages
from mirror.wire.access import access
from mirror.wire.brokers import Brokers
from mirror.wire.connection import Connection
from mirror.wire.cursor import Cursor
from mirror.wire.messages import Api

TIMEOUT = 10.0  # seconds in which every broker has to answer
# A broker coordinates some transactional ids, and has to load them first.
_LOADING, _NOT_COORDINATOR, _NOT_AVAILABLE = 14, 16, 15

LIST_TRANSACTIONS = Api("ListTransactions", 66, 0)
# The end of the header (its tagged fields), no filter by state, none by producer id, tagged fields.
_EVERYTHING = b"\0" + b"\1" + b"\1" + b"\0"
_TRANSACTION_LEAST = 11  # bytes


def transactional_ids(properties: Mapping[str, str], topic: str) -> set[str]:
    """The transactional ids that we may see on the cluster that these librdkafka properties reach.

    These are also those whose last transaction has ended, until they expire. `topic` is any topic that exists there.
    Raises WireError; Unsupported for brokers before Kafka 3.0.
    """
    brokers = Brokers(access(properties))
    deadline, backoff = time.monotonic() + TIMEOUT, Backoff()
    try:
        while True:
            try:
                return {name for connection in brokers.all(topic) for name in _listed(connection)}
            except Unavailable:
                brokers.close()
                if time.monotonic() > deadline:
                    raise
            time.sleep(backoff.next())
    finally:
        brokers.close()


def _listed(connection: Connection) -> list[str]:
    versions = messages.api_versions(connection.request(messages.API_VERSIONS, b""))
    if LIST_TRANSACTIONS.key not in versions:
        raise Unsupported("brokers before Kafka 3.0 do not list transactions")
    throttled, error, names = decode(connection.request(LIST_TRANSACTIONS, _EVERYTHING))
    connection.throttled(throttled)
    if error in (_LOADING, _NOT_COORDINATOR, _NOT_AVAILABLE):
        raise Unavailable("a broker is loading its transactions")
    if error:
        raise Unsupported(f"ListTransactions was answered with {messages.error_name(error)}")
    return names


def decode(answer: Cursor) -> tuple[int, int, list[str]]:
    """The time for which the broker throttles us (ms), an error code, and the transactional ids. Raises Malformed."""
    answer.tags()
    throttled, error = answer.int32(), answer.int16()
    answer.compact_array(Cursor.compact_string, 1)  # states that the broker does not know
    names = answer.compact_array(_name, _TRANSACTION_LEAST)
    answer.tags()
    answer.end()
    return throttled, error, names


def _name(answer: Cursor) -> str:
    name = answer.compact_string()
    answer.int64(), answer.compact_string()  # producer id, state
    answer.tags()
    return name
