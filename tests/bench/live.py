"""Replication latency of live records: produce to read_committed consume, seen by processes of their own."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.harness import topics
from tests.harness.waiting import until

Sample = tuple[float, float]  # when it was sent (monotonic seconds), latency in seconds
SIZE = 200  # bytes of each value
TICK = 0.001  # seconds between two looks at the clock
TRICKLE = 20.0  # records per second until the first has arrived: what piles up at a start is not measured
LATE = 60.0  # seconds
WARM_UP = 15.0  # seconds; JVMs compile what is hot in the first ones
TOPIC_MAX = 1_000  # partitions of a topic: a controller of Kafka does not make one with 10,000 in one step
SPAWN = multiprocessing.get_context("spawn")


def spread(topic: str, partitions: int) -> dict[str, int]:
    """The topics that have so many partitions together, and how many each has; one if that may be."""
    firsts = range(0, partitions, TOPIC_MAX)
    return {_name(topic, first): min(TOPIC_MAX, partitions - first) for first in firsts}


def _name(topic: str, number: int) -> str:
    return f"{topic}-{number // TOPIC_MAX}" if number >= TOPIC_MAX else topic


@dataclass(frozen=True, slots=True)
class Path:
    """Where the records go: to the partitions of `spread` in turn."""

    source: str
    topic: str
    target: str
    remote: str
    partitions: int
    read: int = 0  # how many of the first topic's are read; 0: all

    @property
    def watched(self) -> int:
        """How many partitions are read."""
        return self.read or self.partitions

    def place(self, number: int) -> tuple[str, int]:
        """The topic and the partition of a record."""
        partition = number % self.partitions
        return _name(self.topic, partition), partition % TOPIC_MAX

    def arriving(self, sent: int) -> int:
        """How many of so many records are read: they go to each partition in turn."""
        rounds, rest = divmod(sent, self.partitions)
        return rounds * self.watched + min(rest, self.watched)


def _write(path: Path, trickle: float, rate: float, full: Any, stop: Any, sent: Any) -> None:
    """`trickle` records/s until `full` is set, then `rate`."""
    producer = Producer({"bootstrap.servers": path.source, "linger.ms": 0, "queue.buffering.max.messages": 1_000_000})
    rest = bytes(SIZE - 20)

    def until_set(event: Any, rate: float) -> None:
        begun, before = time.monotonic(), sent.value
        while not event.is_set():
            due = before + int((time.monotonic() - begun) * rate) + 1
            for each in range(sent.value, due):
                value = b"%020d" % time.monotonic_ns() + rest
                topic, partition = path.place(each)
                producer.produce(topic, value, partition=partition)
            sent.value = due
            producer.poll(0)
            time.sleep(TICK if rate >= 1 / TICK else 1 / rate)

    if trickle:
        until_set(full, trickle)
    full.wait()
    until_set(stop, rate)
    producer.flush()


def _read(path: Path, stop: Any, arrived: Any, sent: Any, out: Connection) -> None:
    """Read until `stop` is set and all that was sent has come, or until it is too late."""
    consumer = Consumer(
        {
            "bootstrap.servers": path.target,
            "group.id": "bench",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.assign([TopicPartition(path.remote, n, 0) for n in range(path.watched)])
    samples: list[Sample] = []
    deadline = float("inf")
    while time.monotonic() < deadline and not (stop.is_set() and len(samples) >= sent.value):
        first = consumer.poll(0.1)
        messages = [first, *consumer.consume(1_000, 0)] if first is not None else []
        now = time.monotonic_ns()
        for at in (int(message.value()[:20]) for message in messages if message.error() is None):
            samples.append((at / 1e9, (now - at) / 1e9))
        if samples:
            arrived.set()
        if stop.is_set():
            deadline = min(deadline, time.monotonic() + LATE)
    consumer.close()
    out.send(samples)


@contextlib.contextmanager
def writing(path: Path, rate: float, trickle: float = 0.0) -> Iterator[tuple[Any, Callable[[], int]]]:
    """Write at `rate` records/s once the event that it gives is set; what else it gives ends that, and counts them."""
    full, stop, sent = SPAWN.Event(), SPAWN.Event(), SPAWN.Value("q", 0, lock=False)
    writer = SPAWN.Process(target=_write, args=(path, trickle, rate, full, stop, sent), daemon=True)
    writer.start()

    def finish() -> int:
        full.set()
        stop.set()
        writer.join(30)
        return int(sent.value)

    try:
        yield full, finish
    finally:
        writer.kill()


@contextlib.contextmanager
def reading(path: Path) -> Iterator[tuple[Any, Callable[[int], list[Sample]]]]:
    """Read what arrives. It gives an event, set by the first record, and what waits for all of so many sent ones.

    The latter gives samples in order of arrival, and raises AssertionError if not all have come some time after.
    """
    stop, arrived, sent = SPAWN.Event(), SPAWN.Event(), SPAWN.Value("q", 0, lock=False)
    here, there = SPAWN.Pipe(duplex=False)
    reader = SPAWN.Process(target=_read, args=(path, stop, arrived, sent, there), daemon=True)
    reader.start()
    there.close()  # or nobody would notice that the reader has died

    def finish(count: int) -> list[Sample]:
        sent.value = path.arriving(count)
        stop.set()
        samples: list[Sample] = list(here.recv())
        missing = sent.value - len(samples)
        assert missing <= 0, f"{missing:,} of {sent.value:,} records have not come {LATE:.0f} s after the last was sent"
        return samples

    try:
        yield arrived, finish
    finally:
        reader.kill()


def observe(path: Path, rate: float, run: Callable[[], None]) -> list[Sample]:
    """Write at `rate` records/s and read while `run` runs; samples in order of arrival.

    Raises AssertionError if not all have come some time after.
    """
    with writing(path, rate, min(rate, TRICKLE)) as (full, finish):
        until("the remote topic", lambda: topics.partitions(path.target, path.remote) > 0, 120)
        with reading(path) as (arrived, all_of):
            assert arrived.wait(120), "no record arrives"
            full.set()
            run()
            return all_of(finish())


def percentiles(samples: list[Sample], since: float = 0.0, before: float = float("inf")) -> dict[str, float]:
    """Percentiles of the latency, in milliseconds, of records that were sent in a span of time."""
    found = sorted(latency * 1000 for sent, latency in samples if since <= sent < before)
    if not found:
        return {"records": 0}

    def at(share: float) -> float:
        return found[min(len(found) - 1, int(len(found) * share))]

    names = {"p50_ms": 0.5, "p99_ms": 0.99, "p99.9_ms": 0.999, "max_ms": 1.0}
    return {"records": len(found), **{name: round(at(share), 2) for name, share in names.items()}}
