"""Measures throughput and replication latency of the real service between two local clusters.

    python -m tests.measure throughput [--records 3000000] [--size 200] [--partitions 4]
    python -m tests.measure latency [--rate 50] [--seconds 30]

Prints one JSON object. Figures are of this machine, with both brokers, Spark and the load on it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from mirror.local_kafka import LocalCluster, start_together

CONFIG = """
clusters:
  primary: {{bootstrap.servers: "{source}"}}
  backup: {{bootstrap.servers: "{target}"}}
flows:
  - source: primary
    target: backup
    {flow}
http: {{host: 127.0.0.1, port: 0}}
"""


@contextmanager
def clusters(directory: Path) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """Two fresh one-broker clusters."""
    source, target = LocalCluster("source", directory), LocalCluster("target", directory)
    start_together(source, target)
    try:
        yield source, target
    finally:
        source.stop()
        target.stop()


@contextmanager
def service(directory: Path, source: LocalCluster, target: LocalCluster, flow: str) -> Iterator[None]:
    """`mirror run`, ended with SIGTERM."""
    config = directory / "mirror.yaml"
    config.write_text(CONFIG.format(source=source.bootstrap, target=target.bootstrap, flow=flow))
    process = subprocess.Popen([sys.executable, "-m", "mirror", "run", "-c", str(config)])
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def create(cluster: LocalCluster, topic: str, partitions: int) -> None:
    """Create a topic."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()


def fill(cluster: LocalCluster, topic: str, partitions: int, records: int, size: int) -> None:
    """Write `records` values of `size` bytes, round robin."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000}
    )
    body = os.urandom(size)
    for number in range(records):
        while True:
            try:
                producer.produce(topic, b"%012d" % number + body[12:], partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


class Count:
    """How many records a read_committed reader could see now, from the offsets that positions have reached."""

    def __init__(self, target: LocalCluster, topic: str, partitions: int) -> None:
        self._admin = AdminClient({"bootstrap.servers": target.bootstrap})
        self._partitions = [TopicPartition(topic, n) for n in range(partitions)]

    def now(self) -> int:
        """Downstream offsets up to the last stable one; transaction markers count too."""
        futures = self._admin.list_offsets(
            {p: OffsetSpec.latest() for p in self._partitions}, isolation_level=IsolationLevel.READ_COMMITTED
        )
        with contextlib.suppress(KafkaException):  # a partition that was just created has no leader yet
            return sum(future.result().offset for future in futures.values())
        return 0


def visible(target: LocalCluster, topic: str, partitions: int) -> int:
    """Records that a read_committed consumer gets from the whole topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": target.bootstrap,
            "group.id": "measure",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, n, 0) for n in range(partitions)])
    seen, ended = 0, 0
    while ended < partitions:
        for message in consumer.consume(10_000, 0.5):
            if message.error():
                ended += 1
            else:
                seen += 1
    consumer.close()
    return seen


def throughput(arguments: argparse.Namespace, directory: Path) -> dict[str, object]:
    """Catch-up from a full topic to an empty target."""
    records, partitions = arguments.records, arguments.partitions
    with clusters(directory) as (source, target):
        create(source, "bulk", partitions)
        fill(source, "bulk", partitions, records, arguments.size)
        started = time.monotonic()
        with service(directory, source, target, arguments.flow):
            create_seen = AdminClient({"bootstrap.servers": target.bootstrap})
            while "primary.bulk" not in create_seen.list_topics(timeout=5).topics:
                time.sleep(0.05)
            count = Count(target, "primary.bulk", partitions)
            while count.now() == 0:
                time.sleep(0.02)
            first = time.monotonic()
            while count.now() < records:
                time.sleep(0.02)
            last = time.monotonic()
        assert visible(target, "primary.bulk", partitions) == records
    return {
        "records": records,
        "size": arguments.size,
        "partitions": partitions,
        "start_to_first_commit_s": round(first - started, 2),
        "seconds": round(last - first, 2),
        "records_per_s": round(records / (last - first)),
    }


def latency(arguments: argparse.Namespace, directory: Path) -> dict[str, object]:
    """Produce to read_committed consume, milliseconds, after a warm-up of a fifth of the time."""
    partitions = arguments.partitions
    with clusters(directory) as (source, target):
        create(source, "live", partitions)
        with service(directory, source, target, arguments.flow):
            samples = _live(source, target, partitions, arguments.rate, arguments.seconds)
    kept = sorted(samples[len(samples) // 5 :])
    cuts = statistics.quantiles(kept, n=1000)
    return {
        "rate": arguments.rate,
        "records": len(kept),
        **{name: round(cuts[at], 1) for name, at in (("p50_ms", 499), ("p99_ms", 989), ("p99.9_ms", 998))},
        "max_ms": round(kept[-1], 1),
    }


def _live(source: LocalCluster, target: LocalCluster, partitions: int, rate: int, seconds: int) -> list[float]:
    samples: list[float] = []
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    while "primary.live" not in admin.list_topics(timeout=5).topics:
        time.sleep(0.05)
    consumer = Consumer(
        {
            "bootstrap.servers": target.bootstrap,
            "group.id": "measure",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
        }
    )
    consumer.assign([TopicPartition("primary.live", n, 0) for n in range(partitions)])
    total = rate * seconds
    finished = threading.Event()

    def read() -> None:
        while len(samples) < total and not finished.wait(0):
            message = consumer.poll(0.2)
            if message is not None and not message.error():
                samples.append((time.monotonic_ns() - int(message.value()[:20])) / 1e6)

    producer = Producer({"bootstrap.servers": source.bootstrap, "linger.ms": 0})
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    producer.produce("live", b"%020d" % time.monotonic_ns() + bytes(180), partition=0)
    while not samples:  # Spark is up
        producer.poll(0.05)
    begun = time.monotonic()
    for number in range(total - 1):
        ahead = begun + number / rate - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        producer.produce("live", b"%020d" % time.monotonic_ns() + bytes(180), partition=number % partitions)
        producer.poll(0)
    producer.flush()
    reader.join(60)
    finished.set()
    assert len(samples) == total, f"{len(samples)} of {total} records arrived"
    return samples


def main() -> None:
    """Run one measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["throughput", "latency"])
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rate", type=int, default=50, help="records/s")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--flow", default="", help="more keys of the flow, as YAML, e.g. 'compression: lz4'")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mirror-measure-") as directory:
        measure = throughput if arguments.what == "throughput" else latency
        print(json.dumps(measure(arguments, Path(directory))))


if __name__ == "__main__":
    main()
