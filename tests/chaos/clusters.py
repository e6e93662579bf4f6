"""Faults of brokers, of the way to them, and of what they allow."""

from __future__ import annotations

import contextlib
import json
import random
import re
import time

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation, ResourceType

from tests.chaos.arena import TRANSACTION_TIMEOUT, USER, Arena
from tests.chaos.matrix import row
from tests.chaos.packets import lost
from tests.chaos.recorder import Recorder
from tests.harness import acls, credentials, topics
from tests.harness.held_back import HeldBack
from tests.harness.load import producer
from tests.harness.waiting import PATIENCE, until

OFFSETS = "__consumer_offsets"
# What a late request may meet before the broker looks at its epoch: -1 is a session that has expired.
NOT_JUDGED = (-1, KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)


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
        broker.stop()
        broker.start()


@row("6 a broker of the target hangs")
def target_broker_hangs(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    broker = rng.choice(arena.target.brokers)
    broker.pause()
    time.sleep(rng.uniform(1, TRANSACTION_TIMEOUT + 4))
    with recorder.watch.in_doubt():
        broker.resume()
        recorder.heals()
        _await_agreement(arena, recorder)


def _await_agreement(arena: Arena, recorder: Recorder) -> None:
    """Wait until all brokers know the same leaders.

    A broker that has not heard of an election answers from what it knew, as leader and as coordinator.
    """

    def agree() -> bool:
        followed = (recorder.remote, OFFSETS)
        views = [[topics.leaders(each.bootstrap, topic) for topic in followed] for each in arena.target.brokers]
        return all(view == views[0] for view in views)

    until("all agree", agree, PATIENCE)


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
    if kind != "reset":
        time.sleep(rng.uniform(1, TRANSACTION_TIMEOUT + 4))
    proxy.heal()


@row("7 the network: packets are lost", everywhere=False)
def packets(arena: Arena, rng: random.Random, _: Recorder) -> None:
    proxy = rng.choice((arena.source_proxy, arena.target_proxy))
    ports = [int(address.rpartition(":")[2]) for address in proxy.bootstrap.split(",")]
    with lost(ports, rng.uniform(0.02, 0.2)):
        time.sleep(rng.uniform(1, TRANSACTION_TIMEOUT + 4))


@row("8 a stranger takes a transactional id of mirror's, and writes with it")
def hijack(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    group = arena.pair.group
    victim = rng.choice([f"{group}/leader", *(f"{group}/{recorder.remote}/{s.partition}" for s in recorder.senders)])
    # What it leaves open under another partition's id is the broker's to end, before the judge looks.
    soon = {"transaction_timeout_ms": 5_000, "message_timeout_ms": 5_000}
    to = producer(arena.pair.target, transactional_id=victim, **soon)
    to.init_transactions(PATIENCE)
    with contextlib.suppress(KafkaException):  # mirror may be quick to take it back
        to.begin_transaction()
        to.produce(recorder.remote, b"foreign", partition=0)
        to.flush(PATIENCE)


@row("9 an EndTxn arrives in the next transaction")
def held_back_end_txn(arena: Arena, _: random.Random, recorder: Recorder) -> None:
    held: HeldBack | None = None
    arena.failpoints.arm("SIGCONT", "after-produce", nth=1_000_000)  # where it is armed, records are delivered first
    while held is None or held.error in NOT_JUDGED:
        held = arena.target_proxy.hold_back_end_txn(f"{arena.pair.group}/{recorder.remote}/")
        until("an EndTxn is held", lambda held=held: held.request is not None, PATIENCE)  # type: ignore[misc]
        recorder.heals()
        until("it arrives", lambda held=held: held.error is not None, PATIENCE)  # type: ignore[misc]
    arena.target_proxy.held = None
    arena.failpoints.disarm()
    assert held.request is not None and held.during is not None
    before = (held.request.producer_id, held.request.epoch)
    assert (held.during.producer_id, held.during.epoch) > before, "the producer was not recycled"
    assert held.error in (KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED), held.error


@row("16 a permission on the target is revoked, and granted again", everywhere=False)
def permission(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    resource, name = rng.choice(
        (
            (ResourceType.TOPIC, recorder.remote),
            (ResourceType.TRANSACTIONAL_ID, f"{arena.pair.group}/{recorder.remote}/0"),
        )
    )
    print(f"   {name}", flush=True)
    with acls.forbidden(arena.pair.target, resource, name, AclOperation.WRITE):
        _await_refusal(arena, recorder)
        time.sleep(rng.uniform(0, 5))


@row("16 the permission to read the source is revoked, and granted again", everywhere=False)
def read_permission(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    with acls.forbidden(arena.pair.source, ResourceType.TOPIC, recorder.topic, AclOperation.READ):
        arena.source_proxy.disconnect()  # for an open fetch session a broker does not ask again
        _await_refusal(arena, recorder)
        time.sleep(rng.uniform(0, 5))


def _await_refusal(arena: Arena, recorder: Recorder) -> None:
    """Wait until a partition is blocked because something is not permitted; each data path has words of its own."""
    reason = _await_state(arena, recorder, "blocked")
    assert re.search("authorization.failed", reason, re.IGNORECASE), reason


def _await_state(arena: Arena, recorder: Recorder, state: str) -> str:
    """Wait until a partition in this state is shown; returns the reason."""

    def reasons() -> list[str]:
        (flow,) = json.loads(arena.service.get("/status")[1])["flows"]
        shown = [p for topic in flow["topics"] if topic["topic"] == recorder.topic for p in topic["partitions"]]
        return [p["reason"] for p in shown if p["state"] == state]

    reason = arena.service.wait_for(state, reasons)[0]
    assert reason
    return reason


@row("16 the service's credentials expire, and are given again")
def credentials_expire(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    bootstrap = rng.choice((arena.pair.source, arena.pair.target))
    credentials.expire(bootstrap, USER)
    arena.service.wait_for("told", lambda: "uthentication" in arena.service.get("/readyz")[1])
    time.sleep(rng.uniform(0, 5))
    credentials.allow(bootstrap, USER)


@row("17 the disk of one of the target's brokers is full", everywhere=False)
def target_disk_full(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    broker = arena.target.brokers[-1]
    topics.configure(arena.pair.target, recorder.remote, min_insync_replicas=len(arena.target.brokers))
    with arena.broker_disk.full():
        until("the broker gives up", lambda: broker.process is None or broker.process.poll() is not None, PATIENCE)
        _await_state(arena, recorder, "retrying")  # it goes on by itself once the broker is back
        time.sleep(rng.uniform(0, 3))
    broker.kill()
    broker.start()


@row("quotas: the brokers throttle producing and fetching")
def quotas(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    side = rng.choice(("source", "target"))
    bootstrap = arena.pair.source if side == "source" else arena.pair.target
    # On the target mirror reads its own topics only. Who reads so little of these can't begin to copy for minutes.
    fetching = 5_000 if side == "source" else 100_000
    with topics.throttled(bootstrap, "mirror", producer_byte_rate=5_000, consumer_byte_rate=fetching):
        told = {"topic": recorder.topic, "by": side}
        arena.service.wait_for("told", lambda: arena.service.metric("mirror_throttled_partitions", **told) > 0)
        time.sleep(rng.uniform(0, 5))
