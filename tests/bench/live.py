"""Replication latency of live records: produce to read_committed consume, seen by processes of their own."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.harness.waiting import until

Sample = tuple[float, float]  # when it was sent (monotonic seconds), latency in seconds
SIZE = 200  # bytes of each value
TICK = 0.001  # seconds between two looks at the clock


@dataclass(frozen=True, slots=True)
class Path:
    """Where the records go."""

    source: str
    topic: str
    target: str
    remote: str
    partitions: int


def _write(path: Path, rate: int, stop: Any) -> None:
    producer = Producer({"bootstrap.servers": path.source, "linger.ms": 0})
    rest = bytes(SIZE - 20)
    begun, number = time.monotonic(), 0
    while not stop.is_set():
        due = int((time.monotonic() - begun) * rate) + 1
        for each in range(number, due):
            producer.produce(path.topic, b"%020d" % time.monotonic_ns() + rest, partition=each % path.partitions)
        number = due
        producer.poll(0)
        time.sleep(TICK if rate >= 1 / TICK else 1 / rate)
    producer.flush()


def _read(path: Path, stop: Any, ready: Any, out: Connection) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": path.target,
            "group.id": "bench",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.assign([TopicPartition(path.remote, n, 0) for n in range(path.partitions)])
    samples: list[Sample] = []
    while not stop.is_set():
        first = consumer.poll(0.1)
        messages = [first, *consumer.consume(1_000, 0)] if first is not None else []
        now = time.monotonic_ns()
        for sent in (int(message.value()[:20]) for message in messages if message.error() is None):
            samples.append((sent / 1e9, (now - sent) / 1e9))
        if samples:
            ready.set()
    consumer.close()
    out.send(samples)


def observe(
    path: Path, rate: int, run: Callable[[], None], exists: Callable[[], bool], size: int = 200
) -> list[Sample]:
    """Write at `rate` records/s and read, from before `run` until it returns; samples in order of arrival."""
    spawn = multiprocessing.get_context("spawn")
    stop_writing, stop_reading, arrived = spawn.Event(), spawn.Event(), spawn.Event()
    here, there = spawn.Pipe(duplex=False)
    reader = spawn.Process(target=_read, args=(path, stop_reading, arrived, there), daemon=True)
    writer = spawn.Process(target=_write, args=(path, rate, stop_writing), daemon=True)
    writer.start()
    until("the remote topic", exists, 120)
    reader.start()
    try:
        assert arrived.wait(120), "no record arrives"
        run()
        stop_writing.set()
        writer.join(30)
        time.sleep(1.0)  # what was sent last is on its way
        stop_reading.set()
        return list(here.recv())
    finally:
        for process in (writer, reader):
            process.kill()


def percentiles(samples: list[Sample], since: float = 0.0, before: float = float("inf")) -> dict[str, float]:
    """In milliseconds, of what was sent in a span of time."""
    found = sorted(latency * 1000 for sent, latency in samples if since <= sent < before)
    if not found:
        return {"records": 0}

    def at(share: float) -> float:
        return found[min(len(found) - 1, int(len(found) * share))]

    names = {"p50_ms": 0.5, "p99_ms": 0.99, "p99.9_ms": 0.999, "max_ms": 1.0}
    return {"records": len(found), **{name: round(at(share), 2) for name, share in names.items()}}
