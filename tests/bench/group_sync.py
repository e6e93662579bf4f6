"""How exactly the offsets of consumer groups arrive: twenty groups at twenty lags on a transactional source.

Each record's value is its number among the committed ones of its partition. So the value of the record that a group
would read next, here and there, says by how many records a translated offset is off.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from confluent_kafka import Producer

from tests.bench.job import Job
from tests.bench.systems import Mirror, MirrorMaker, System
from tests.checker.history import Record
from tests.harness import oracle, topics
from tests.harness.compaction import write_again
from tests.harness.waiting import PATIENCE, until

Result = dict[str, object]

GROUPS = 20
PARTITIONS = 2
TRANSACTIONS = 1_000  # of which every fifth is aborted
SIZE = 20  # records of each transaction in each partition
STEADY = 15.0  # seconds in which no offset changes on the target any more
FIRST = 120.0  # seconds in which offsets may come that are not there yet
COPY_TIMEOUT = 300.0  # seconds
SOON = {"segment_ms": 1_000, "min_cleanable_dirty_ratio": 0.001}
COMPACTION_TIMEOUT = 180.0  # seconds


class SyncingMirror(Mirror):
    """This service with group sync each second."""

    more: Mapping[str, object] = {"groups": {"sync": True, "interval": "1s"}}


class SyncingMirrorMaker(MirrorMaker):
    """MirrorMaker 2, exactly-once, with group sync each second."""

    tuning: Mapping[str, object] = {
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": 1,
        "emit.checkpoints.interval.seconds": 1,
        "refresh.groups.interval.seconds": 1,
    }


SYSTEMS: Mapping[str, Callable[[Job], System]] = {"mirror": SyncingMirror, "mm2": SyncingMirrorMaker}


def measure(name: str, job: Job) -> Iterator[Result]:
    """Measure the synced offsets after a catch-up, and after offset syncs were compacted and the system restarted."""
    topic, other = job.topics
    for each, count in job.topics.items():
        topics.create(job.source.bootstrap, each, count)
    _fill(job.source.bootstrap, topic)
    here = oracle.read(job.source.bootstrap, topic)
    with SYSTEMS[name](job):
        until("copied", lambda: _is_copied(job, topic, here), timeout=COPY_TIMEOUT)
        yield {"state": "after a catch-up", **_sync(job, topic, here, "first")}
        _compact(job, other)
    with SYSTEMS[name](job):
        yield {"state": "after compaction and a restart", **_sync(job, topic, here, "second")}


def _fill(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(PATIENCE)
    number = 0
    for transaction in range(TRANSACTIONS):
        producer.begin_transaction()
        for record in range(SIZE):
            for partition in range(PARTITIONS):
                producer.produce(topic, b"%d" % (number + record), partition=partition)
        if transaction % 5 == 0:
            producer.flush(PATIENCE)
            producer.abort_transaction(PATIENCE)
        else:
            producer.commit_transaction(PATIENCE)
            number += SIZE


def _is_copied(job: Job, topic: str, here: Mapping[int, list[Record]]) -> bool:
    remote = job.remote(topic)
    if topics.partitions(job.target.bootstrap, remote) < PARTITIONS:
        return False
    there = oracle.read(job.target.bootstrap, remote)
    return all(len(there.get(number, [])) == len(records) for number, records in here.items())


def _sync(job: Job, topic: str, here: Mapping[int, list[Record]], run: str) -> Result:
    """Commit the groups' offsets on the source, wait until the system has brought them, and compare."""
    groups = {f"{job.alias}-{run}-{number}": number for number in range(GROUPS)}
    wanted: dict[tuple[str, int], int] = {}
    for group, number in groups.items():
        numbers = {partition: number * len(records) // GROUPS for partition, records in here.items()}
        at = {partition: here[partition][n].offset for partition, n in numbers.items()}
        topics.commit(job.source.bootstrap, group, topic, at)
        wanted.update({(group, partition): n for partition, n in numbers.items()})
    arrived = _arrived(job, job.remote(topic), list(wanted))
    there = oracle.read(job.target.bootstrap, job.remote(topic))
    off = [_next(there[at[1]], offset) - wanted[at] for at, offset in arrived.items() if offset is not None]
    return {
        "exact": off.count(0),
        "early": sum(each < 0 for each in off),  # they read records again
        "late": sum(each > 0 for each in off),  # they pass records over
        "missing": len(wanted) - len(off),  # nothing is committed on the target
        "again": -min([0, *off]),  # most records that a group reads again
    }


def _arrived(job: Job, remote: str, wanted: list[tuple[str, int]]) -> dict[tuple[str, int], int | None]:
    """The groups' offsets on the target, once all are there, or none comes any more, and they don't change."""
    found: dict[tuple[str, int], int | None] = {}
    begun = since = time.monotonic()
    while time.monotonic() - since < STEADY or (None in found.values() and time.monotonic() - begun < FIRST):
        now = {at: oracle.committed_position(job.target.bootstrap, at[0], remote, at[1]) for at in wanted}
        if now != found:
            found, since = now, time.monotonic()
    return found


def _next(records: list[Record], offset: int) -> int:
    """The number of the record that a consumer reads first from this offset."""
    return next((int(record.value or b"") for record in records if record.offset >= offset), len(records))


def _compact(job: Job, other: str) -> None:
    """Have the brokers compact the topics that the system translates with.

    The segment that is written to is never compacted, so records have to come until it is done. Each of these is a
    transaction, so each has an offset sync.
    """
    own = [
        (cluster.bootstrap, name)
        for cluster, suffix in ((job.target, job.alias), (job.source, "backup"))
        for name in (f"mm2-offset-syncs.{suffix}.internal", f"mirror-offset-map.{suffix}.internal")
        if topics.partitions(cluster.bootstrap, name)
    ]
    for bootstrap, name in own:
        topics.configure(bootstrap, name, **SOON)
    before = oracle.count(oracle.read(*own[0]))
    are_maps_compacted = [write_again(*each) for each in own if "offset-map" in each[1]]
    producer = Producer({"bootstrap.servers": job.source.bootstrap, "transactional.id": other, "log_level": 0})
    producer.init_transactions(PATIENCE)

    def compacted() -> bool:
        for _ in range(20):
            producer.begin_transaction()
            producer.produce(other, b"x")
            producer.commit_transaction(PATIENCE)
        maps = all(is_compacted() for is_compacted in are_maps_compacted)
        return maps and oracle.count(oracle.read(*own[0])) < before / 2

    until("compaction", compacted, timeout=COMPACTION_TIMEOUT)
