"""Faults that are meant for the client of the batch path: what brokers answer, and when."""

from __future__ import annotations

import random
import time

from tests.chaos.arena import REAUTHENTICATE, TRANSACTION_TIMEOUT, Arena
from tests.chaos.clusters import OFFSETS
from tests.chaos.matrix import row
from tests.chaos.processes import STEPS, go_on
from tests.chaos.recorder import Recorder
from tests.harness import topics
from tests.harness.proxy import Proxy, Spoil
from tests.harness.spoiling import cut_off, garbage, silence
from tests.harness.waiting import PATIENCE, until

TRANSACTIONS = "__transaction_state"
REQUESTS = {
    "Produce": 0,
    "Fetch": 1,
    "Metadata": 3,
    "OffsetFetch": 9,
    "FindCoordinator": 10,
    "SaslAuthenticate": 36,
    "InitProducerId": 22,
    "EndTxn": 26,
    "TxnOffsetCommit": 28,
}


def _spoil(arena: Arena, rng: random.Random, spoil: Spoil) -> None:
    """Spoil the answers of one cluster for some seconds."""
    proxy: Proxy = rng.choice((arena.source_proxy, arena.target_proxy))
    print(f"   {'source' if proxy is arena.source_proxy else 'target'}", flush=True)
    proxy.spoil = spoil
    time.sleep(rng.uniform(1, TRANSACTION_TIMEOUT + 4))
    proxy.spoil = None


@row("wire: answers are cut off in the middle", wire=True)
def answers_cut_off(arena: Arena, rng: random.Random, _: Recorder) -> None:
    _spoil(arena, rng, cut_off(rng))


@row("wire: garbage and impossible lengths in place of answers", wire=True)
def garbage_answers(arena: Arena, rng: random.Random, _: Recorder) -> None:
    _spoil(arena, rng, garbage(rng))


@row("wire: answers to one kind of request never come", wire=True)
def no_answers(arena: Arena, rng: random.Random, _: Recorder) -> None:
    name = rng.choice(sorted(REQUESTS))
    print(f"   {name}", flush=True)
    _spoil(arena, rng, silence(REQUESTS[name]))


@row("wire: a coordinator moves at a step of a transaction", wire=True)
def coordinator_moves(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    partition = rng.randrange(len(recorder.senders))
    group = arena.pair.group
    topic, key = rng.choice(((OFFSETS, group), (TRANSACTIONS, f"{group}/{recorder.remote}/{partition}")))
    number = _hash(key) % topics.partitions(arena.pair.target, topic)
    leader = topics.leaders(arena.pair.target, topic)[number]
    broker = next(each for each in arena.target.brokers if each.node == leader)
    victim = arena.failpoints.send("SIGSTOP", rng.choice(STEPS), nth=rng.randint(1, 5))
    try:
        broker.stop()
        bootstrap = next(each.bootstrap for each in arena.target.brokers if each is not broker)
        until("another leader", lambda: topics.leaders(bootstrap, topic)[number] not in (-1, leader), PATIENCE)
    finally:
        go_on(victim)
    broker.start()


def _hash(name: str) -> int:
    """Java's String.hashCode, made positive as Kafka does it to find a coordinator's partition."""
    code = 0
    for letter in name:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    return code & 0x7FFFFFFF


@row("wire: a login expires at a step of a transaction", wire=True)
def login_expires(arena: Arena, rng: random.Random, _: Recorder) -> None:
    victim = arena.failpoints.send("SIGSTOP", rng.choice(STEPS), nth=rng.randint(1, 5))
    try:
        # Connections are of any age. Some transactions outlive this, others don't.
        time.sleep(rng.uniform(0.5, 1.0) * REAUTHENTICATE / 1000)
    finally:
        go_on(victim)


@row("wire: all requests are throttled", wire=True)
def throttled_requests(arena: Arena, rng: random.Random, _: Recorder) -> None:
    bootstrap = rng.choice((arena.pair.source, arena.pair.target))
    with topics.throttled(bootstrap, "mirror", request_percentage=1):
        time.sleep(rng.uniform(1, TRANSACTION_TIMEOUT + 4))
