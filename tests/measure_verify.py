"""Measures `mirror verify`: python -m tests.measure_verify [records] [bytes] [partitions]."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from mirror.demo.brokers import LocalCluster, start_together
from tests.harness import topics
from tests.harness.command import answer
from tests.harness.load import producer
from tests.harness.pair import Pair

START = 1_700_000_000_000  # ms


def main(records: int = 1_000_000, size: int = 200, partitions: int = 1) -> None:
    """Two clusters with the same records, and the time that the command takes, Spark's start included."""
    with tempfile.TemporaryDirectory(prefix="mirror-measure-") as directory:
        source, target = LocalCluster("source", Path(directory)), LocalCluster("target", Path(directory))
        start_together(source, target)
        try:
            pair = Pair(source.bootstrap, target.bootstrap, "primary", "t")
            fill(pair, records, size, partitions)
            file = pair.service(Path(directory)).file
            begun = time.monotonic()
            found = answer("verify", "-c", file)
            took = time.monotonic() - begun
            assert found["equal"] and found["flows"][0]["compared"] == records
            print(f"{records:,} records of {size} B in {partitions} partitions, both sides: {took:.1f} s")
        finally:
            source.stop()
            target.stop()


def fill(pair: Pair, records: int, size: int, partitions: int) -> None:
    """Write the same records to both sides, as if mirror had copied them."""
    for bootstrap, topic in ((pair.source, "t"), (pair.target, pair.remote("t"))):
        topics.create(bootstrap, topic, partitions, retention_ms=-1)  # the records are years old
        to = producer(bootstrap, linger_ms=50, queue_buffering_max_messages=200_000)
        for number in range(records):
            value = (b"%012d" % number).ljust(size, b".")
            while True:
                try:
                    to.produce(topic, value, b"%d" % number, number % partitions, timestamp=START + number)
                    break
                except BufferError:
                    to.poll(0.1)
        assert to.flush(120) == 0
    positions = {number: len(range(number, records, partitions)) for number in range(partitions)}
    topics.commit(pair.target, pair.group, pair.remote("t"), positions)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
