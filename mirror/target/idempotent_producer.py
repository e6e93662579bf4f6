"""`exactly_once: false`: records, then the position, for targets without transactions. At least once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from mirror.errors import OutcomeUnknown, PartitionError, RecordsRefused
from mirror.kafka.client_errors import is_away, is_lasting
from mirror.kafka.credentials import FileChanges
from mirror.kafka.producers import idempotent_properties, target_producer
from mirror.kafka.throttling import Throttle
from mirror.settings import Flow
from mirror.target.position_reader import PositionReader
from mirror.target.transactional_producer import POLL_TIMEOUT, REFUSED, Disturbances, await_deliveries, calling_back

Delivered = Callable[[KafkaError | None, Message], None]


# librdkafka gives these errors for the records after one that failed.
AFTERMATH = frozenset(
    {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._FATAL, KafkaError._GAPLESS_GUARANTEE}
)


class Deliveries:
    """What became of the records since `begin`.

    It does not refer to the producer, so that no reference cycle keeps the librdkafka handle alive.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget the last batch, because another one begins."""
        self.error: KafkaError | None = None
        self.delivered = 0

    def note(self, error: KafkaError | None, _: Message) -> None:
        """Take note of the delivery of one record. librdkafka calls this."""
        if error is None:
            self.delivered += self.error is None  # after a record that failed, only offset syncs are still delivered
        elif self.error is None or self.error.code() in AFTERMATH:
            self.error = error

    def and_tell(self, delivered: Delivered) -> Delivered:
        """A callback that takes note of the delivery, and then calls `delivered`."""

        def both(error: KafkaError | None, message: Message) -> None:
            self.note(error, message)
            delivered(error, message)

        return both


class IdempotentProducer:
    """Has the methods of TransactionalProducer, without transactions.

    `commit` waits for the records, then commits the position. Nobody is fenced. After a crash, at most the batch that
    was under way is copied again. Errors are OutcomeUnknown or RecordsRefused: then this producer must be discarded.
    """

    def __init__(self, flow: Flow, positions: PositionReader, throttle: Throttle) -> None:
        self._timeout = flow.transaction_timeout
        self._changes = FileChanges(flow.target)
        self._positions = positions
        self._deliveries = Deliveries()
        self._position: TopicPartition | None = None
        self._deadline = 0.0  # monotonic
        disturbances = Disturbances()
        callbacks = {
            "error_cb": disturbances.note,
            "throttle_cb": throttle,
            "on_delivery": self._deliveries.note,
        }
        self._producer = target_producer(flow.target, {**idempotent_properties(flow), **callbacks}, disturbances)

    @property
    def suspect(self) -> bool:
        """True if its password or certificate has changed. Lost connections do not count: it retries by itself."""
        return self._changes.any()

    @property
    def delivered(self) -> int:
        """How many records since `begin` are on the target. They are the first ones: none follows one that failed."""
        return self._deliveries.delivered

    def fence(self) -> None:
        """Nothing: there is no transactional id."""

    def begin(self) -> None:
        """Begin a batch. All waits for its deliveries share one time-out, so that no step counts as hung."""
        self._deliveries.begin()
        self._position = None
        self._deadline = time.monotonic() + self._timeout

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        callback: Delivered | None = None,
        *more: Any,
        **named: Any,
    ) -> None:
        """Queue a record, with the arguments of Producer.produce."""
        noted = self._deliveries.and_tell(callback) if callback else None
        self._producer.produce(topic, value, key, partition, noted, *more, **named)

    def limit_undelivered(self, records: int) -> None:
        """Wait until at most so many records are not delivered yet. Raises OutcomeUnknown if that takes too long."""
        await_deliveries(self._producer, records, self._deadline - time.monotonic(), self._poll)

    def flush(self) -> None:
        """Wait until every record has its downstream offset or has failed.

        Raises OutcomeUnknown if that takes too long.
        """
        self.limit_undelivered(0)

    def _poll(self, timeout: float = POLL_TIMEOUT) -> None:
        """Serve callbacks, and ignore a fatal error, which `poll` raises once.

        `Producer.flush` is not used: it would call further callbacks while that error is raised.
        """
        with contextlib.suppress(KafkaException):
            calling_back(self._producer.poll, timeout)

    def send_position(self, position: TopicPartition) -> None:
        """Remember the position for `commit`."""
        self._position = position

    def commit(self) -> None:
        """Commit the position once all records are on the target. Raises KafkaException or MirrorError."""
        self.flush()
        if self._deliveries.error is not None:
            raise KafkaException(self._deliveries.error)
        if self._position is not None:
            self._positions.commit(self._position)

    def failed(self, error: KafkaError) -> PartitionError:
        """Judge an error that came between begin and commit."""
        if error.code() in AFTERMATH:
            self.flush()
            error = self._deliveries.error or error
        if error.code() in REFUSED:
            return RecordsRefused(KafkaError(error.code()).str())
        return OutcomeUnknown(error.str(), is_away(error), is_lasting(error))

    def discard(self) -> None:
        """Drop the queued records. Then the client ends without waiting once nothing refers to it."""
        self._producer.purge()
        self._poll()
