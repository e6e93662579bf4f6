"""A leader dies with the middle of transactions, which no follower has fetched."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from mirror.batches.records import Content
from mirror.demo.brokers import Broker, LocalCluster
from tests.chaos.pipelining.wire_copier import BATCH, SAFE, TRANSACTION_RECORDS, Failure, Way, WireCopier, create, tried
from tests.harness import batches, topics
from tests.harness.waiting import PATIENCE, until
from tests.harness.wire_producer import LEADER, TRANSACTION, WireProducer

FILLER = batches.batch([(0, 0, Content(None, b"filler", ()))])
EXPIRY = 1_000  # ms until brokers forget an idle producer
PROPERTIES = {
    "producer.id.expiration.ms": EXPIRY,
    "producer.id.expiration.check.interval.ms": 200,
    "replica.fetch.wait.max.ms": 100,
    "num.io.threads": 4,
}
REFUSED, GAP, NOTHING = "OUT_OF_ORDER_SEQUENCE_NUMBER", "not at", ""


@dataclass(frozen=True, slots=True)
class Case:
    """A way, and what has to come of it when the leader dies with the middle of a transaction."""

    way: Way
    loss: bool  # the checker finds lost records
    refusal: str  # what stops the transaction
    late: bool = False  # the first batch is sent after the followers have stopped
    deleted: bool = False  # the transaction's beginning is deleted, and one replica has never had it


OLD = Way(version=1, explicit=True)
OLD_UNCHECKED = replace(OLD, checked=False)
CASES: Mapping[str, Case] = {
    "safe": Case(SAFE, False, REFUSED),
    "unchecked": Case(Way(checked=False), False, REFUSED),
    "old": Case(OLD_UNCHECKED, False, REFUSED),
    "explicit": Case(Way(explicit=True), False, REFUSED),
    "last-acks-1": Case(Way(last=LEADER), True, NOTHING),
    "first-acks-1": Case(Way(first=LEADER, checked=False, explicit=True), False, REFUSED, late=True),
    "old-first-acks-1": Case(replace(OLD_UNCHECKED, first=LEADER), True, NOTHING, late=True),
    "old-first-acks-1-checked": Case(replace(OLD, first=LEADER), False, GAP, late=True),
    "deleted": Case(Way(checked=False), False, REFUSED, deleted=True),
    "old-deleted": Case(OLD_UNCHECKED, True, NOTHING, deleted=True),
    "old-deleted-checked": Case(OLD, False, GAP, deleted=True),
}


class Round:
    """One leader's death, in the middle of a transaction of each case."""

    def __init__(self, cluster: LocalCluster, cases: Mapping[str, Case] = CASES) -> None:
        self._cluster, self._cases = cluster, cases
        self._leader, self._spare, self._other = cluster.brokers[2], cluster.brokers[1], cluster.brokers[0]
        self._wire = WireProducer(cluster.bootstrap)
        self._run = uuid.uuid4().hex[:6]
        self._filler = self._topic("filler", False)
        self.copiers = {name: self._copier(name, case) for name, case in cases.items()}
        self._sentinel = WireCopier(cluster.bootstrap, self._topic("sentinel", False), SAFE, 2 * TRANSACTION_RECORDS)

    def play(self) -> None:
        """Play the round. At its end each copier has copied all that it can, and the leader is still dead."""
        for copier in (*self.copiers.values(), self._sentinel):
            copier.enter()
            copier.transaction()
        self._await_expired(*self.copiers.values())
        for name, copier in self.copiers.items():
            copier.begin()
            if not self._cases[name].late:
                copier.first()
            if self._cases[name].deleted:
                self._delete_beginning(copier)
        self._sentinel.transaction()
        self._await_expired(self._sentinel)
        self._kill_leader()
        for copier in self.copiers.values():
            self._go_on(copier)
        for copier in self.copiers.values():
            copier.copy()

    def wrong(self) -> list[str]:
        """The cases that did not end as they have to."""
        found = []
        for name, case in self._cases.items():
            copier = self.copiers[name]
            violations = copier.violations(TRANSACTION_RECORDS + BATCH if case.deleted else 0)
            lost = [each for each in violations if each.invariant == "I1"]
            if bool(lost) != case.loss or (violations and not case.loss):
                found.append(f"{name}: loss expected: {case.loss}; found {len(violations)}, e.g. {violations[:1]}")
            stopped = copier.refusals[0] if copier.refusals else NOTHING
            if case.refusal not in stopped or bool(stopped) != bool(case.refusal):
                found.append(f"{name}: {case.refusal or 'no refusal'} expected, but {copier.refusals}")
        return found

    def _topic(self, name: str, deleted: bool) -> str:
        replicas = [self._leader.node, self._other.node, self._spare.node][: 2 if deleted else 3]
        return create(self._cluster.bootstrap, f"{name}-{self._run}", replicas)

    def _copier(self, name: str, case: Case) -> WireCopier:
        topic = self._topic(name, case.deleted)
        transactional_id = self._coordinated_by_leader(topic) if case.late else topic
        return WireCopier(self._cluster.bootstrap, topic, case.way, 3 * TRANSACTION_RECORDS, transactional_id)

    def _coordinated_by_leader(self, name: str) -> str:
        """A transactional id whose coordinator answers while the followers stand still."""

        def is_here(each: str) -> bool:
            return self._wire.coordinator(TRANSACTION, each)[0] == self._leader.node

        def found() -> str | None:
            topics.elect(self._cluster.bootstrap)
            return tried(lambda: next(filter(is_here, (f"{name}-{number}" for number in range(30))), None))

        return until("a coordinator", found, PATIENCE)

    def _await_expired(self, *copiers: WireCopier) -> None:
        """Wait until no replica knows the copiers' producers any more."""

        def expired(copier: WireCopier, broker: Broker) -> bool:
            address = ("127.0.0.1", broker.port)
            known = tried(lambda: self._wire.known_producers(address, copier.topic))
            return known is not None and copier.by.producer not in known

        for copier in copiers:
            _, replicas = self._state(copier.topic)
            for broker in (each for each in self._cluster.brokers if each.node in replicas):
                until("the producer has expired", lambda at=(copier, broker): expired(*at), PATIENCE)  # type: ignore[misc]

    def _delete_beginning(self, copier: WireCopier) -> None:
        """Delete what a copier has sent, and let a broker become a replica that has never seen it."""
        topics.remove_records(self._cluster.bootstrap, copier.topic, copier.sent_up_to)
        nodes = [self._leader.node, self._spare.node, self._other.node]
        copier.wire.reassign(copier.topic, nodes)
        until("the new replica", lambda: self._state(copier.topic) == (self._leader.node, sorted(nodes)), PATIENCE)
        known = self._wire.known_producers(("127.0.0.1", self._spare.port), copier.topic)
        assert copier.by.producer not in known, "the new replica has seen the beginning"

    def _state(self, topic: str, seen_by: Broker | None = None) -> tuple[int, list[int]]:
        """Leader and in-sync replicas of a topic's only partition, as a broker sees them."""
        return topics.replicas((seen_by or self._leader).bootstrap, topic)

    def _kill_leader(self) -> None:
        """Kill the leader, with batches that no follower has fetched."""
        for copier in self.copiers.values():
            copier.wire.leader(copier.topic)
        self._wire.leader(self._filler)
        self._other.pause()
        self._spare.pause()
        # Fetch requests that wait on the leader are answered with this, and nobody sends another.
        for _ in range(2):
            self._wire.send(None, self._filler, FILLER, 0, LEADER).base_offset()
        for name, copier in self.copiers.items():
            if self._cases[name].late:
                copier.first()
            copier.middle()
            if copier.way.last == LEADER:
                copier.last()
        self._leader.kill()
        self._other.resume()
        self._spare.resume()
        survivors = {self._other.node, self._spare.node}
        for copier in self.copiers.values():
            until("a new leader", lambda at=copier: self._state(at.topic, self._other)[0] in survivors, PATIENCE)  # type: ignore[misc]

    def _go_on(self, copier: WireCopier) -> None:
        """End the transaction with the new leader, as the copier's way says."""
        copier.wire.forget()
        try:
            if copier.way.last != LEADER:
                copier.last()
            copier.commit()
        except Failure as failure:
            copier.recover(failure)
