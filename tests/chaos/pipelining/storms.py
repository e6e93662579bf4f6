"""Wire copiers copy in the safe way while brokers die, hang and change their roles."""

from __future__ import annotations

import contextlib
import random
import threading
import time
import uuid
from collections import Counter

from confluent_kafka import KafkaException

from mirror.demo.brokers import LocalCluster
from tests.chaos.pipelining.wire_copier import SAFE, TRANSACTION_RECORDS, WireCopier, create, tried
from tests.harness import topics
from tests.harness.wire_producer import WireProducer


class Storm:
    """Wire copiers that copy in the safe way, each in a thread of its own, while faults come at random."""

    def __init__(self, cluster: LocalCluster, rng: random.Random, copiers: int = 4, transactions: int = 400) -> None:
        self._cluster, self._rng = cluster, rng
        run, nodes = uuid.uuid4().hex[:6], [broker.node for broker in cluster.brokers]
        names = [create(cluster.bootstrap, f"storm-{n}-{run}", rng.sample(nodes, 3)) for n in range(copiers)]
        self.copiers = [WireCopier(cluster.bootstrap, name, SAFE, transactions * TRANSACTION_RECORDS) for name in names]
        self.faults: Counter[str] = Counter()

    def play(self) -> None:
        """Inject faults until all is copied."""
        threads = [threading.Thread(target=self._copy, args=(copier,), daemon=True) for copier in self.copiers]
        for each in threads:
            each.start()
        faults = (self._kill, self._pause_others_and_kill, self._hang, self._move, self._cut)
        while any(each.is_alive() for each in threads):
            fault = self._rng.choice(faults)
            self.faults[fault.__name__.strip("_")] += 1
            fault()
            time.sleep(self._rng.uniform(0, 1))

    def _copy(self, copier: WireCopier) -> None:
        copier.enter_again()
        copier.copy()

    def _kill(self) -> None:
        broker = self._rng.choice(self._cluster.brokers)
        broker.kill()
        time.sleep(self._rng.uniform(0, 4))
        broker.start()

    def _pause_others_and_kill(self) -> None:
        """Kill a broker that the others have fetched nothing from for a moment, because they were paused."""
        leader, *others = self._rng.sample(self._cluster.brokers, 3)
        for each in others:
            each.pause()
        time.sleep(self._rng.uniform(0, 0.5))
        leader.kill()
        for each in others:
            each.resume()
        time.sleep(self._rng.uniform(0, 4))
        leader.start()

    def _hang(self) -> None:
        """A leader is deposed, and does not know it when it goes on."""
        broker = self._rng.choice(self._cluster.brokers)
        broker.pause()
        time.sleep(self._rng.uniform(0, 6))
        broker.resume()

    def _move(self) -> None:
        """Let other replicas lead, without any harm."""
        nodes = [broker.node for broker in self._cluster.brokers]
        wire = WireProducer(self._cluster.bootstrap)
        for copier in self.copiers:
            tried(lambda at=copier: wire.reassign(at.topic, self._rng.sample(nodes, 3)))  # type: ignore[misc]
        with contextlib.suppress(KafkaException):
            topics.elect(self._cluster.bootstrap)
        wire.forget()

    def _cut(self) -> None:
        for copier in self.copiers:
            copier.cut.set()
