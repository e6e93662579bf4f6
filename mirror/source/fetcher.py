"""The one consumer of a task. It fetches records into the partitions' buffers, and waits while they are full."""

from __future__ import annotations

import contextlib
import logging
import math
import queue
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Generic, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from mirror.kafka import clients
from mirror.kafka.client_errors import is_away, is_lasting
from mirror.kafka.consumed_batch import leader_epoch
from mirror.kafka.polling import polled
from mirror.kafka.renewed import Outage, another, close_apart
from mirror.kafka.throttling import Throttle
from mirror.kafka.topic_ids import TopicIds
from mirror.model import Partition
from mirror.settings import Flow
from mirror.source.corruption import CORRUPT, believed
from mirror.source.fetch_events import EndReached, ReadingBegan, ReadingLost, RecordsArrived, SourceRefused
from mirror.source.fetch_moves import Fetched, Move, Seek, StartFetching
from mirror.source.full_buffers import FullBuffers

log = logging.getLogger(__name__)

POLL_TIMEOUT = 0.05  # seconds; bounds how late a move is made
POLL_MAX = 5_000  # records at once; bounds by how much a buffer can exceed its limit
METADATA_TIMEOUT = 1.0  # seconds
REPLACED_AGAIN = 5.0  # seconds after which it is tried again to replace the consumer
ARRIVED = RecordsArrived()

F = TypeVar("F", bound=Fetched)


@dataclass(frozen=True, slots=True)
class _Consumed:
    """How far a partition was consumed: the records before `offset` went to its buffer.

    `epoch` is the leader epoch of the last of these records (-1 if not known). `looked` is the newest epoch for which
    librdkafka has already checked the log.
    """

    offset: int
    epoch: int
    looked: int


class Fetcher(Generic[F]):
    """Only the thread that calls `poll` touches the consumer. Other threads put moves into a queue."""

    def __init__(self, flow: Flow, throttle: Throttle) -> None:
        self.held: dict[Partition, F] = {}
        self.moves: queue.SimpleQueue[Move[F]] = queue.SimpleQueue()
        self.progress = threading.Event()  # set after every step, which may have made room in a buffer
        self.loops = 0  # grows for as long as the thread that polls does not hang
        self._flow = flow
        self._full = FullBuffers(flow, self.held)
        self._consumed: dict[Partition, _Consumed] = {}
        self._warned: set[tuple[str | None, int, int]] = set()
        self._topic_ids = TopicIds()
        self._throttle = throttle
        self._outage = Outage(flow.source)
        # What a nearer replica has is damaged. The leader's copy may be whole, but it would name that replica again.
        self._from_leaders = False
        self._replace_at = math.inf  # when the consumer has to be replaced, monotonic
        self._consumer = self._open()
        self.group_metadata: bytes = self._consumer.consumer_group_metadata()

    def poll(self) -> None:
        """Make the moves that were asked for. Then take what the consumer has, or wait a little if it has nothing."""
        while not self.moves.empty():
            self.loops += 1
            self._make(self.moves.get())
        self.loops += 1
        if self._hold_back():
            return
        messages = polled(self._consumer, POLL_TIMEOUT, POLL_MAX)
        if self._topic_ids.changed:
            self._compare_ids([r for r in self.held.values() if r.partition.topic in self._topic_ids.changed])
            self._topic_ids.changed.clear()
        if messages:
            self._dispatch(messages)
        # Last, for the next consumer begins after what was dispatched.
        lost = self._outage.has_lost(self._consumer, self._consumed, not messages and bool(self._consumed))
        if lost or time.monotonic() >= self._replace_at:
            self._renew()

    def close(self) -> None:
        """Close the consumer in another thread, without waiting for that."""
        close_apart(self._consumer)

    def _open(self) -> Consumer:
        return clients.source_consumer(self._flow, self._topic_ids, self._throttle, self._from_leaders)

    def _renew(self) -> None:
        """Replace the consumer by a new one, which goes on after the records that were taken."""
        before, self._consumer = self._consumer, another(self._consumer, self._open)
        if self._consumer is before:
            if self._replace_at < math.inf:
                self._replace_at = time.monotonic() + REPLACED_AGAIN
            return
        self._replace_at = math.inf
        self._consumer.incremental_assign(
            [
                TopicPartition(*each, consumed.offset, leader_epoch=consumed.epoch)
                for each, consumed in self._consumed.items()
            ]
        )
        # The former consumer may not have made the seek after which it would have checked the log.
        self._consumed = {each: replace(consumed, looked=consumed.epoch) for each, consumed in self._consumed.items()}
        self._consumer.pause([TopicPartition(*each) for each in self._full.paused])

    def _look_at_id(self, fetched: F) -> None:
        """If the consumer and the plan have different ids of the topic, have them compared again after the next poll.

        The consumer's id may be the old one, and it changes only when the consumer gets new metadata. So this asks for
        metadata. The consumer itself would ask only after a fetch from the deleted topic. But it may never make one:
        each comparison that finds a difference makes the partition seek, and then the consumer begins anew.
        """
        topic = fetched.partition.topic
        if topic not in self._topic_ids.changed and self._reads_another(fetched):
            with contextlib.suppress(KafkaException):  # the ids still differ, so after the next seek it asks again
                self._consumer.list_topics(topic, METADATA_TIMEOUT)
            self._topic_ids.changed.add(topic)

    def _compare_ids(self, partitions: Iterable[F]) -> None:
        for fetched in partitions:
            if self._reads_another(fetched):
                _lost(fetched, "the topic was deleted and created again")

    def _reads_another(self, fetched: F) -> bool:
        """True if the id that the consumer knows of the topic is not the plan's. False if it knows none."""
        planned = fetched.topic.topic_id
        return self._topic_ids.get(fetched.partition.topic, planned) != planned

    def _dispatch(self, messages: Sequence[Message]) -> None:
        others: list[Message] = []
        if any(map(Message.error, messages)):
            others = [message for message in messages if message.error() is not None]
            messages = believed(messages)
        begin = 0
        returned: set[Partition] = set()  # the consumer has just gone back in these: their other messages are dropped
        # librdkafka gives the records of a partition in runs. With `map` and `groupby` the interpreter runs no bytecode
        # for a single record.
        for key, run in groupby(zip(map(Message.topic, messages), map(Message.partition, messages), strict=True)):
            end = begin + len(list(run))
            partition = Partition(*key)
            fetched = self.held.get(partition)
            if fetched is None or partition in returned or partition not in self._consumed:
                pass
            elif self._parted(fetched, messages[begin], messages[end - 1]):
                returned.add(partition)
            else:
                fetched.buffer.append(messages[begin:end])
                epoch = leader_epoch(messages[end - 1])
                self._consumed[partition] = _Consumed(messages[end - 1].offset() + 1, epoch, epoch)
                fetched.post(ARRIVED)
                self._full.look(partition, time.monotonic())
            begin = end
        for other in others:  # after the records before them
            if other.error().code() != KafkaError._PARTITION_EOF or (other.topic(), other.partition()) not in returned:
                self._on_error(other)

    def _parted(self, fetched: F, first: Message, last: Message) -> bool:
        """If these records have a newer leader epoch than those before, make librdkafka check the log (KIP-320).

        Then the answer is True: the log may have been cut before these records, so they must not be taken. The consumer
        goes back and fetches them again, if they are still what follows.

        librdkafka itself checks the log when it hears of an election. But it does not check a partition that it gets
        later, and not at the offset where it begins. A seek makes it check. The seek goes to the offset after the last
        record that was taken, since the epoch is known only there. Markers and aborted records may follow that record.
        """
        partition, newest = fetched.partition, leader_epoch(last)
        consumed = self._consumed[partition]
        known = consumed.epoch if consumed.epoch >= 0 else leader_epoch(first)
        if newest <= max(known, consumed.looked) or not fetched.buffer.go_back(consumed.offset):
            return False
        try:
            self._consumer.seek(TopicPartition(*partition, consumed.offset, leader_epoch=known))
            self._consumed[partition] = replace(consumed, looked=newest)
        except KafkaException as error:
            _lost(fetched, error.args[0].str())
        return True

    def _on_error(self, message: Message) -> None:
        error: KafkaError = message.error()
        topic, partition = message.topic(), message.partition()
        fetched = self.held.get(Partition(topic, partition)) if topic is not None else None
        if fetched is not None and fetched.partition not in self._consumed:  # from an assignment that was replaced
            return
        if error.code() == KafkaError._PARTITION_EOF:
            if fetched is not None:
                fetched.buffer.reached(message.offset())
                fetched.post(EndReached())
        elif error.code() == KafkaError._AUTO_OFFSET_RESET and fetched is not None:
            _lost(fetched, error.str())
        elif error.code() in CORRUPT and fetched is not None:
            # librdkafka 2.16 does not go on where the batch ends, so what it gives from now on can't be believed.
            self._unassign(fetched.partition)
            self._read_from_leaders()
            _lost(fetched, f"the batch at offset {message.offset()} can't be read: {error.str()}", damaged=True)
        # The flow leader logs once for all tasks that a cluster is away. And mirror uses no group on the source.
        elif is_away(error) or (topic is None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED):
            return
        elif fetched is not None:
            fetched.post(SourceRefused(error.str(), is_lasting(error)))
        elif (topic, partition, error.code()) not in self._warned:
            self._warned.add((topic, partition, error.code()))
            where = {"flow": self._flow.name, "topic": topic, "partition": partition}
            log.warning("source consumer error", extra={**where, "reason": error.str()})

    def _read_from_leaders(self) -> None:
        """From now on, if the user wants nearer replicas (KIP-392)."""
        if self._flow.source.rack and not self._from_leaders:
            self._from_leaders, self._replace_at = True, 0.0
            why = "a batch can't be read; perhaps only a nearer replica has it so"
            log.warning("source is read from leaders only", extra={"flow": self._flow.name, "reason": why})

    def _hold_back(self) -> bool:
        """Pause and resume partitions as their buffers require. If nothing may be polled now, wait a little: True."""
        if not self._full:
            return False
        self.progress.clear()
        now = self._full.decide(time.monotonic())
        if now.resume:
            self._consumer.resume([TopicPartition(*each) for each in now.resume])
        if now.pause:
            self._consumer.pause([TopicPartition(*each) for each in now.pause])
        if now.waits:
            self.progress.wait(POLL_TIMEOUT)
        return now.waits

    def _make(self, move: Move[F]) -> None:
        fetched = move.fetched
        partition = fetched.partition
        if isinstance(move, StartFetching):
            self.held[partition] = fetched
            self._assign(partition, *fetched.begins_at)
            fetched.post(ReadingBegan())
            self._look_at_id(fetched)
        elif self.held.get(partition) is not fetched:
            return
        elif isinstance(move, Seek):
            self._unassign(partition)
            self._assign(partition, move.position.offset, move.position.epoch)
            fetched.buffer.sought(move.seek_id)
            self._look_at_id(fetched)
        else:
            self._unassign(partition)
            del self.held[partition]

    def _assign(self, partition: Partition, offset: int, epoch: int) -> None:
        self._consumed[partition] = _Consumed(offset, epoch, epoch)
        self._consumer.incremental_assign([TopicPartition(*partition, offset, leader_epoch=epoch)])

    def _unassign(self, partition: Partition) -> None:
        was_paused = self._full.forget(partition)
        if self._consumed.pop(partition, None) is None:
            return
        if was_paused:  # otherwise it would still be paused when it is assigned again
            self._consumer.resume([TopicPartition(*partition)])
        self._consumer.incremental_unassign([TopicPartition(*partition)])


def _lost(fetched: Fetched, reason: str, damaged: bool = False) -> None:
    """Tell the next step that the consumer can't go on. The buffer is sealed first, so that it takes nothing more."""
    fetched.buffer.seal()
    fetched.post(ReadingLost(reason, damaged))
