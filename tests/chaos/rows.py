"""The fault matrix: each row injects its fault into a running round, and ends when the fault has ended."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka.admin import AclOperation, ResourceType

from tests.chaos.arena import REAUTHENTICATE, TRANSACTION_TIMEOUT, USER, Arena
from tests.chaos.recorder import CompactedRecorder, Recorder
from tests.harness import credentials, oracle, topics
from tests.harness.load import Made
from tests.harness.waiting import PATIENCE, until

Fault = Callable[[Arena, random.Random, Recorder], None]


class Row(NamedTuple):
    """One kind of fault."""

    name: str
    fault: Fault
    everywhere: bool  # may it be combined with others?
    recorder: type[Recorder]


PASSED_OVER = "source data is lost, copying goes on behind it"
ROWS: dict[str, Row] = {}
STEPS = ("before-produce", "after-produce", "after-offsets", "after-commit")


def row(name: str, everywhere: bool = True, recorder: type[Recorder] = Recorder) -> Callable[[Fault], Fault]:
    """Enter a fault into the matrix."""

    def enter(fault: Fault) -> Fault:
        key = fault.__name__.replace("_", "-")
        ROWS[key] = Row(name, fault, everywhere, recorder)
        return fault

    return enter


def _await_worker(arena: Arena) -> list[int]:
    return until("workers", arena.service.worker_pids, PATIENCE)


# 1 to 4: Spark


@row("1 kill -9 a worker at a step of a transaction")
def worker_at_step(arena: Arena, rng: random.Random, _: Recorder) -> None:
    arena.failpoints.send("SIGKILL", rng.choice(STEPS), nth=rng.randint(1, 5), timeout=PATIENCE)


@row("1 kill -9 a worker at any moment")
def worker(arena: Arena, rng: random.Random, _: Recorder) -> None:
    os.kill(rng.choice(_await_worker(arena)), signal.SIGKILL)


@row("3 kill -9 the service, start another")
def service(arena: Arena, _: random.Random, __: Recorder) -> None:
    arena.service.kill()
    arena.start_service()


@row("2, 3 kill -9 Spark's JVM: driver and executor")
def jvm(arena: Arena, _: random.Random, __: Recorder) -> None:
    os.kill(arena.service.jvm_pid, signal.SIGKILL)
    assert arena.service.wait() == 1, arena.service.tail()
    arena.start_service()


@row("4 Spark's checkpoint is lost, and a worker killed")
def checkpoint(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    found = list(arena.temporary.glob("mirror-*/checkpoint-*"))
    assert found, "no checkpoint"
    for directory in found:
        shutil.rmtree(directory)
    worker(arena, rng, recorder)


# 5: brokers


@row("5 kill -9 the source's broker")
def source_broker(arena: Arena, rng: random.Random, _: Recorder) -> None:
    arena.source.kill()
    time.sleep(rng.uniform(0, 2))
    arena.source.start()


@row("5 kill -9 one of the target's brokers")
def target_broker(arena: Arena, rng: random.Random, _: Recorder) -> None:
    broker = rng.choice(arena.target.brokers)
    broker.kill()
    time.sleep(rng.uniform(0, 4))
    broker.start()


@row("5 kill -9 all of the target's brokers")
def target_brokers(arena: Arena, _: random.Random, __: Recorder) -> None:
    arena.target.kill()
    arena.target.start()


@row("5 the target's brokers restart one by one")
def rolling_restart(arena: Arena, rng: random.Random, _: Recorder) -> None:
    for broker in rng.sample(arena.target.brokers, len(arena.target.brokers)):
        broker.restart()


# 6, 7: what hangs or is cut off


@row("6 a worker hangs for longer than a transaction may last")
def worker_hangs(arena: Arena, rng: random.Random, _: Recorder) -> None:
    victim = rng.choice(_await_worker(arena))
    os.kill(victim, signal.SIGSTOP)
    time.sleep(TRANSACTION_TIMEOUT + rng.uniform(0, 4))
    os.kill(victim, signal.SIGCONT)


@row("6 a worker hangs at a step of a transaction, for longer than it may last")
def worker_hangs_at_step(arena: Arena, rng: random.Random, _: Recorder) -> None:
    victim = arena.failpoints.send("SIGSTOP", rng.choice(STEPS), nth=rng.randint(1, 5), timeout=PATIENCE)
    time.sleep(TRANSACTION_TIMEOUT + rng.uniform(0, 4))
    os.kill(victim, signal.SIGCONT)


@row("6 a broker of the target hangs")
def target_broker_hangs(arena: Arena, rng: random.Random, _: Recorder) -> None:
    broker = rng.choice(arena.target.brokers)
    broker.pause()
    time.sleep(rng.uniform(1, TRANSACTION_TIMEOUT + 4))
    broker.resume()


@row("7 the network: cut, one way only, slow, connections reset")
def network(arena: Arena, rng: random.Random, _: Recorder) -> None:
    proxy = rng.choice((arena.source_proxy, arena.target_proxy))
    kind = rng.choice(("cut", "swallow_requests", "swallow_answers", "delay", "reset"))
    print(f"   {kind} {'source' if proxy is arena.source_proxy else 'target'}", flush=True)
    if kind == "delay":
        proxy.delay = rng.uniform(0.05, 0.5)
    elif kind != "reset":
        setattr(proxy, kind, True)
    if kind in ("cut", "reset"):
        proxy.disconnect()
    time.sleep(rng.uniform(1, TRANSACTION_TIMEOUT + 4))
    proxy.heal()


# 8, 9: old owners, old requests


@row("8 a second service with the same configuration")
def second_service(arena: Arena, _: random.Random, __: Recorder) -> None:
    first = arena.service
    arena.start_service()
    assert first.wait() == 3, first.tail()


@row("9 an EndTxn arrives in the next transaction")
def held_back_end_txn(arena: Arena, _: random.Random, recorder: Recorder) -> None:
    held = arena.target_proxy.hold_back_end_txn(f"mirror-{arena.pair.alias}-backup-{recorder.topic}-")
    until("the EndTxn arrives", lambda: held.error is not None, PATIENCE)
    arena.target_proxy.held = None
    assert held.request is not None and held.during is not None
    before = (held.request.producer_id, held.request.epoch)
    assert (held.during.producer_id, held.during.epoch) > before, "the producer was not recycled"
    assert held.error, "the broker took an EndTxn of an older producer"


# 10 to 15: what the source has


@row("10 an open transaction on the source holds records back, and is aborted")
def open_transaction(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    to = recorder.senders[1].transactional("-open")
    to.begin_transaction()
    to.produce(recorder.topic, b"never", partition=rng.randrange(len(recorder.senders)))
    to.flush(30)
    time.sleep(rng.uniform(0.5, 3))
    to.abort_transaction(30)


@row("11 a compacted topic: gaps and tombstones", everywhere=False, recorder=CompactedRecorder)
def compaction(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    def has_gaps() -> bool:
        """Behind the position, compaction has left less than half of the records."""
        behind = [r for r in oracle.read(arena.pair.source, recorder.topic)[0] if r.offset >= position]
        return len(behind) > 100 and len(behind) < (behind[-1].offset - position) / 2

    with arena.workers_stopped():
        position = recorder.watch.positions()[0]
        until("gaps on the source", has_gaps)
    if rng.random() < 0.5:
        worker(arena, rng, recorder)
    recorder.await_progress()
    assert not arena.service.find(PASSED_OVER, topic=recorder.topic), "a false alarm"


@row("12 records are deleted before they are copied", everywhere=False)
def deleted_records(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    with arena.workers_stopped():
        end = recorder.source_ends()[0]
        until("more on the source", lambda: recorder.source_ends()[0] > end + 100)
        recorder.remember()
        topics.remove_records(arena.pair.source, recorder.topic, end + rng.randint(50, 100))
    said = arena.service.wait_for_event(PASSED_OVER, topic=recorder.topic)
    first, last = re.findall(r"offsets (\d+) to (\d+) were deleted", said["reason"])[0]
    recorder.passed_over[0].update(range(int(first), int(last) + 1))


@row("13 the topic is deleted and created again, shorter or longer than before", everywhere=False)
def recreated(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    with arena.workers_stopped():
        before = recorder.source_ends()
        recorder.recreate(longer=rng.random() < 0.5)
    for number, end in before.items():
        said = arena.service.wait_for_event(PASSED_OVER, topic=recorder.topic, partition=number)
        (last,) = re.findall(r"what followed offset (-?\d+) of the old one is lost", said["reason"])
        recorder.passed_over[number].update(range(int(last) + 1, end))


@row("14 partitions are added", everywhere=False)
def growth(_: Arena, __: random.Random, recorder: Recorder) -> None:
    recorder.grow(4)


@row("15 a record too large for the target", everywhere=False)
def oversize(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    topics.configure(arena.pair.target, recorder.remote, max_message_bytes=50_000)
    arena.pair.produce(recorder.topic, Made(b"large", rng.randbytes(60_000)))
    said = arena.service.wait_for_event("record refused, copying goes on behind it", topic=recorder.topic)
    (offset,) = re.findall(r"at offset (\d+)", said["reason"])
    recorder.passed_over[0].add(int(offset))


@row("16 a permission is revoked, and granted again", everywhere=False)
def permission(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    what = rng.choice(("write", "read", "transactional id"))
    print(f"   {what}", flush=True)
    source, target = arena.pair.source, arena.pair.target
    bootstrap, resource, name, operation = {
        "write": (target, ResourceType.TOPIC, recorder.remote, AclOperation.WRITE),
        "read": (source, ResourceType.TOPIC, recorder.topic, AclOperation.READ),
        "transactional id": (
            target,
            ResourceType.TRANSACTIONAL_ID,
            f"mirror-{arena.pair.alias}-backup-{recorder.topic}-0",
            AclOperation.WRITE,
        ),
    }[what]
    with topics.forbidden(bootstrap, resource, name, operation):
        failed = {"topic": recorder.topic, "state": "failed"}
        if what != "read":  # for an open fetch session a broker does not ask again
            arena.service.wait_for("failed", lambda: arena.service.metric("mirror_partitions", **failed) > 0)
        time.sleep(rng.uniform(0, 5))


@row("16 the service's credentials expire, and are given again")
def credentials_expire(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    bootstrap = rng.choice((arena.pair.source, arena.pair.target))
    credentials.expire(bootstrap, USER)
    time.sleep(REAUTHENTICATE / 1000 + rng.uniform(0, 5))
    arena.service.wait_for("not ready", lambda: arena.service.get("/readyz")[0] == 503)
    credentials.allow(bootstrap, USER)


@row("17 the disk of one of the target's brokers is full", everywhere=False)
def target_disk_full(arena: Arena, rng: random.Random, _: Recorder) -> None:
    broker = arena.target.brokers[-1]
    with arena.broker_disk.full():
        until("the broker gives up", lambda: broker.process is None or broker.process.poll() is not None, PATIENCE)
        time.sleep(rng.uniform(0, 3))
    broker.kill()
    broker.start()


@row("17 the service's disk is full, and its workers killed")
def local_disk_full(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    with arena.local_disk.full():
        worker(arena, rng, recorder)
        time.sleep(rng.uniform(0, 5))


@row("18 records from the future and the past")
def skewed_records(_: Arena, rng: random.Random, recorder: Recorder) -> None:
    for sender in recorder.senders:
        sender.skew = rng.choice((-1, 1)) * rng.randint(1_000, 3_500_000)  # a broker takes an hour at most


@row("18 the service's clock is an hour ahead or behind")
def skewed_service(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    assert arena.service.terminate() == 0, arena.service.tail()
    arena.start_service({"MIRROR_CLOCK_AHEAD": str(rng.choice((-3600, 3600)))})
    recorder.await_progress()
    ages = ("mirror_source_replication_latency_seconds_sum", "mirror_source_record_age_seconds_sum")
    found = [sample for sample in arena.service.metrics() if sample.name in ages]
    assert found and all(sample.value >= 0 for sample in found), found
    assert arena.service.terminate() == 0, arena.service.tail()
    arena.start_service()


@row("quotas: the brokers throttle producing and fetching")
def quotas(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    bootstrap = rng.choice((arena.pair.source, arena.pair.target))
    with topics.throttled(bootstrap, "mirror", producer_byte_rate=5_000, consumer_byte_rate=5_000):
        recorder.await_progress()


@row("22 another number of tasks")
def rescale(arena: Arena, rng: random.Random, _: Recorder) -> None:
    assert arena.service.terminate() == 0, arena.service.tail()
    arena.start_service(tasks_max=rng.choice((1, 2)))
