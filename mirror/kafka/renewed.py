"""Replaces a client that has lost its cluster.

librdkafka (2.16) can lose a cluster for ever, if the cluster has one broker. When that broker has just started, or has
hung for longer than its session, it answers for a moment that there are no brokers. librdkafka then drops the broker,
and the broker's thread asks for a new bootstrap (KIP-1102). But the answer counts as a success, and a success cancels
a bootstrap that was asked for before. So if the thread is quick, its bootstrap is cancelled. From then on the client
knows no broker, and nothing makes it look for one.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition

from mirror.model import Partition

RENEW_AFTER = 30.0  # seconds; longer than one request may take
LOOK_TIMEOUT = 1.0  # seconds
IN_USE = 60.0  # seconds; a request that another thread has made with the client lasts no longer

C = TypeVar("C")


class Outage:
    """Finds out whether all tries of the last RENEW_AFTER seconds have failed."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._since: float | None = None

    def note(self, failed: bool) -> None:
        """Take note of a try."""
        if not failed:
            self._since = None
        elif self._since is None:
            self._since = self._monotonic()

    def is_long(self) -> bool:
        """True if all tries have failed for RENEW_AFTER seconds. Then it starts to count anew."""
        if self._since is None or self._monotonic() - self._since < RENEW_AFTER:
            return False
        self._since = None
        return True

    def has_lost(self, consumer: Consumer, partitions: Iterable[Partition], silent: bool) -> bool:
        """Take note of a poll of these partitions, `silent` if it gave nothing. True if their cluster is lost."""
        self.note(silent)
        return self.is_long() and not finds_a_broker(consumer, next(iter(partitions)))


class Renewed(Generic[C]):
    """Holds a client, and replaces it after RENEW_AFTER seconds of failures.

    Failures are counted for each kind of request: see `note`. It is enough that all requests of one kind fail. If the
    cluster is away, they fail as well. Then the client is replaced, too, which does no harm.
    """

    def __init__(self, make: Callable[[], C], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._outages: defaultdict[str, Outage] = defaultdict(lambda: Outage(monotonic))
        self._client = make()

    @property
    def client(self) -> C:
        """The client. It is replaced first if requests have failed for long enough."""
        # A list, so that each outage is asked: `is_long` starts its count anew.
        if any([outage.is_long() for outage in list(self._outages.values())]):
            end_later(self._client)
            self._client = self._make()
        return self._client

    def note(self, failed: bool, what: str = "") -> None:
        """Take note of a request. Requests for different things (`what`) are counted apart."""
        self._outages[what].note(failed)


def end_later(client: object) -> None:
    """Keep a client for IN_USE seconds, so that other threads can finish with it, and then drop it.

    A thread does that, because librdkafka may take a minute to end a client that has lost its cluster.
    """
    keeper = threading.Thread(target=lambda _: time.sleep(IN_USE), args=(client,), daemon=True, name="end a client")
    keeper.start()


def close_apart(consumer: Consumer) -> None:
    """Close a consumer that nobody uses any more, in a thread of its own.

    librdkafka 2.16 can wait for itself for ever if a consumer is closed while it looks for another offset: then
    `rd_kafka_offset_reset` ends its own op, whose callback takes a lock that it holds. After a batch that can't be read
    a consumer may ask for an offset that is not there.
    """
    threading.Thread(target=consumer.close, daemon=True, name="close a consumer").start()


def finds_a_broker(consumer: Consumer, partition: Partition) -> bool:
    """False if the consumer gets an answer neither from the partition's leader nor from any broker."""
    with contextlib.suppress(KafkaException):
        consumer.get_watermark_offsets(TopicPartition(*partition), LOOK_TIMEOUT)
        return True
    with contextlib.suppress(KafkaException):
        consumer.list_topics(timeout=LOOK_TIMEOUT)
        return True
    return False
