"""Writes one partition's transactions: records, their offset syncs and map entries, and the position."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, repeat
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from mirror.clock import Clock
from mirror.errors import MirrorError, OutcomeUnknown, PartitionError, RecordsRefused
from mirror.kafka.clients import request_limits
from mirror.kafka.consumed_batch import ConsumedBatch
from mirror.kafka.record_headers import HEADER_WEIGHT, NO_HEADERS, readable
from mirror.model import MapEnd, Partition, Position, Topic
from mirror.settings import Flow
from mirror.target import timestamps
from mirror.target.dead_letters import dead_letter
from mirror.target.delivered import Span, note_missing, span_of, tell_offset
from mirror.target.idempotent_producer import IdempotentProducer
from mirror.target.offset_map import EVERY, Copied, EntryChooser, end_after, entries, entries_in_pieces
from mirror.target.offset_syncs import OffsetSync, SyncChooser
from mirror.target.position_reader import to_commit
from mirror.target.transactional_producer import TransactionalProducer

UNINTERRUPTED = 1_000  # most records that are queued before other threads of the process may run
UNEVEN = 1.1  # margin of `_request`: records differ in size, so a request may hold more than the average says
TargetProducer = TransactionalProducer | IdempotentProducer


@dataclass(frozen=True, slots=True)
class Written:
    """What a transaction has written: how much, and the position that it has committed."""

    size: int  # bytes of keys, values and headers
    position: Position
    span: Span | None = None  # where its records are; None without records, or if that is not known


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
    ) -> None:
        """`end` is the offset after the last transaction of the previous session, if nothing of ours came after it."""
        # The offset after the last transaction's records and marker. None if it is not known, as after one that failed.
        self.end = end
        self._flow = flow
        self._partition = partition
        self._topic = topic
        self._producer = producer
        self._clock = clock
        self._request_limits = request_limits(flow)
        self._sync_chooser = SyncChooser(flow.offset_lag_max)
        # A topic whose id is not known yet has no entries: nobody could tell which topic they belong to. Canaries have
        # none either. Nobody asks for their offsets, and the cleaner could never delete their entries, because their
        # compacted topic always begins at the same offset.
        is_canary = partition.topic == flow.canary_topic
        is_mapped = flow.exactly_once and topic.topic_id and topic.remote_id and not is_canary
        every = 1 if topic.compacted or flow.active_active else EVERY  # there nothing can be counted
        self._entry_chooser = EntryChooser(every) if is_mapped else None
        self._tail: OffsetSync | None = None
        # Timestamps that the target set in place of ours. A transaction that has any is not committed. None: they are
        # not checked.
        self._restamped: list[int] | None = [] if flow.exactly_once and not flow.accept_log_append_time else None
        self._sent: Sequence[int] = ()  # the source's timestamps of this transaction's records
        self._own_topic = ""  # the topic of mirror's own to which a record is being queued; "": none
        self._missing: dict[str, str] = {}  # by own topic that did not take a record: why
        self.duration = 0.0  # seconds that the last transaction took
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
        return self._tail is not None

    def copy(self, batch: ConsumedBatch, position: Position) -> Written:
        """Copy `batch` in one transaction with `position`, the position after it.

        `position.map_end` is the map's end before the batch; `copy` commits the one after it. Raises
        TransactionAborted, RecordsRefused, ProducerFenced, OutcomeUnknown, or a plain PartitionError.
        """
        chosen = self._sync_chooser.choose(batch.offsets)
        mapped = self._entry_chooser is not None and self._entry_chooser.is_due(batch.offsets, position.map_end)
        after = replace(position, map_end=self._without_entry(position.map_end, len(batch.offsets)))
        downstream: dict[int, int] = {}  # by index into the batch
        size, expected = 0, self.end
        self.end = None

        def produce() -> Position:
            nonlocal size, after
            size = self._produce(batch, chosen, downstream)
            if chosen or mapped:
                self._producer.flush()
            # A record that was not delivered has no downstream offset. Then the transaction fails as a whole.
            for index in (each for each in chosen if each in downstream):
                self._produce_sync(self._sync(batch, index, downstream))
            if mapped:
                after = replace(after, map_end=self._produce_entries(batch, position, downstream))
            return after

        try:
            self._run(produce)
        except RecordsRefused as error:
            # The record itself was delivered, so the refusal concerns one of mirror's own topics. The record must not
            # be passed over.
            if len(batch.messages) == 1 and downstream:
                topics = f"{self._flow.offset_syncs_topic} or {self._flow.offset_map_topic}"
                said = f"{topics} takes no record: {error}; have the target accept them"
                raise PartitionError(said, blocked=True) from error
            raise
        span = span_of(expected, downstream.get(0), downstream.get(len(batch.offsets) - 1))
        markers = 1 if self._flow.exactly_once else 0
        self.end = None if span is None else span.last + 1 + markers
        self._sync_chooser.committed(batch.offsets, chosen)
        if self._entry_chooser is not None:
            self._entry_chooser.committed(batch.offsets)
        self._tail = (
            None if self._sync_chooser.tail_is_synced else self._sync(batch, len(batch.offsets) - 1, downstream)
        )
        return Written(size, after, span)

    def _produce_entries(self, batch: ConsumedBatch, before: Position, downstream: Mapping[int, int]) -> MapEnd | None:
        """Queue the batch's entries of the offset map, and return the map's end after them."""
        count = len(batch.offsets)
        if 0 not in downstream or count - 1 not in downstream:
            return None
        copied = Copied(*self._partition, self._topic.topic_id, self._topic.remote_id)
        if self._flow.active_active:
            made = entries_in_pieces(batch.offsets, downstream, before.map_end, before.resets)
        else:
            made = entries(batch.offsets, downstream[0], downstream[count - 1], before.map_end, before.resets)
        for entry in made:
            self._produce_own(self._flow.offset_map_topic, key=entry.key(copied), value=entry.value())
        return end_after(made, count)

    def _without_entry(self, end: MapEnd | None, records: int) -> MapEnd | None:
        """The map's end after so many records without an entry."""
        return None if end is None or self._entry_chooser is None else replace(end, records=end.records + records)

    def settle(self, position: Position) -> None:
        """Commit a position without records, and the sync of the last record if it has none yet.

        The sync lets MirrorMaker's tools translate exactly for a group that has read everything. The position moves
        past markers and aborted records. Raises the same errors as `copy`.
        """
        tail = self._tail

        def produce() -> Position:
            if tail:
                self._produce_sync(tail)
            return position

        self._run(produce)
        if tail:
            self._sync_chooser.tail_synced()
            self._tail = None

    def commit_position(self, position: Position) -> None:
        """Commit only the position, as it is. It needs nothing of the source. Raises the same errors as `copy`."""
        self._run(lambda: position)

    def pass_over(self, batch: ConsumedBatch, position: Position, reason: str, letter: bool, whole: bool) -> None:
        """Commit the position after a record that the target refuses.

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

    def _run(self, produce: Callable[[], Position]) -> None:
        """Run one transaction. `produce` queues its records, and returns the position to commit with them."""
        producer, begun = self._producer, self._clock.monotonic()
        self._own_topic = ""
        self._missing.clear()
        try:
            producer.begin()
            position = produce()
            producer.send_position(to_commit(position, self._topic.remote, self._partition.partition))
            self._check_timestamps()
            producer.commit()
        except KafkaException as error:
            failure: KafkaError = error.args[0]
        except PartitionError:
            raise
        except Exception as error:
            away = isinstance(error, MirrorError) and error.away
            raise OutcomeUnknown(f"{type(error).__name__}: {error}", away) from error
        else:
            self.ended = self._clock.monotonic()
            self.duration = self.ended - begun
            return
        raise self._naming(producer.failed(failure))  # outside of `except`: kafka/clients.py says why

    def _check_timestamps(self) -> None:
        """Raise PartitionError if the target replaced the timestamp of the first, the last or a synced record.

        A broker that gets a batch a second time answers with the batch's newest timestamp, in the same way as if it had
        set that time. So a time that equals one that we sent proves nothing. Then mirror copies the batch again.
        """
        if not self._restamped:
            return
        if set(self._restamped) <= set(self._sent):
            raise PartitionError(f"{self._topic.remote}: the target got records twice, or replaces their timestamps")
        remedy = timestamps.remedy(self._flow, self._topic.remote)
        raise PartitionError(f"{self._topic.remote}: {timestamps.REASON}; {remedy}", blocked=True)

    def _naming(self, error: PartitionError) -> PartitionError:
        """The error, with the own topic that did not take a record: librdkafka does not say which topic failed."""
        topic = self._own_topic or next(iter(self._missing), "")
        if topic and not isinstance(error, RecordsRefused):
            reason = self._missing.get(topic, error)
            error.args = (f"{topic} takes no record: {reason}; the flow leader makes it again if it is missing",)
        return error

    def _produce(self, batch: ConsumedBatch, chosen: Sequence[int], downstream: dict[int, int]) -> int:
        """Queue the batch. Returns the bytes of its keys, values and headers.

        Once delivered, the first record, the last one and those `chosen` have their offsets in `downstream`, by index;
        with `active_active` all of them.
        """
        messages, self._sent = batch.messages, batch.timestamps
        keys, headers = batch.keys, readable(batch.headers)
        tells: list[Callable[..., None] | None] = [None] * len(messages)
        everywhere = self._flow.active_active and self._entry_chooser is not None
        told = range(len(messages)) if everywhere else (0, *chosen, len(messages) - 1)
        for index in told:
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

    def _sync(self, batch: ConsumedBatch, index: int, downstream: Mapping[int, int]) -> OffsetSync:
        return OffsetSync(*self._partition, batch.offsets[index], downstream[index])

    def _produce_sync(self, sync: OffsetSync) -> None:
        self._produce_own(self._flow.offset_syncs_topic, key=sync.key(), value=sync.value())

    def _produce_own(self, topic: str, **record: Any) -> None:
        self._own_topic = topic
        self._producer.produce(topic, partition=0, callback=note_missing(self._missing, topic), **record)
        self._own_topic = ""
