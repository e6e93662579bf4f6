"""Follows a remote topic while things break: what becomes visible, and whether position and records belong together."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tests.checker.history import Record, Sample
from tests.harness import oracle, topics
from tests.harness.pair import Pair
from tests.harness.waiting import TooLate

SAMPLE_INTERVAL = 0.2  # seconds
DECIDED_WITHIN = 3.0  # seconds that a sample waits for open transactions
TIMEOUT = 5.0
Copies = Callable[[int, Iterable[Record]], list[Record]]


class Counted:
    """Counts the records of a remote partition. It looks at each record once: samples are many."""

    def __init__(self) -> None:
        self.visible = 0
        self._known: set[tuple[object, ...]] = set()
        self._looked_at = 0

    @property
    def doubled(self) -> int:
        """How many of the visible ones are there a second time, or a third."""
        return self.visible - len(self._known)

    def look(self, records: Sequence[Record], copies: Callable[[Sequence[Record]], list[Record]]) -> None:
        """Count what has come to the records since the last look. `copies` says which of them were copied."""
        more = copies(records[self._looked_at :])
        self._looked_at = len(records)
        self.visible += len(more)
        self._known.update(record.identity for record in more)


class Watch:
    """Two threads: a concurrent reader, and a sampler of positions that compares them with what is visible."""

    def __init__(self, pair: Pair, topic: str, partitions: int, copies: Copies) -> None:
        """`copies` says which records of a remote partition were copied."""
        self._copies = copies
        self.seen: dict[int, list[Record]] = {}
        self.samples: dict[int, list[Sample]] = {}
        self.bases: dict[tuple[str, int], int] = {}  # what a topic's id adds to the offsets of its partition
        self.during_fault = False
        self._arrived: dict[int, float] = {}  # monotonic
        self._doubts = 0  # odd: now
        self._restarts = 0  # how often there was another remote topic
        self._pair = pair
        self._remote = pair.remote(topic)
        self._stopping = threading.Event()
        self._wanted = partitions
        self._positions = self._consumer(pair.group)  # the group's own, to ask for its positions
        self._failure: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._run, args=(each,), daemon=True, name=f"watch {topic}")
            for each in (self._read, self._sample)
        ]

    def start(self) -> None:
        """Begin; the remote topic need not be there yet."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End both threads; raises what one of them failed with. May be called again."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _run(self, what: Callable[[], None]) -> None:
        try:
            what()
        except BaseException as failure:
            self._failure = failure

    def grow(self, partitions: int) -> None:
        """Follow this many partitions from now on."""
        self._wanted = partitions

    @contextlib.contextmanager
    def in_doubt(self) -> Iterator[None]:
        """Leave samples out meanwhile: a broker may tell what was true before it was deposed."""
        self._doubts += 1
        yield
        self._doubts += 1

    def restart(self) -> None:
        """The remote topic is another one now: what was seen of the old one is gone."""
        self._restarts += 1

    def last_arrivals(self) -> list[float]:
        """When each partition last got a record; 0: never."""
        return [self._arrived.get(number, 0.0) for number in range(self._wanted)]

    def positions(self, *numbers: int) -> dict[int, int]:
        """The positions of these partitions, or of all, counted through all topics of the name; -1: none.

        Those that hang are left out. While many partitions have transactions, some position is pending at any time, and
        librdkafka asks for all again: then it is better to ask for one.
        """
        asked = [TopicPartition(self._remote, number) for number in numbers or range(self._wanted)]
        return {
            found.partition: self._base(found) + found.offset if found.offset >= 0 else -1
            for found in self._positions.committed(asked, TIMEOUT)
            if found.error is None
        }

    def _base(self, found: TopicPartition) -> int:
        if not found.metadata:  # a stranger's
            return 0
        return self.bases.get((json.loads(found.metadata)["topic_id"], found.partition), 0)

    def _consumer(self, group: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._pair.target,
                "group.id": group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                "topic.metadata.refresh.interval.ms": 1_000,  # for partitions that are added
                "log_level": 0,
            }
        )

    def _read(self) -> None:
        consumer, restarts = self._consumer(f"watch-{uuid.uuid4().hex}"), 0
        while not self._stopping.is_set():
            if restarts != self._restarts:
                restarts = self._restarts
                consumer.close()
                consumer = self._consumer(f"watch-{uuid.uuid4().hex}")
                self.seen.clear()
            for number in range(len(self.seen), self._wanted):
                self.samples[number] = []
                self.seen[number] = []
                consumer.incremental_assign([TopicPartition(self._remote, number, OFFSET_BEGINNING)])
            for message in consumer.consume(1_000, 0.1):
                if message.error() is None:
                    number = message.partition()
                    self.seen[number] += self._copies(number, [oracle.record(message)])
                    self._arrived[message.partition()] = time.monotonic()
        consumer.close()

    def _sample(self) -> None:
        reader: oracle.Reader | None = None
        counted: Mapping[int, Counted] = {}
        restarts = 0
        while not self._stopping.wait(SAMPLE_INTERVAL):
            if restarts != self._restarts:
                reader, restarts = None, self._restarts
            try:
                if reader is None or len(reader.records) < self._wanted:
                    if topics.partitions(self._pair.target, self._remote) < self._wanted:
                        continue
                    reader, counted = oracle.Reader(self._pair.target, self._remote), defaultdict(Counted)
                for number, sample in self._sample_with(reader, counted).items():
                    self.samples[number].append(sample)
            except (KafkaException, TooLate, TimeoutError):
                with contextlib.suppress(KafkaException):  # or librdkafka asks those that it takes for leaders
                    topics.admin(self._pair.target).list_topics(timeout=TIMEOUT)

    def _sample_with(self, reader: oracle.Reader, counted: Mapping[int, Counted]) -> dict[int, Sample]:
        """Positions, records, positions. The markers of a transaction come to position and records one after another:

        so what was on the target when the positions were read has to be decided first.
        """
        doubts = self._doubts
        before, during_fault = self.positions(), self.during_fault
        high, deadline = self._ends(IsolationLevel.READ_UNCOMMITTED), time.monotonic() + DECIDED_WITHIN
        stable = self._ends(IsolationLevel.READ_COMMITTED)
        while any(stable[number] < high[number] for number in high) and time.monotonic() < deadline:
            self._stopping.wait(0.02)
            stable = self._ends(IsolationLevel.READ_COMMITTED)
        for number, records in reader.to_end(TIMEOUT).items():
            counted[number].look(records, partial(self._copies, number))
        after = self.positions()
        if doubts % 2 or doubts != self._doubts:
            return {}
        decided = [number for number in high if stable[number] >= high[number]]
        return {
            number: Sample(
                before[number], counted[number].visible, after[number], during_fault, counted[number].doubled
            )
            for number in decided
            # The reader may have asked a broker that has not heard of all partitions yet.
            if number in counted and number in before and number in after and number in self.samples
        }

    def _ends(self, isolation: IsolationLevel) -> Mapping[int, int]:
        asked = {TopicPartition(self._remote, number): OffsetSpec.latest() for number in range(self._wanted)}
        admin = topics.admin(self._pair.target)
        futures = admin.list_offsets(asked, isolation_level=isolation, request_timeout=TIMEOUT)
        found = {tp.partition: int(future.result(2 * TIMEOUT).offset) for tp, future in futures.items()}
        if min(found.values()) < 0:  # librdkafka's answer, as a success, while a leader is away
            raise TooLate(f"no end of {self._remote}: {found}")
        return found
