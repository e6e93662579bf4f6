"""`exactly_once: false`: records, then the position, for targets without transactions. At least once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from mirror.errors import OutcomeUnknown, PartitionError, RecordsRefused
from mirror.kafka.clients import idempotent_properties, is_away, is_lasting
from mirror.kafka.throttling import Throttle
from mirror.settings import Flow
from mirror.target.position_reader import PositionReader
from mirror.target.transactional_producer import POLL_TIMEOUT, REFUSED, Disturbances, await_deliveries, calling_back

Delivered = Callable[[KafkaError | None, Message], None]


# What becomes of the records behind one that failed.
AFTERMATH = frozenset(
    {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._FATAL, KafkaError._GAPLESS_GUARANTEE}
)


class Deliveries:
    """What became of the records since `begin`. By itself, so that no cycle keeps the librdkafka handle."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A batch begins."""
        self.error: KafkaError | None = None
        self.delivered = 0

    def note(self, error: KafkaError | None, _: Message) -> None:
        """As a delivery callback."""
        if error is None:
            self.delivered += self.error is None  # what comes later is no record: offset syncs are delivered too
        elif self.error is None or self.error.code() in AFTERMATH:
            self.error = error

    def and_tell(self, delivered: Delivered) -> Delivered:
        """A callback that does both."""

        def both(error: KafkaError | None, message: Message) -> None:
            self.note(error, message)
            delivered(error, message)

        return both


class IdempotentProducer:
    """TransactionalProducer's face without transactions: `commit` waits for the records, then commits the position.

    Nobody is fenced, and after a crash at most the batch that was under way comes again. Errors are OutcomeUnknown
    or RecordsRefused: this producer must be discarded.
    """

    suspect = False  # its retries are idempotent, whatever happens to connections

    def __init__(self, flow: Flow, positions: PositionReader, throttle: Throttle) -> None:
        self._timeout = flow.transaction_timeout
        self._positions = positions
        self._deliveries = Deliveries()
        self._position: TopicPartition | None = None
        self._deadline = 0.0  # monotonic
        disturbances = Disturbances()
        callbacks = {
            "error_cb": disturbances.append,
            "throttle_cb": throttle,
            "on_delivery": self._deliveries.note,
        }
        self._producer = Producer({**idempotent_properties(flow), **callbacks}, logger=disturbances)

    @property
    def delivered(self) -> int:
        """How many records, the first ones since `begin`, stand on the target: after one that fails none does."""
        return self._deliveries.delivered

    def fence(self) -> None:
        """Nothing: there is no transactional id."""

    def begin(self) -> None:
        """A batch begins. All waits for its deliveries together have one time-out: a longer step passes for a hang."""
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
        """As Producer.produce."""
        noted = self._deliveries.and_tell(callback) if callback else None
        self._producer.produce(topic, value, key, partition, noted, *more, **named)

    def limit_undelivered(self, records: int) -> None:
        """Wait until at most so many records are not delivered yet. Raises OutcomeUnknown if that takes too long."""
        await_deliveries(self._producer, records, self._deadline - time.monotonic(), self._poll)

    def flush(self) -> None:
        """Wait until every record has its downstream offset or has failed. Raises OutcomeUnknown if neither."""
        self.limit_undelivered(0)

    def _poll(self, timeout: float = POLL_TIMEOUT) -> None:
        """Serve callbacks. `poll` raises a fatal error once; `Producer.flush` would call back with it raised."""
        with contextlib.suppress(KafkaException):
            calling_back(self._producer.poll, timeout)

    def send_position(self, position: TopicPartition) -> None:
        """Remember the position for `commit`."""
        self._position = position

    def commit(self) -> None:
        """Commit the position once all records stand. Raises KafkaException or MirrorError."""
        self.flush()
        if self._deliveries.error is not None:
            raise KafkaException(self._deliveries.error)
        if self._position is not None:
            self._positions.commit(self._position)

    def failed(self, error: KafkaError) -> PartitionError:
        """Judge an error between begin and commit."""
        if error.code() in AFTERMATH:
            self.flush()
            error = self._deliveries.error or error
        if error.code() in REFUSED:
            return RecordsRefused(KafkaError(error.code()).str())
        return OutcomeUnknown(error.str(), is_away(error), is_lasting(error))

    def discard(self) -> None:
        """Forget what is queued, so that dropping the last reference ends the client without waiting."""
        self._producer.purge()
        self._poll()
