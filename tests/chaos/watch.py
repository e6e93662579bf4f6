"""Follows a remote topic while things break: what becomes visible, and whether position and records belong together."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaException, TopicPartition

from tests.checker.history import Record, Sample
from tests.harness import oracle, topics
from tests.harness.pair import Pair
from tests.harness.waiting import TooLate

SAMPLE_INTERVAL = 0.5  # seconds
SAMPLE_TIMEOUT = 20.0


class Watch:
    """Two threads: a concurrent reader, and a sampler of positions that compares them with what is visible."""

    def __init__(self, pair: Pair, topic: str) -> None:
        self.seen: dict[int, list[Record]] = {}
        self.samples: dict[int, list[Sample]] = {}
        self._arrived: dict[int, float] = {}  # monotonic
        self._pair = pair
        self._remote = pair.remote(topic)
        self._stopping = threading.Event()
        self._wanted = topics.partitions(pair.source, topic)
        self._threads = [
            threading.Thread(target=each, daemon=True, name=f"watch {topic}") for each in (self._read, self._sample)
        ]

    def start(self) -> None:
        """Begin; the remote topic need not be there yet."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End both threads. May be called again."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)

    def grow(self, partitions: int) -> None:
        """Follow this many partitions from now on."""
        self._wanted = partitions

    def last_arrivals(self) -> list[float]:
        """When each partition last got a record; 0: never."""
        return [self._arrived.get(number, 0.0) for number in range(self._wanted)]

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._pair.target,
                "group.id": f"watch-{uuid.uuid4().hex}",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                "log_level": 0,
            }
        )

    def _read(self) -> None:
        consumer = self._consumer()
        while not self._stopping.is_set():
            for number in range(len(self.seen), self._wanted):
                self.samples[number] = []
                self.seen[number] = []
                consumer.incremental_assign([TopicPartition(self._remote, number, OFFSET_BEGINNING)])
            for message in consumer.consume(1_000, 0.1):
                if message.error() is None:
                    headers = tuple(message.headers() or ())
                    record = Record(message.offset(), message.key(), message.value(), headers, message.timestamp()[1])
                    self.seen[message.partition()].append(record)
                    self._arrived[message.partition()] = time.monotonic()
        consumer.close()

    def _sample(self) -> None:
        # Not to be mistaken: this reader only counts, and its group is the service's, to read its positions.
        positions = Consumer(
            {
                "bootstrap.servers": self._pair.target,
                "group.id": self._pair.group,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        while not self._stopping.wait(SAMPLE_INTERVAL):
            for number in range(len(self.samples)):
                with contextlib.suppress(KafkaException, TooLate):
                    if number >= topics.partitions(self._pair.target, self._remote):
                        continue
                    sample = self._sample_of(positions, number)
                    if sample is not None:
                        self.samples[number].append(sample)
        positions.close()

    def _sample_of(self, positions: Consumer, number: int) -> Sample | None:
        """Position, records, position. The markers of a transaction come to position and records one after another:

        so what was on the target when the position was read has to be decided first.
        """
        before = self._position(positions, number)
        high = oracle.ends(self._pair.target, self._remote, IsolationLevel.READ_UNCOMMITTED)[number]
        deadline = time.monotonic() + SAMPLE_TIMEOUT
        while oracle.ends(self._pair.target, self._remote, IsolationLevel.READ_COMMITTED)[number] < high:
            if time.monotonic() > deadline or self._stopping.wait(0.02):
                return None
        visible = self._visible(number, high)
        return None if visible is None else Sample(before, visible, self._position(positions, number))

    def _position(self, positions: Consumer, number: int) -> int:
        (found,) = positions.committed([TopicPartition(self._remote, number)], 10)
        if found.error is not None:
            raise KafkaException(found.error)
        return int(max(found.offset, -1))

    def _visible(self, number: int, high: int) -> int | None:
        """Records that a read_committed consumer sees now, all up to `high` among them."""
        consumer = oracle.Reader(self._pair.target, self._remote)
        with contextlib.closing(consumer):
            return len(consumer.to_end(SAMPLE_TIMEOUT)[number])
