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
from mirror.kafka.client_errors import FENCED, is_away, is_lasting
from mirror.kafka.clients import LIBRDKAFKA
from mirror.kafka.credentials import FileChanges
from mirror.kafka.librdkafka_log import is_connection_fault
from mirror.kafka.producers import target_producer, transactional_properties
from mirror.kafka.throttling import Throttle
from mirror.settings import Flow

# With these errors, a broker or librdkafka itself refuses a record at every attempt.
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

# librdkafka gives these errors for each call after the one that failed. `_reason` asks for the first error.
AFTERMATH = frozenset({KafkaError._STATE, KafkaError._FATAL})

POLL_TIMEOUT = 0.1  # seconds; it returns with the first delivery
NOT_ACKNOWLEDGED = "the target does not acknowledge records"
FENCE_TIMEOUT = 10.0  # seconds, including the time to connect; short, because a drain waits for a take-over that runs


class Disturbances:
    """Notes whether a producer was disturbed: a closed connection, a request without an answer, an error of the client.

    It serves as the client's logger and as its error callback, because librdkafka only logs the first two. It does not
    refer to the producer, so that no reference cycle keeps the librdkafka handle alive. It keeps none of the errors: a
    producer without transactions lives on with them, for months perhaps.
    """

    def __init__(self) -> None:
        self.any = False

    def note(self, _: object) -> None:
        """Take note of an error. librdkafka calls this, too."""
        self.any = True

    def log(self, level: int, text: str, *args: object) -> None:
        """The method of logging.Logger that librdkafka calls, with facility, client and line in `args`."""
        if is_connection_fault(args):
            self.note(args[-1])
        if level >= logging.WARNING:
            LIBRDKAFKA.debug(text, *args)


class TransactionalProducer:
    """One instance of one `transactional.id`: opened once, and thrown away after any doubt.

    Each error of a transaction becomes one of these:
    - TransactionAborted: the transaction left no trace, this producer may begin another;
    - RecordsRefused: this producer must be discarded, and no other one can send these records either;
    - ProducerFenced: a newer instance exists;
    - OutcomeUnknown: this producer must be discarded.
    """

    delivered = 0  # no record counts as delivered before its transaction is committed

    def __init__(self, flow: Flow, transactional_id: str, group_metadata: bytes, throttle: Throttle) -> None:
        self._cluster = flow.target.alias
        self._timeout = flow.transaction_timeout
        self._group_metadata = group_metadata
        self._disturbances = Disturbances()
        self._changes = FileChanges(flow.target)
        callbacks = {"error_cb": self._disturbances.note, "throttle_cb": throttle}
        properties = transactional_properties(flow, transactional_id)
        self._producer = target_producer(flow.target, {**properties, **callbacks}, self._disturbances)
        # The hot path calls these directly, without a wrapper for each record.
        self.produce: Callable[..., None] = self._producer.produce
        self.begin: Callable[[], None] = self._producer.begin_transaction

    @property
    def suspect(self) -> bool:
        """True if this producer must not begin another transaction.

        That is so if it is disturbed: a delayed EndTxn request of it may still be on its way. librdkafka does not have
        KIP-890, so such an EndTxn could end a *later* transaction of this producer. And a producer whose password or
        certificate has changed is replaced before its connections need the new one.
        """
        self._serve(self._poll)
        return self._disturbances.any or self._changes.any()

    def fence(self) -> None:
        """Fence the last instance (InitProducerId). The target first ends the transaction of that instance.

        It aborts it, or completes a commit that had begun. Kafka 4.3.0 to 4.4.0 may leave it open: see
        `PositionReader.await_no_open_transaction`.

        Raises ClusterAway if the target does not answer, ProducerFenced if a newer instance came in between,
        PartitionError if the target refuses.
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
        """Wait until at most `records` records are undelivered. Raises OutcomeUnknown if that takes too long.

        Keep no more queued than about one request holds. A partition has one request in flight. If further records are
        queued for longer than `linger.ms`, or a flush waits for them, librdkafka's thread polls without pause. That
        costs CPU and gains nothing.
        """
        await_deliveries(self._producer, records, self._timeout, self._poll)

    def flush(self) -> None:
        """Wait until every record has its downstream offset or has failed.

        Raises OutcomeUnknown if that takes too long.
        """
        if self._flush(self._timeout):
            raise OutcomeUnknown(NOT_ACKNOWLEDGED, away=True)

    def _flush(self, timeout: float) -> int:
        return int(calling_back(self._producer.flush, timeout))

    def _poll(self, timeout: float) -> int:
        return int(calling_back(self._producer.poll, timeout))

    def send_position(self, position: TopicPartition) -> None:
        """Put the position into the open transaction (TxnOffsetCommit).

        Meanwhile another thread flushes the transaction's last records, which would otherwise wait for `linger.ms`. The
        commit would flush them, too, but only after TxnOffsetCommit: that is one more round trip.
        """
        flushing = threading.Thread(target=self._serve, args=(self._flush, self._timeout), daemon=True)
        flushing.start()
        self._producer.send_offsets_to_transaction([position], self._group_metadata, self._timeout)
        # A second flush here would be slower. While another thread serves the callbacks, librdkafka's flush checks only
        # every 10 ms whether it is done.
        flushing.join()

    def commit(self) -> None:
        """Commit the open transaction. A time-out is an error, too, because the outcome is not known then."""
        calling_back(self._producer.commit_transaction, self._timeout)

    def failed(self, error: KafkaError) -> PartitionError:
        """Judge an error of begin, commit, or anything between. Abort the transaction if librdkafka requires that."""
        if error.code() in AFTERMATH:
            error = self._reason() or error
        if error.code() in FENCED:
            return ProducerFenced(error.str())
        if error.code() in REFUSED:
            # The error's own text contains numbers, so each occurrence would be logged. The code's text is logged once.
            return RecordsRefused(KafkaError(error.code()).str())
        if error.fatal() or not error.txn_requires_abort():
            return OutcomeUnknown(error.str(), is_away(error), is_lasting(error))
        return self._aborted(error)

    def _reason(self) -> KafkaError | None:
        """The error with which the open transaction has failed; None if it has not failed.

        In an open transaction `begin` does nothing but raise: the first error if the transaction has failed, else one
        about the state. A commit would raise the first error, too, but it could also commit.
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
            both = f"{error.str()}; the abort failed too: {why.str()}"
            if why.code() in FENCED:
                return ProducerFenced(both)
            # If no partition could be added, the abort fails, too: the first error decides whether a person must act.
            return OutcomeUnknown(both, is_away(why), is_lasting(error))
        return TransactionAborted(error.str(), is_lasting(error))

    def discard(self) -> None:
        """Drop the queued records. Then this instance ends without waiting once nothing refers to it."""
        self._producer.purge()
        self._serve(self._poll)  # otherwise the callbacks of the purged records would stay queued in the client

    def _serve(self, wait: Callable[[float], int], timeout: float = 0.0) -> None:
        """Serve callbacks by a call of `wait`, which is poll or flush. It raises nothing.

        poll and flush raise a fatal error once, although there is an error callback. It counts as a disturbance.
        """
        try:
            wait(timeout)
        except KafkaException as error:
            self._disturbances.note(error.args[0])


def calling_back(call: Callable[[float], Any], timeout: float) -> Any:
    """Make a call that serves callbacks, such as poll, in a way that leaks no producer. Raises KafkaException.

    confluent-kafka 2.16 has a bug before Python 3.12. After a fatal error came out of one callback, it goes on to call
    others. If an exception comes out of one of these, too, the client never releases it. The traceback of that
    exception, or of its `__context__`, refers to the callers' frames, and one of them holds the producer. So the
    producer with its threads and connections would stay for as long as the process lives. Therefore this function takes
    all such references out of the exceptions, and raises a new one.
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
    """Poll until at most `records` records are undelivered. Raises OutcomeUnknown after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while len(producer) > records:
        if time.monotonic() > deadline:
            raise OutcomeUnknown(NOT_ACKNOWLEDGED, away=True)
        poll(POLL_TIMEOUT)
