"""Replaces a client that has lost its cluster.

librdkafka (2.16) can lose a cluster for ever. The only broker of a cluster answers for a moment that there are no
brokers when it has just started, or has hung for longer than its session. librdkafka then drops that broker. It has to
bootstrap again (KIP-1102), and the broker's thread asks for that; but the answer, which counts as a success, cancels
it if that thread was quick. From then on the client knows no broker, and nothing makes it look for one.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Generic, TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition

from mirror.model import Partition

RENEW_AFTER = 30.0  # seconds; longer than one request may take
LOOK_TIMEOUT = 1.0  # seconds
IN_USE = 60.0  # seconds: no request that another thread has made with the client lasts longer

C = TypeVar("C")


class Outage:
    """Whether all tries of the last RENEW_AFTER seconds have failed."""

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
        """True once in RENEW_AFTER seconds of failures: the next ones are counted anew."""
        if self._since is None or self._monotonic() - self._since < RENEW_AFTER:
            return False
        self._since = None
        return True


class Renewed(Generic[C]):
    """A client that another one replaces after RENEW_AFTER seconds in which all that it was asked has failed.

    A cluster that is away looks the same. A new client in RENEW_AFTER seconds does it no harm.
    """

    def __init__(self, make: Callable[[], C], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._outages: defaultdict[str, Outage] = defaultdict(lambda: Outage(monotonic))
        self._client = make()

    @property
    def client(self) -> C:
        """The client of now."""
        if any([outage.is_long() for outage in list(self._outages.values())]):
            end_later(self._client)
            self._client = self._make()
        return self._client

    def note(self, failed: bool, what: str = "") -> None:
        """Take note of a request. Requests for different things (`what`) are counted apart."""
        self._outages[what].note(failed)


def end_later(client: object) -> None:
    """Drop a client once nobody uses it. In a thread of its own: librdkafka may take a minute to end a lost one."""
    keeper = threading.Thread(target=lambda _: time.sleep(IN_USE), args=(client,), daemon=True, name="end a client")
    keeper.start()


def finds_a_broker(consumer: Consumer, partition: Partition) -> bool:
    """False if the consumer gets an answer neither from the partition's leader nor from any broker."""
    with contextlib.suppress(KafkaException):
        consumer.get_watermark_offsets(TopicPartition(*partition), LOOK_TIMEOUT)
        return True
    with contextlib.suppress(KafkaException):
        consumer.list_topics(timeout=LOOK_TIMEOUT)
        return True
    return False
