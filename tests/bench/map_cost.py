"""What the offset map costs: bytes of the map for bytes of data, and throughput with the map and without it.

Bytes are those of the log's segments on the target, with batch headers and transaction markers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from tests.bench.job import Job
from tests.bench.systems import Mirror
from tests.harness import oracle, topics
from tests.harness.waiting import PATIENCE, until

Result = dict[str, object]

SIZE = 200  # bytes of each value
KEYS = 1_000  # of a compacted topic
ABORT_EVERY = 5  # transactions
COPY_TIMEOUT = 300.0  # seconds


class WithoutMap(Mirror):
    """This service, without the offset map."""

    name = "mirror-without-map"
    environment: Mapping[str, str] = {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent / "without_map"), os.environ.get("PYTHONPATH", "")])
    }

    def unfit(self) -> str:
        """A run in which it has written the map after all does not count."""
        return "it has written an offset map" if _bytes(self.job, _map_topic(self.job)) else ""


@dataclass(frozen=True, slots=True)
class Kind:
    """A source topic and how it is written."""

    words: str
    records: int
    together: int  # records in one batch or transaction
    rate: int = 0  # records/s while the system runs; 0: all are there before it starts
    transactions: bool = False  # of which every fifth is aborted
    compacted: bool = False

    @property
    def topic(self) -> str:
        """A name that says what it is, as long as names of topics are."""
        return "map-" + "".join(each if each.isalnum() else "-" for each in self.words)[:20].strip("-")


KINDS = (
    Kind("no gaps, caught up", 1_000_000, 1_000),
    Kind("no gaps, batches of 100 at 2,000 records/s", 40_000, 100, 2_000),
    Kind("no gaps, single records at 50/s", 1_500, 1, 50),
    Kind("transactions of 100, caught up", 100_000, 100, transactions=True),
    Kind("transactions of 20 at 400 records/s", 8_000, 20, 400, transactions=True),
    Kind("transactions of 1 record at 50/s", 1_500, 1, 50, transactions=True),
    Kind("compacted, caught up", 200_000, 1_000, compacted=True),
    Kind("compacted, single records at 50/s", 1_500, 1, 50, compacted=True),
)


def measure(kind: Kind, job: Job) -> Result:
    """The bytes of the map for those of the remote topic."""
    config = {"cleanup_policy": "compact"} if kind.compacted else {}
    topics.create(job.source.bootstrap, kind.topic, 1, **config)
    if not kind.rate:
        _fill(job.source.bootstrap, kind)
    with Mirror(job):
        if kind.rate:
            until("the remote topic", lambda: topics.partitions(job.target.bootstrap, job.remote(kind.topic)))
            _fill(job.source.bootstrap, kind)
        wanted = oracle.count(oracle.read(job.source.bootstrap, kind.topic))
        until("copied", lambda: _copied(job, kind) >= wanted, COPY_TIMEOUT)
    own = _map_topic(job)
    data, entries = _bytes(job, job.remote(kind.topic)), _bytes(job, own)
    count = oracle.count(oracle.read(job.target.bootstrap, own))
    return {"kind": kind.words, "records": wanted, "data_bytes": data, "map_bytes": entries, "entries": count}


def _copied(job: Job, kind: Kind) -> int:
    remote = job.remote(kind.topic)
    there = topics.partitions(job.target.bootstrap, remote)
    return oracle.count(oracle.read(job.target.bootstrap, remote)) if there else 0


def _map_topic(job: Job) -> str:
    return f"mirror-offset-map.{job.alias}.internal"


def _bytes(job: Job, topic: str) -> int:
    return sum(file.stat().st_size for file in job.directory.glob(f"target-*/data/{topic}-[0-9]*/*.log"))


def _fill(bootstrap: str, kind: Kind) -> None:
    own = {"transactional.id": kind.topic} if kind.transactions else {"enable.idempotence": True}
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1_000, "log_level": 0, **own})
    if kind.transactions:
        producer.init_transactions(PATIENCE)
    body, begun = os.urandom(SIZE).hex().encode(), time.monotonic()
    for group, first in enumerate(range(0, kind.records, kind.together), 1):
        if kind.transactions:
            producer.begin_transaction()
        for number in range(first, first + kind.together):
            value = b"%012d" % number + body[number % SIZE :][: SIZE - 12]
            producer.produce(kind.topic, value, b"%d" % (number % KEYS) if kind.compacted else None, partition=0)
        _end(producer, kind, group)
        if kind.rate:
            time.sleep(max(0.0, begun + (first + kind.together) / kind.rate - time.monotonic()))


def _end(producer: Producer, kind: Kind, group: int) -> None:
    producer.flush(PATIENCE)
    if kind.transactions and group % ABORT_EVERY:
        producer.commit_transaction(PATIENCE)
    elif kind.transactions:
        producer.abort_transaction(PATIENCE)
