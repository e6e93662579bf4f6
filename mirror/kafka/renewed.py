"""Replaces a client that has lost its cluster, or whose password or certificate has changed.

librdkafka (2.16) can lose a cluster for ever, if the cluster has one broker. When that broker has just started, or has
hung for longer than its session, it answers for a moment that there are no brokers. librdkafka then drops the broker,
and the broker's thread asks for a new bootstrap (KIP-1102). But the answer counts as a success, and a success cancels
a bootstrap that was asked for before. So if the thread is quick, its bootstrap is cancelled. From then on the client
knows no broker, and nothing makes it look for one.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from mirror.errors import ClusterAway
from mirror.kafka.credentials import FileChanges
from mirror.model import Partition
from mirror.settings import Cluster

log = logging.getLogger(__name__)

RENEW_AFTER = 30.0  # seconds; longer than one request may take
LOOK_TIMEOUT = 1.0  # seconds
IN_USE = 60.0  # seconds; a request that another thread has made with the client lasts no longer

C = TypeVar("C")


class Outage:
    """Finds out whether a client of a cluster has to be replaced.

    That is so if all tries of the last RENEW_AFTER seconds have failed, or if a file with its credentials has changed.
    """

    def __init__(self, cluster: Cluster, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._changes = FileChanges(cluster)
        self._monotonic = monotonic
        self._since: float | None = None

    def note(self, failed: bool) -> None:
        """Take note of a try."""
        if not failed:
            self._since = None
        elif self._since is None:
            self._since = self._monotonic()

    def wants_another(self) -> bool:
        """True if the client has to be replaced. Then it begins anew."""
        if not self._credentials_differ() and not self._is_long():
            return False
        self._since = None
        return True

    def has_lost(self, consumer: Consumer, partitions: Iterable[Partition], silent: bool) -> bool:
        """Take note of a poll of these partitions, `silent` if it gave nothing. True if there has to be another one."""
        self.note(silent)
        if self._credentials_differ():
            return True
        return self.wants_another() and not finds_a_broker(consumer, next(iter(partitions)))

    def _credentials_differ(self) -> bool:
        differ = self._changes.any()
        if differ:
            self._changes.note()
        return differ

    def _is_long(self) -> bool:
        return self._since is not None and self._monotonic() - self._since >= RENEW_AFTER


class Renewed(Generic[C]):
    """Holds a client of a cluster, and replaces it after RENEW_AFTER seconds of failures, or with its credentials.

    Failures are counted for each kind of request: see `note`. It is enough that all requests of one kind fail. If the
    cluster is away, they fail as well. Then the client is replaced, too, which does no harm.
    """

    def __init__(
        self, cluster: Cluster, make: Callable[[], C], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._make = make
        self._changes = Outage(cluster, monotonic)  # of this one only the credentials count
        self._outages: defaultdict[str, Outage] = defaultdict(lambda: Outage(cluster, monotonic))
        self._client = make()

    @property
    def client(self) -> C:
        """The client. It is replaced first if requests have failed for long enough."""
        # A list, so that each outage is asked: each then begins anew.
        if any([outage.wants_another() for outage in (self._changes, *list(self._outages.values()))]):
            self._client = another(self._client, self._make)
        return self._client

    def note(self, failed: bool, what: str = "") -> None:
        """Take note of a request. Requests for different things (`what`) are counted apart."""
        self._outages[what].note(failed)


def another(client: C, make: Callable[[], C]) -> C:
    """A client in place of this one, which is ended later; this one if none can be made now.

    A certificate may not be the one of its key yet, or nobody gives a token.
    """
    try:
        made = make()
    except (ClusterAway, KafkaException, KafkaError) as error:
        reason = str(error)
    else:
        end_later(client)
        return made
    log.warning("a client can't be made anew, the old one goes on", extra={"reason": reason})
    return client


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
