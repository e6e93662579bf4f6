"""Faults that are meant for the client of the batch path: what brokers answer, and when."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.chaos.arena import REAUTHENTICATE, TRANSACTION_TIMEOUT, Arena
from tests.chaos.clusters import OFFSETS
from tests.chaos.matrix import in_turn, row
from tests.chaos.processes import STEPS, every_worker, go_on
from tests.chaos.recorder import Recorder
from tests.harness import topics
from tests.harness.proxy import Proxy
from tests.harness.spoiling import How, Spoiler, ThrottleWatch, cut_off, garbage, silence
from tests.harness.waiting import PATIENCE, until

TRANSACTIONS = "__transaction_state"
CLUSTERS = ("source", "target")
REQUESTS = {
    "Produce": 0,
    "Fetch": 1,
    "ListOffsets": 2,
    "Metadata": 3,
    "OffsetCommit": 8,
    "OffsetFetch": 9,
    "FindCoordinator": 10,
    "SaslHandshake": 17,
    "ApiVersions": 18,
    "InitProducerId": 22,
    "EndTxn": 26,
    "TxnOffsetCommit": 28,
    "SaslAuthenticate": 36,
}
CONNECTING = ("ApiVersions", "SaslHandshake", "SaslAuthenticate")
TAKING_OVER = ("Metadata", "FindCoordinator", "InitProducerId", "ListOffsets", "OffsetCommit", "OffsetFetch")
# What whole batches need of each cluster. The flow leader asks the source for groups and their offsets. On the target,
# Fetch is for the records of a transaction that perhaps took effect.
AIMS = (
    *(("source", kind) for kind in (*CONNECTING, "Metadata", "Fetch", "FindCoordinator", "OffsetFetch")),
    *(("target", kind) for kind in (*CONNECTING, *TAKING_OVER, "Produce", "TxnOffsetCommit", "EndTxn", "Fetch")),
)
# What a worker asks once, and perhaps never again.
OF_NEW_WORKERS = {("source", "Metadata"), *(("target", kind) for kind in TAKING_OVER)}
WHOLE = {"source": REQUESTS["Fetch"], "target": REQUESTS["EndTxn"]}  # what is asked all the time on the batch path
HALF, TENTH = 0.5, 0.1
OF_BATCHES = "-of-batches"
FENCE = ("before-fence", "after-fence")
ALL_STEPS = (*FENCE, *STEPS)


def _proxy(arena: Arena, cluster: str) -> Proxy:
    return arena.source_proxy if cluster == "source" else arena.target_proxy


def _marker(arena: Arena, cluster: str, kind: str) -> bytes:
    """What an answer has in it that is for a task. The flow leader's group rounds ask for other things."""
    if kind == "Metadata":
        return arena.pair.prefix.encode()
    if cluster == "target" and kind in ("FindCoordinator", "OffsetFetch"):
        return arena.pair.group.encode()
    return f"mirror-control.{arena.pair.alias}.internal".encode() if kind == "OffsetCommit" else b""


def _spoil(
    arena: Arena, rng: random.Random, recorder: Recorder, how: How, share: float = 1.0, others: float = 0.0
) -> None:
    """Spoil answers of one cluster, with those to one kind of request first, and then for some seconds more."""
    cluster, kind = in_turn(AIMS, recorder.turn)
    print(f"   {kind} {cluster}", flush=True)
    proxy = _proxy(arena, cluster)
    also = (REQUESTS["EndTxn"],) if (cluster, kind) == ("target", "Fetch") else ()
    own = random.Random(rng.random())  # how many answers come is chance, and must not change what is drawn later
    spoiler = Spoiler(REQUESTS[kind], how, own, _marker(arena, cluster, kind), also, share, others)
    proxy.spoil = spoiler
    until("whole batches are copied", lambda: WHOLE[cluster] in spoiler.seen, PATIENCE)
    spoiler.active = True
    if kind in CONNECTING:
        proxy.disconnect()
    elif (cluster, kind) in OF_NEW_WORKERS:
        every_worker(arena)
    until(f"an answer to {kind} is spoiled", lambda: spoiler.given, PATIENCE)
    time.sleep(rng.uniform(1, TRANSACTION_TIMEOUT + 4))
    proxy.spoil = None


@row("wire: answers are cut off in the middle", wire=True)
def answers_cut_off(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    _spoil(arena, rng, recorder, cut_off(random.Random(rng.random())), HALF, TENTH)


@row("wire: garbage and impossible lengths in place of answers", wire=True)
def garbage_answers(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    _spoil(arena, rng, recorder, garbage(random.Random(rng.random())), HALF, TENTH)


@row("wire: answers to one kind of request never come", wire=True)
def no_answers(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    _spoil(arena, rng, recorder, silence)


@contextmanager
def _stopped_at(arena: Arena, step: str, nth: int = 1) -> Iterator[None]:
    """A worker that copies whole batches stands at this step meanwhile."""
    victim = arena.failpoints.send("SIGSTOP", f"{step}{OF_BATCHES}", nth)
    try:
        yield
    finally:
        go_on(victim)


def _nth(rng: random.Random, step: str) -> int:
    """How often the step is to be reached. Hand-overs, by which a partition is fenced, are some seconds apart."""
    return 1 if step in FENCE else rng.randint(1, 5)


@row("wire: a coordinator moves at a step of a transaction", wire=True)
def coordinator_moves(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    topic, step = in_turn(list(itertools.product((OFFSETS, TRANSACTIONS), ALL_STEPS)), recorder.turn)
    print(f"   {topic} {step}", flush=True)
    partition, group = rng.randrange(len(recorder.senders)), arena.pair.group
    key = group if topic == OFFSETS else f"{group}/{recorder.remote}/{partition}"
    number = _hash(key) % topics.partitions(arena.pair.target, topic)
    leader = topics.leaders(arena.pair.target, topic)[number]
    broker = next(each for each in arena.target.brokers if each.node == leader)
    with _stopped_at(arena, step, _nth(rng, step)):
        broker.stop()
        bootstrap = next(each.bootstrap for each in arena.target.brokers if each is not broker)
        until("another leader", lambda: topics.leaders(bootstrap, topic)[number] not in (-1, leader), PATIENCE)
    broker.start()


def _hash(name: str) -> int:
    """Java's String.hashCode, made positive as Kafka does it to find a coordinator's partition."""
    code = 0
    for letter in name:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    return code & 0x7FFFFFFF


@row("wire: a login expires at a step of a transaction", wire=True)
def login_expires(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    step = in_turn(ALL_STEPS, recorder.turn)
    print(f"   {step}", flush=True)
    with _stopped_at(arena, step, _nth(rng, step)):
        # Connections are of any age. Some transactions outlive this, others don't.
        time.sleep(rng.uniform(0.5, 1.0) * REAUTHENTICATE / 1000)


@row("wire: all requests are throttled", wire=True)
def throttled_requests(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    cluster, step = in_turn(list(itertools.product(CLUSTERS, ALL_STEPS)), recorder.turn)
    print(f"   {cluster} {step}", flush=True)
    proxy, watch = _proxy(arena, cluster), ThrottleWatch()
    bootstrap = arena.pair.source if cluster == "source" else arena.pair.target
    with topics.throttled(bootstrap, "mirror", request_percentage=1):
        proxy.spoil = watch
        until("a client of the batch path is throttled", lambda: watch.throttled, PATIENCE)
        proxy.spoil = None
        with _stopped_at(arena, step):
            time.sleep(rng.uniform(0, 2))
        time.sleep(rng.uniform(1, TRANSACTION_TIMEOUT + 4))
