"""What goes into one transaction: records, their offset syncs and the position, on one producer incarnation."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice, repeat
from operator import length_hint
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from mirror.buffer import Batch, leader_epoch
from mirror.clients import request_limits
from mirror.dead_letters import dead_letter
from mirror.errors import MirrorError, OutcomeUnknown, PartitionError, RecordsRefused
from mirror.idempotent import IdempotentProducer
from mirror.offset_syncs import OffsetSync, SyncMarks
from mirror.plan import Partition, Topic
from mirror.positions import Position
from mirror.producer import TransactionalProducer
from mirror.settings import Flow

NO_HEADERS: list[Any] = []
UNINTERRUPTED = 1_000  # records queued before another thread may have the interpreter
UNEVEN = 1.1  # requests taken for full, for records are not all of a size
TargetProducer = TransactionalProducer | IdempotentProducer


class Incarnation:
    """A fenced producer and what it has told the target so far; discarded with the producer after any doubt."""

    def __init__(self, flow: Flow, partition: Partition, topic: Topic, producer: TargetProducer) -> None:
        self._flow = flow
        self._partition = partition
        self._topic = topic
        self._producer = producer
        self._request_limits = request_limits(flow)
        self._marks = SyncMarks(flow.offset_lag_max)
        self._tail: OffsetSync | None = None
        self.duration = 0.0  # seconds that the last transaction took
        self.ended = 0.0  # monotonic; long ago, or an idle partition would have to keep its producer to settle

    @property
    def suspect(self) -> bool:
        """Must this producer not begin another transaction?"""
        return self._producer.suspect

    @property
    def unsynced_tail(self) -> bool:
        """Has the last record of the last batch no offset sync yet?"""
        return self._tail is not None

    def copy(self, batch: Batch) -> int:
        """Copy `batch` in one transaction with its position; returns the bytes of keys, values and headers.

        Raises TransactionAborted, RecordsRefused, ProducerFenced or OutcomeUnknown.
        """
        chosen = self._marks.choose(batch.offsets)
        downstream: dict[int, int] = {}  # by index into the batch
        size = 0

        def produce() -> None:
            nonlocal size
            size = self._produce(batch, chosen, downstream)
            if chosen:
                self._producer.flush()
                for index in chosen:
                    # A record that was not delivered has no offset; then the transaction fails as a whole.
                    if index in downstream:
                        self._produce_sync(self._sync(batch, index, downstream))

        try:
            self._run(produce, self._position(batch.next_offset, batch.epoch))
        except RecordsRefused as error:
            if len(batch.messages) == 1 and downstream:  # the record was taken: no reason to pass it over
                raise PartitionError(f"{self._flow.offset_syncs_topic} takes no offset sync: {error}") from error
            raise
        self._marks.committed(batch.offsets, chosen)
        self._tail = None if self._marks.tail_is_synced else self._sync(batch, len(batch.offsets) - 1, downstream)
        return size

    def settle(self, position: Position) -> None:
        """Commit a position without records, and the sync of the last record if it has none yet.

        So a caught-up consumer group translates exactly, and the position is behind no markers or aborted records.
        Raises as `copy`.
        """
        tail = self._tail
        self._run(lambda: self._produce_sync(tail) if tail else None, position)
        if tail:
            self._marks.tail_synced()
            self._tail = None

    def keep(self, position: Position) -> None:
        """Commit a position again as it is, and be it one of a topic that is gone. Raises as `copy`."""
        self._run(lambda: None, position)

    def pass_over(self, batch: Batch, reason: str, whole: bool) -> None:
        """Commit the position behind a record that the target refuses, by policy with a dead letter.

        If not `whole`, the letter has none of the record's bytes. Raises as `copy`.
        """

        def produce() -> None:
            if self._flow.on_poison_record == "dead_letter":
                headers = NO_HEADERS
                with contextlib.suppress(RecordsRefused):  # for the sake of its headers: then `reason` says so
                    (headers,) = _headers(batch.messages)
                letter = dead_letter(self._partition, batch.messages[0], headers, reason, whole)
                self._producer.produce(self._flow.dead_letter_topic, partition=0, **letter)

        self._run(produce, self._position(batch.next_offset, batch.epoch))

    def delivered(self, batch: Batch) -> Position | None:
        """Where a batch that failed has to go on: behind those records that stand; None: with its first one."""
        count = min(self._producer.delivered, len(batch.offsets))  # offset syncs come after the records
        if not count:
            return None
        last = count - 1
        return self._position(batch.offsets[last] + 1, leader_epoch(batch.messages[last]))

    def discard(self) -> None:
        """End the producer without waiting for anything."""
        self._producer.discard()

    def _position(self, offset: int, epoch: int) -> Position:
        return Position(offset, self._topic.topic_id, epoch)

    def _run(self, produce: Callable[[], None], position: Position) -> None:
        producer, begun = self._producer, time.monotonic()
        try:
            producer.begin()
            produce()
            producer.send_position(position.to_commit(self._topic.remote, self._partition.partition))
            producer.commit()
        except KafkaException as error:
            failure: KafkaError = error.args[0]
        except PartitionError:
            raise
        except Exception as error:
            away = isinstance(error, MirrorError) and error.away
            raise OutcomeUnknown(f"{type(error).__name__}: {error}", away) from error
        else:
            self.ended = time.monotonic()
            self.duration = self.ended - begun
            return
        raise producer.failed(failure)  # out here, see clients.py

    def _produce(self, batch: Batch, chosen: Sequence[int], downstream: dict[int, int]) -> int:
        """Queue the batch; the records `chosen` and the last one will tell their downstream offset."""
        messages = batch.messages
        keys = list(map(Message.key, messages))
        headers = _headers(messages)
        tells: list[Callable[..., None] | None] = [None] * len(messages)
        for index in (*chosen, len(messages) - 1):
            tells[index] = _tell(downstream, index)
        # The hot loop: `map` spends no step of the interpreter on a record, and keywords would double produce's cost.
        topic, number = repeat(self._topic.remote), repeat(self._partition.partition)
        values = map(Message.value, messages)
        calls = map(self._producer.produce, topic, values, keys, number, tells, repeat(None), batch.timestamps, headers)
        size = batch.size + sum(map(len, filter(None, keys)))
        request = self._request(size / len(messages))
        while deque(islice(calls, min(request, UNINTERRUPTED)), maxlen=1):
            self._producer.keep_down(2 * request)
        self._producer.keep_down(request)
        return size + sum(map(_headers_size, filter(None, headers)))

    def _request(self, size: float) -> int:
        """How many records of so many bytes, keys and values, are enough for a request."""
        limit, records = self._request_limits
        return 1 + min(records, int(UNEVEN * limit / max(1.0, size)))

    def _sync(self, batch: Batch, index: int, downstream: dict[int, int]) -> OffsetSync:
        return OffsetSync(*self._partition, batch.offsets[index], downstream[index])

    def _produce_sync(self, sync: OffsetSync) -> None:
        self._producer.produce(self._flow.offset_syncs_topic, sync.value(), sync.key(), 0)


def _tell(downstream: dict[int, int], index: int) -> Callable[[KafkaError | None, Message], None]:
    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            downstream[index] = message.offset()

    return delivered


class _Unreadable:
    """Stands for headers that can't be read. Whoever asks for them is told, without a look at each record's."""

    def __bool__(self) -> bool:
        raise RecordsRefused("a header's name is not UTF-8, so the headers can't be read")


def _headers(messages: Sequence[Message]) -> list[Any]:
    """Of each record. Raises RecordsRefused if those of one can't be read, for a name that is not UTF-8.

    The client library fails at them only once. From then on it gives a list with a hole in place of the name: produced,
    that becomes "<NULL>", and taking it apart ends the process (confluent-kafka 2.16). So nobody may be given it.
    """
    unread = iter(messages)
    try:
        return [found or NO_HEADERS for found in map(Message.headers, unread)]
    except (SystemError, UnicodeDecodeError):
        messages[-1 - length_hint(unread)].set_headers(_Unreadable())
        return _headers(messages)


def _headers_size(headers: Sequence[tuple[str, bytes | None]]) -> int:
    return sum(len(key) + len(value or b"") for key, value in headers)
