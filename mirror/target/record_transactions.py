"""Writes one partition's transactions: records, their offset syncs and map entries, and the position."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice, repeat
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from mirror.clock import Clock
from mirror.errors import MirrorError, OutcomeUnknown, PartitionError, RecordsRefused, TransactionAborted
from mirror.kafka.consumed_batch import ConsumedBatch
from mirror.kafka.producers import request_limits
from mirror.kafka.record_headers import HEADER_WEIGHT, NO_HEADERS, readable
from mirror.model import Partition, Position, Topic
from mirror.settings import Flow
from mirror.target import timestamps
from mirror.target.dead_letters import dead_letter
from mirror.target.delivered import note_missing, tell_offset
from mirror.target.idempotent_producer import IdempotentProducer
from mirror.target.offset_syncs import OffsetSync
from mirror.target.position_reader import to_commit
from mirror.target.session_marks import SessionMarks
from mirror.target.transactional_producer import TransactionalProducer
from mirror.target.written import Written, appended_offsets

UNINTERRUPTED = 1_000  # most records that are queued before other threads of the process may run
UNEVEN = 1.1  # margin of `_request`: records differ in size, so a request may hold more than the average says
TargetProducer = TransactionalProducer | IdempotentProducer
NO_RECORDS: Mapping[int, int] = MappingProxyType({})  # the offsets of a transaction's records: it has none


class TransactionSession:
    """The transactions of one producer, and what was written with it so far: offset syncs and map entries.

    After any doubt, the session is discarded together with the producer.
    """

    def __init__(
        self,
        flow: Flow,
        partition: Partition,
        topic: Topic,
        producer: TargetProducer,
        clock: Clock,
        end: int | None = None,
        least: int = 0,
    ) -> None:
        """`end` is the remote offset after the last session's last transaction; None if we may have written since.

        `least` is an offset that the remote partition has reached: no record of ours can be before it.
        """
        # The offset after the last transaction's records and marker. None if it is not known, as after one that failed.
        self.end = end
        self._least = least
        self._flow = flow
        self._partition = partition
        self._topic = topic
        self._producer = producer
        self._clock = clock
        self._request_limits = request_limits(flow)
        self._marks = SessionMarks(flow, partition, topic)
        # Timestamps that the target set in place of ours. A transaction that has any is not committed. None: they are
        # not checked.
        self._restamped: list[int] | None = [] if flow.exactly_once and not flow.accept_log_append_time else None
        self._sent: Sequence[int] = ()  # the source's timestamps of this transaction's records
        self._own_topic = ""  # the topic of mirror's own to which a record is being queued; "": none
        self._missing: dict[str, str] = {}  # why a topic of mirror's own did not take a record, by that topic's name
        self.duration = 0.0  # seconds that the last transaction took
        # The position of the transaction whose commit was asked for last, and the remote offset of its first record.
        # None once it is committed, or if that offset is not known.
        self.commit_asked: tuple[Position, int] | None = None
        # When the last transaction ended, monotonic. 0 before the first transaction, so a new session counts as idle
        # and settles at once.
        self.ended = 0.0

    @property
    def suspect(self) -> bool:
        """True if this producer must not begin another transaction."""
        return self._producer.suspect

    @property
    def unsynced_tail(self) -> bool:
        """True if the last record of the last batch has no offset sync yet."""
        return self._marks.tail is not None

    def copy(self, batch: ConsumedBatch, position: Position) -> Written:
        """Copy `batch` in one transaction with `position`, the position after it.

        `position.map_end` is the map's end before the batch; `copy` commits the one after it. Raises
        TransactionAborted, RecordsRefused, ProducerFenced, OutcomeUnknown, or a plain PartitionError.
        """
        due = self._marks.due(batch.offsets, position)
        downstream: dict[int, int] = {}  # by index into the batch
        size, expected, after = 0, self.end, position
        self.end = None

        def produce() -> Position:
            nonlocal size, after
            size = self._produce(batch, due.synced, downstream)
            if due.needs_offsets:
                self._producer.flush()
            marks = self._marks.marks(due, downstream)
            for sync in marks.syncs:
                self._produce_sync(sync)
            for key, value in marks.entries:
                self._produce_own(self._flow.offset_map_topic, key=key, value=value)
            after = marks.position
            return after

        try:
            self._run(produce, downstream)
        except RecordsRefused as error:
            # The record itself was delivered, so the refusal concerns one of mirror's own topics. The record must not
            # be passed over.
            if len(batch.messages) == 1 and downstream:
                topics = f"{self._flow.offset_syncs_topic} or {self._flow.offset_map_topic}"
                said = f"{topics} takes no record: {error}; have the target accept them"
                raise PartitionError(said, blocked=True) from error
            raise
        records = len(batch.offsets)
        appended = appended_offsets(expected, downstream.get(0), downstream.get(records - 1), records)
        markers = 1 if self._flow.exactly_once else 0
        self.end = None if appended is None else appended.last + 1 + markers
        self._least = self._least if appended is None else appended.last + 1
        self._marks.committed(due, downstream)
        return Written(size, after, appended)

    def settle(self, position: Position) -> None:
        """Commit a position without records, and the sync of the last record if it has none yet.

        The sync lets MirrorMaker's tools translate exactly for a group that has read everything. The position moves
        past markers and aborted records. Raises the same errors as `copy`.
        """
        tail = self._marks.tail

        def produce() -> Position:
            if tail:
                self._produce_sync(tail)
            return position

        self._run(produce)
        if tail:
            self._marks.settled()

    def commit_position(self, position: Position) -> None:
        """Commit only the position, as it is, even if the source can't be read. Raises the same errors as `copy`."""
        self._run(lambda: position)

    def pass_over(self, batch: ConsumedBatch, position: Position, reason: str, letter: bool, whole: bool) -> None:
        """Commit the position after a record that can't be copied.

        With `letter`, the transaction also has a dead letter. Unless `whole`, the dead letter has neither key, value
        nor headers of the record. Raises the same errors as `copy`.
        """

        def produce() -> Position:
            if letter:
                headers = NO_HEADERS
                # The record's headers may be unreadable. Then the letter has none of them, and `reason` says so.
                with contextlib.suppress(RecordsRefused):
                    (headers,) = readable(batch.headers)
                record = dead_letter(self._partition, batch.messages[0], headers, reason, whole)
                self._produce_own(self._flow.dead_letter_topic, **record)
            return position

        self._run(produce)

    def delivered(self, batch: ConsumedBatch) -> int:
        """How many records of a failed batch are on the target nevertheless. They are always its first ones."""
        return min(self._producer.delivered, len(batch.offsets))  # it counts offset syncs, too: they come last

    def discard(self) -> None:
        """End the producer without waiting for anything."""
        self._producer.discard()

    def _run(self, produce: Callable[[], Position], downstream: Mapping[int, int] = NO_RECORDS) -> None:
        """Run one transaction. `produce` queues its records, and returns the position to commit with them.

        `downstream` gets the offsets of the first record, the last one and some others, by index, once delivered.
        """
        producer, begun = self._producer, self._clock.monotonic()
        self._own_topic, self.commit_asked = "", None
        self._missing.clear()
        if self._restamped:
            self._restamped.clear()
        try:
            producer.begin()
            position = produce()
            producer.send_position(to_commit(position, self._topic.remote, self._partition.partition))
            self._check_timestamps()
            self._check_place(downstream)
            first = downstream.get(0) if self._flow.exactly_once else None
            self.commit_asked = None if first is None else (position, first)
            producer.commit()
        except KafkaException as error:
            failure: KafkaError = error.args[0]
        except PartitionError:
            raise
        except Exception as error:
            away = isinstance(error, MirrorError) and error.away
            raise OutcomeUnknown(f"{type(error).__name__}: {error}", away) from error
        else:
            self.commit_asked = None
            self.ended = self._clock.monotonic()
            self.duration = self.ended - begun
            return
        failed = producer.failed(failure)  # outside of `except`: kafka/clients.py says why
        if self.commit_asked is not None and isinstance(failed, TransactionAborted):
            # The commit may have reached a broker before the abort did: see Unconfirmed.
            failed = OutcomeUnknown(str(failed), blocked=failed.blocked)
        raise self._naming(failed)

    def _check_timestamps(self) -> None:
        """Raise PartitionError if the target replaced the timestamp of a record whose delivery report mirror looks at.

        If a broker gets a batch twice, its second answer gives the batch's newest timestamp as if the broker had set
        it. So a timestamp that we sent ourselves is no proof. If there are only such ones, mirror copies the batch
        again.
        """
        if not self._restamped:
            return
        if set(self._restamped) <= set(self._sent):
            raise PartitionError(f"{self._topic.remote}: the target got records twice, or replaces their timestamps")
        remedy = timestamps.remedy(self._flow, self._topic.remote)
        raise PartitionError(f"{self._topic.remote}: {timestamps.REASON}; {remedy}", blocked=True)

    def _check_place(self, downstream: Mapping[int, int]) -> None:
        """Raise OutcomeUnknown if the remote partition begins anew: then this may not be the topic that has the copy.

        librdkafka addresses a topic by its name. If it was deleted and created again, or an unclean election has cut
        its log, only the offsets show that. Without transactions it is too late: the records can't be taken back.
        """
        # A client knows no offset of a record that the broker says it had already.
        places = [downstream[index] for index in sorted(downstream) if downstream[index] is not None]
        if self._flow.exactly_once and places and (places[0] < self._least or places[-1] < places[0]):
            lowest, where = min(places), f"{self._topic.remote}-{self._partition.partition}"
            raise OutcomeUnknown(f"{where} begins anew: a record is at {lowest}, and {self._least} was reached before")

    def _naming(self, error: PartitionError) -> PartitionError:
        """Add to the error the name of mirror's own topic that failed, because librdkafka does not name it."""
        topic = self._own_topic or next(iter(self._missing), "")
        if topic and not isinstance(error, RecordsRefused):
            reason = self._missing.get(topic, error)
            error.args = (f"{topic} takes no record: {reason}; the flow leader makes it again if it is missing",)
        return error

    def _produce(self, batch: ConsumedBatch, chosen: Sequence[int], downstream: dict[int, int]) -> int:
        """Queue the batch. Returns the bytes of its keys, values and headers.

        Once delivered, the first record, the last one and those `chosen` have their offsets in `downstream`, by index;
        with `active_active` all of them, if they get entries in the offset map.
        """
        messages, self._sent = batch.messages, batch.timestamps
        keys, headers = batch.keys, readable(batch.headers)
        tells: list[Callable[..., None] | None] = [None] * len(messages)
        reported = range(len(messages)) if self._marks.wants_every_offset else (0, *chosen, len(messages) - 1)
        for index in reported:
            tells[index] = tell_offset(downstream, index, self._restamped)
        # The hot loop: with `map` the interpreter runs no bytecode for a record. Keyword arguments would double the
        # cost of produce.
        topic, number = repeat(self._topic.remote), repeat(self._partition.partition)
        values = batch.values
        calls = map(self._producer.produce, topic, values, keys, number, tells, repeat(None), batch.timestamps, headers)
        # Headers are left out: librdkafka does not count them when it waits until a request is full.
        size = batch.value_bytes + sum(map(len, filter(None, keys)))
        request = self._request(size / len(messages))
        while deque(islice(calls, min(request, UNINTERRUPTED)), maxlen=1):
            self._producer.limit_undelivered(2 * request)
        self._producer.limit_undelivered(request)
        return batch.weight - HEADER_WEIGHT * sum(map(len, headers))

    def _request(self, size: float) -> int:
        """How many records fill a request if a record's key and value have `size` bytes on average."""
        limit, records = self._request_limits
        return 1 + min(records, int(UNEVEN * limit / max(1.0, size)))

    def _produce_sync(self, sync: OffsetSync) -> None:
        self._produce_own(self._flow.offset_syncs_topic, key=sync.key(), value=sync.value())

    def _produce_own(self, topic: str, **record: Any) -> None:
        self._own_topic = topic
        self._producer.produce(topic, partition=0, callback=note_missing(self._missing, topic), **record)
        self._own_topic = ""
