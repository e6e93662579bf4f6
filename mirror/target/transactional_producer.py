"""The transactional producer of one partition on the target, and what its errors mean."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from mirror.errors import (
    ClusterAway,
    OutcomeUnknown,
    PartitionError,
    ProducerFenced,
    RecordsRefused,
    TransactionAborted,
)
from mirror.kafka.clients import FENCED, LIBRDKAFKA, is_away, is_lasting, transactional_properties
from mirror.kafka.librdkafka_log import is_connection_fault
from mirror.kafka.throttling import Throttle
from mirror.settings import Flow

# What a broker, or librdkafka for it, says of a record that it will not take however often it comes.
REFUSED = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError._INVALID_DIFFERENT_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.POLICY_VIOLATION,
    }
)

# What librdkafka says of every call behind the one that failed: a reason has to be asked for.
AFTERMATH = frozenset({KafkaError._STATE, KafkaError._FATAL})

POLL_TIMEOUT = 0.1  # seconds; it returns with the first delivery
NOT_ACKNOWLEDGED = "the target does not acknowledge records"
FENCE_TIMEOUT = 10.0  # seconds, for connecting too; short, so that a drain need not wait for a target that is away


class Disturbances(list[object]):
    """What has come between a producer and the target: a client's logger and error callback at once.

    librdkafka only logs that a connection was closed or a request not answered, it tells no callback. A list and
    nothing of the producer's own, so that no cycle keeps the librdkafka handle.
    """

    def log(self, level: int, text: str, *args: object) -> None:
        """As logging.Logger.log: librdkafka gives facility, client and line."""
        if is_connection_fault(args):
            self.append(args[-1])
        if level >= logging.WARNING:
            LIBRDKAFKA.debug(text, *args)


class TransactionalProducer:
    """One instance of one `transactional.id`: opened once, and thrown away after any doubt.

    Errors of every step are one of
    - TransactionAborted: the transaction left no trace, this producer may begin another;
    - RecordsRefused: this producer must be discarded, and another would fare no better with these records;
    - ProducerFenced: a newer instance exists;
    - OutcomeUnknown: this producer must be discarded.
    """

    delivered = 0  # nothing stands on the target before its transaction is committed

    def __init__(self, flow: Flow, transactional_id: str, group_metadata: bytes, throttle: Throttle) -> None:
        self._cluster = flow.target.alias
        self._timeout = flow.transaction_timeout
        self._group_metadata = group_metadata
        self._disturbances = Disturbances()
        callbacks = {"error_cb": self._disturbances.append, "throttle_cb": throttle}
        properties = transactional_properties(flow, transactional_id)
        self._producer = Producer({**properties, **callbacks}, logger=self._disturbances)
        # The hot path calls these as they are: no wrapper per record.
        self.produce: Callable[..., None] = self._producer.produce
        self.begin: Callable[[], None] = self._producer.begin_transaction

    @property
    def suspect(self) -> bool:
        """Has a request to the target been disturbed? Then a delayed EndTxn may still be on its way.

        librdkafka has no KIP-890, so such an EndTxn could end a *later* transaction of this instance: the
        producer must not begin another one.
        """
        self._serve(self._poll)
        return bool(self._disturbances)

    def fence(self) -> None:
        """Abort or wait out what the last instance left, and fence it (InitProducerId).

        Raises ClusterAway when the target does not answer, ProducerFenced if a newer instance came between,
        PartitionError when the target refuses.
        """
        try:
            self._producer.init_transactions(FENCE_TIMEOUT)
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            if cause.code() in FENCED:
                raise ProducerFenced(cause.str()) from error
            reason = f"no producer id: {cause.str()}"
            raise (
                ClusterAway(self._cluster, reason) if is_away(cause) else PartitionError(reason, is_lasting(cause))
            ) from error

    def limit_undelivered(self, records: int) -> None:
        """Wait until at most so many records are not delivered yet.

        A partition has one request under way, and librdkafka's thread polls without pause while records wait behind
        it for longer than `linger.ms`, or for a flush: more than it can send at once only takes CPU from others.
        Raises OutcomeUnknown if that takes too long.
        """
        await_deliveries(self._producer, records, self._timeout, self._poll)

    def flush(self) -> None:
        """Wait until every record has its downstream offset or has failed. Raises OutcomeUnknown if neither."""
        if self._flush(self._timeout):
            raise OutcomeUnknown(NOT_ACKNOWLEDGED, away=True)

    def _flush(self, timeout: float) -> int:
        return int(calling_back(self._producer.flush, timeout))

    def _poll(self, timeout: float) -> int:
        return int(calling_back(self._producer.poll, timeout))

    def send_position(self, position: TopicPartition) -> None:
        """Put the position into the open transaction (TxnOffsetCommit), while its last records are delivered.

        They linger until something flushes; a commit does, but that would cost one more round trip.
        """
        flushing = threading.Thread(target=self._serve, args=(self._flush, self._timeout), daemon=True)
        flushing.start()
        self._producer.send_offsets_to_transaction([position], self._group_metadata, self._timeout)
        flushing.join()  # librdkafka looks only each 10 ms whether another thread has served what its flush waits for

    def commit(self) -> None:
        """Commit the open transaction. A time-out raises: nobody may guess how it went."""
        calling_back(self._producer.commit_transaction, self._timeout)

    def failed(self, error: KafkaError) -> PartitionError:
        """Judge an error between begin and commit; aborts the transaction where that is what it takes."""
        if error.code() in AFTERMATH:
            error = self._reason() or error
        if error.code() in FENCED:
            return ProducerFenced(error.str())
        if error.code() in REFUSED:
            return RecordsRefused(KafkaError(error.code()).str())  # without numbers of the moment: it is said once
        if error.fatal() or not error.txn_requires_abort():
            return OutcomeUnknown(error.str(), is_away(error), is_lasting(error))
        return self._aborted(error)

    def _reason(self) -> KafkaError | None:
        """What the open transaction has failed with; None if it has not.

        `begin` only tells it. A commit would too, but could also succeed.
        """
        try:
            self.begin()
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            return error if error.fatal() or error.txn_requires_abort() else None
        return None

    def _aborted(self, error: KafkaError) -> PartitionError:
        try:
            calling_back(self._producer.abort_transaction, self._timeout)
        except KafkaException as abort_error:
            why: KafkaError = abort_error.args[0]
            both = f"{error.str()}; not aborted either: {why.str()}"
            if why.code() in FENCED:
                return ProducerFenced(both)
            # A transaction to which no partition could be added can't be aborted: the first error says what to expect.
            return OutcomeUnknown(both, is_away(why), is_lasting(error))
        return TransactionAborted(error.str(), is_lasting(error))

    def discard(self) -> None:
        """Forget what is queued, so that dropping the last reference ends this instance without waiting."""
        self._producer.purge()
        self._serve(self._poll)  # or the callbacks of what was purged would stay

    def _serve(self, wait: Callable[[float], int], timeout: float = 0.0) -> None:
        """Serve callbacks during `wait`, which is poll or flush.

        Either raises a fatal error once, though there is an error callback.
        """
        try:
            wait(timeout)
        except KafkaException as error:
            self._disturbances.append(error.args[0])


def calling_back(call: Callable[[float], Any], timeout: float) -> Any:
    """Make a call that serves callbacks until it is done. Raises KafkaException.

    The client raises a fatal error out of one callback, and goes on to call others with it raised: what comes out of
    one of those it forgets to let go of (confluent-kafka 2.16 before Python 3.12). With its traceback, or that of the
    error that is handled meanwhile, it would keep the frames that called, and so the producer with its threads and
    connections, for as long as the process lives.
    """
    try:
        return call(timeout)
    except (KafkaException, SystemError) as error:
        fatal = error if isinstance(error, KafkaException) else error.__cause__
        if not isinstance(fatal, KafkaException):
            raise
        for each in (error, fatal):
            each.__traceback__ = each.__context__ = each.__cause__ = None
        raise KafkaException(*fatal.args) from None


def await_deliveries(producer: Producer, records: int, timeout: float, poll: Callable[[float], object]) -> None:
    """Poll until at most so many records are not delivered yet. Raises OutcomeUnknown after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while len(producer) > records:
        if time.monotonic() > deadline:
            raise OutcomeUnknown(NOT_ACKNOWLEDGED, away=True)
        poll(POLL_TIMEOUT)
