"""Catch-up: a full source topic and an empty target."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.bench.systems import System
from tests.bench.usage import Usage

LATE = 600.0  # seconds
STILL = 3.0  # seconds without another record, after which all have come


@dataclass(frozen=True, slots=True)
class Load:
    """What the source topic holds."""

    records: int
    size: int = 200  # bytes of each value
    partitions: int = 4
    headers: bool = False
    compression: str = "none"  # on the source and of the target's producers
    name: str = ""
    batch_bytes: int = 0  # most bytes of a batch on the source, before compression; 0: librdkafka's megabyte

    @property
    def topic(self) -> str:
        """The topic's name; by default one that says what is in it."""
        if self.name:
            return self.name
        extra = ["headers"] * self.headers + [self.compression] * (self.compression != "none")
        extra += [f"batches-{self.batch_bytes}"] * bool(self.batch_bytes)
        return "-".join(["load", str(self.size), str(self.partitions), str(self.records), *extra])


def fill(bootstrap: str, load: Load, since: int = 0) -> None:
    """Write the records, round robin; each value begins with its number. Text-like bytes, which compress somewhat.

    With `since`, a time in ms, there is one each millisecond from then on. Otherwise they have the present time.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,  # a retry must not change the order
            "linger.ms": 50,
            "queue.buffering.max.messages": 1_000_000,
            "compression.type": load.compression,
            **({"batch.size": load.batch_bytes} if load.batch_bytes else {}),
        }
    )
    body = os.urandom(load.size * 2).hex().encode()
    headers = [("trace", b"0123456789abcdef"), ("type", b"order")] if load.headers else []
    for number in range(load.records):
        value = b"%012d" % number + body[number % load.size :][: load.size - 12]
        at = since and since + number
        while True:
            try:
                producer.produce(load.topic, value, partition=number % load.partitions, headers=headers, timestamp=at)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


class Count:
    """How far a topic's last stable offsets have come; transaction markers count too."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._topic = topic
        self._partitions = [TopicPartition(topic, n) for n in range(partitions)]
        self._known = False

    def now(self) -> int:
        """The sum over all partitions; 0 while there is no such topic."""
        with contextlib.suppress(KafkaException):
            if not self._known:
                self._known = self._topic in self._admin.list_topics(timeout=5).topics
                return 0
            asked = {p: OffsetSpec.latest() for p in self._partitions}
            futures = self._admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)
            return sum(future.result().offset for future in futures.values())
        return 0


def records(bootstrap: str, topic: str, partitions: int, first: int = 0) -> Iterator[Message]:
    """All that a read_committed consumer finds from an offset on, up to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, n, first) for n in range(partitions)])
    ended: set[int] = set()
    with contextlib.closing(consumer):
        while len(ended) < partitions:
            for message in consumer.consume(10_000, 0.5):
                if message.error() is None:
                    yield message
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())


def missing(bootstrap: str, remote: str, load: Load) -> str:
    """What is wrong with the copy; "" if it is complete and in order."""
    expected = list(range(load.partitions))
    for message in records(bootstrap, remote, load.partitions):
        partition, number = message.partition(), int(message.value()[:12])
        if number != expected[partition]:
            return f"partition {partition}: {number} where {expected[partition]} should be"
        expected[partition] += load.partitions
    short = [p for p in range(load.partitions) if expected[p] < load.records]
    return f"partitions {short} end early" if short else ""


def watched(name: str, count: Count, load: Load, look: Callable[[int], object]) -> list[tuple[float, int]]:
    """How much had come at which monotonic time, until nothing has come for a while after the last record.

    `look` gets the count each time, 0 at first. Raises AssertionError if it takes too long.
    """
    found: list[tuple[float, int]] = []
    began = now = time.monotonic()
    # Markers count too, so that the sum can be reached before the last record is.
    while not found or found[-1][1] < load.records or now - found[-1][0] < STILL:
        at = count.now()
        now = time.monotonic()
        look(at)
        if at and (not found or at > found[-1][1]):
            found.append((now, at))
        if now - began > LATE:
            raise AssertionError(f"{name} has only copied {at} of {load.records} records in {LATE:.0f} s")
        time.sleep(0.02 if at else 0.05)
    return found


def sustained(samples: Sequence[tuple[float, int]], load: Load) -> float:
    """Records/s without the beginning and the very end."""
    quarter, last = (next(each for each in samples if each[1] >= share * load.records) for share in (0.25, 0.98))
    return (last[1] - quarter[1]) / max(1e-9, last[0] - quarter[0])


def measure(system: System, load: Load) -> dict[str, object]:
    """Run the system from its start until everything is there."""
    remote = system.job.remote(load.topic)
    count = Count(system.job.target.bootstrap, remote, load.partitions)
    usage, at_start = Usage(system), list[float]()

    def look(at: int) -> None:
        if at and not at_start:
            usage.look(0)
            at_start.append(usage.cpu)
        usage.look()

    started = time.monotonic()
    with system:
        samples = watched(system.name, count, load, look)
        usage.look(0)
    wrong = missing(system.job.target.bootstrap, remote, load)
    if wrong:
        raise AssertionError(f"{system.name}: {wrong}")
    first, last = samples[0], next(each for each in samples if each[1] >= 0.98 * load.records)
    rate = sustained(samples, load)
    return {
        "start_s": first[0] - started,
        "overall_records_per_s": (last[1] - first[1]) / max(1e-9, last[0] - first[0]),
        "records_per_s": rate,
        "bytes_per_s": rate * load.size,
        "memory_bytes": usage.peak,
        "cpu_s_per_million": usage.cpu / load.records * 1e6,
        "cpu_after_start_s_per_million": (usage.cpu - at_start[0]) / max(1, load.records - first[1]) * 1e6,
    }
