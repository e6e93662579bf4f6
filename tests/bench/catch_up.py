"""Catch-up: a full source topic and an empty target."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
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


def measure(system: System, load: Load) -> dict[str, object]:
    """Run the system from its start until everything is there."""
    remote = system.job.remote(load.topic)
    count = Count(system.job.target.bootstrap, remote, load.partitions)
    usage = Usage(system)
    started = time.monotonic()
    now = start_cpu = 0.0
    samples: list[tuple[float, int]] = []
    with system:
        # Markers count too, so that the sum can be reached before the last record is.
        while not samples or samples[-1][1] < load.records or now - samples[-1][0] < STILL:
            at = count.now()
            now = time.monotonic() - started
            if at and not samples:
                usage.look(0)
                start_cpu = usage.cpu
            if at and (not samples or at > samples[-1][1]):
                samples.append((now, at))
            usage.look()
            if now > LATE:
                raise AssertionError(f"{system.name} has only copied {at} of {load.records} records in {LATE:.0f} s")
            time.sleep(0.02 if at else 0.05)
        usage.look(0)
    wrong = missing(system.job.target.bootstrap, remote, load)
    if wrong:
        raise AssertionError(f"{system.name}: {wrong}")
    first = samples[0]
    quarter, last = (next(s for s in samples if s[1] >= share * load.records) for share in (0.25, 0.98))
    sustained = (last[1] - quarter[1]) / max(1e-9, last[0] - quarter[0])
    return {
        "start_s": first[0],
        "overall_records_per_s": (last[1] - first[1]) / max(1e-9, last[0] - first[0]),
        "records_per_s": sustained,
        "bytes_per_s": sustained * load.size,
        "memory_bytes": usage.peak,
        "cpu_s_per_million": usage.cpu / load.records * 1e6,
        "cpu_after_start_s_per_million": (usage.cpu - start_cpu) / max(1, load.records - first[1]) * 1e6,
    }
