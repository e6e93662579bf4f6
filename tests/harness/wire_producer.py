"""A producer that speaks Kafka's protocol itself: a test says how each batch is acknowledged, and when it is sent.

No client library sends batches of one transaction with different `acks`, or sends on after an error.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from mirror.batches.stamping import stamp
from mirror.errors import Unavailable, WireError
from mirror.wire.access import Address, access
from mirror.wire.connection import Connection
from mirror.wire.error_codes import CODES, NONE, name_of
from mirror.wire.fetch import TopicKey
from mirror.wire.metadata import GROUP, NO_ID, TRANSACTION, find_coordinators, metadata
from mirror.wire.offsets import Offset
from mirror.wire.produce import ALL, LEADER, PRODUCE, Batch, ProduceAnswer, produce
from mirror.wire.requests import Request
from mirror.wire.transactional import (
    END_TXN,
    TXN_OFFSET_COMMIT,
    Identity,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)
from tests.harness import wire_messages
from tests.harness.waiting import PATIENCE, until

__all__ = ["ALL", "GROUP", "LEADER", "TRANSACTION", "Identity", "Produced", "Refused", "WireProducer"]

T = TypeVar("T")

# By the version of transactions: 1, and 2 (KIP-890). They are encoded alike.
_PRODUCE = {version: replace(PRODUCE, first=10 + version, last=10 + version) for version in (1, 2)}
_COMMIT_OFFSET = {version: replace(TXN_OFFSET_COMMIT, first=3 + version, last=3 + version) for version in (1, 2)}
_END = {version: replace(END_TXN, first=3 + version, last=3 + version) for version in (1, 2)}

_PASSING = {
    CODES[name]
    for name in (
        "CONCURRENT_TRANSACTIONS",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
    )
}


class Refused(Exception):
    """A broker's error code in an answer."""

    def __init__(self, code: int) -> None:
        super().__init__(name_of(code))
        self.code = code


@dataclass(frozen=True, slots=True)
class Produced:
    """A Produce request that was sent."""

    runner: asyncio.Runner
    answer: asyncio.Future[ProduceAnswer]

    def base_offset(self) -> int:
        """Wait for the answer: the offset of the batch's first record. Raises Refused and WireError."""
        ((_, found),) = self.runner.run(_wait(self.answer)).partitions
        _refuse(found.error)
        return found.base


class WireProducer:
    """Connections to a cluster, and the requests of transactions. Its methods raise Refused and WireError."""

    def __init__(self, bootstrap: str) -> None:
        self._runner = asyncio.Runner()
        self._access = access({"bootstrap.servers": bootstrap})
        self._open: dict[Address, Connection] = {}
        self._leaders: dict[str, Address] = {}

    def forget(self) -> None:
        """Close all connections, and forget who leads: requests under way get no answer."""
        for each in self._open.values():
            each.close()
        self._open.clear()
        self._leaders.clear()

    def leader(self, topic: str) -> Connection:
        """The leader of the topic's only partition, as it was found first."""
        if topic not in self._leaders:
            found = self._asked(self._any(), metadata([topic]))
            described = found.topics[topic]
            node = described.leaders[0].node if described.leaders else -1
            if node not in found.brokers:
                raise Refused(described.error or CODES["LEADER_NOT_AVAILABLE"])
            self._leaders[topic] = found.brokers[node]
        return self._connection(self._leaders[topic])

    def coordinator(self, kind: int, name: str) -> tuple[int, Connection]:
        """The node that coordinates a group or a transactional id, and a connection to it."""
        found = self._asked(self._any(), find_coordinators(kind, [name]))[name]
        _refuse(found.error)
        return found.node, self._connection(found.address)

    def enter(self, name: str, timeout: float) -> Identity:
        """Fence whoever has this transactional id, after its transaction has ended.

        `timeout` (s) is that of its transactions.
        """

        def entered() -> Identity | None:
            with contextlib.suppress(Refused):
                _, to = self.coordinator(TRANSACTION, name)
                found = self._asked(to, init_producer_id(name, timeout))
                _refuse(found.error)
                return Identity(name, found.producer, found.epoch)
            return None

        return until(f"{name} has entered", entered, PATIENCE)

    def add(self, by: Identity, topic: str, group: str) -> None:
        """Add a partition and a group to the transaction, as clients did before transactions version 2."""
        self._patiently(by, wire_messages.add_partition(by, topic))
        self._patiently(by, wire_messages.add_offsets(by, group))

    def send(
        self, by: Identity | None, topic: str, batch: bytes, sequence: int, acks: int, version: int = 2
    ) -> Produced:
        """Send a batch to the topic's only partition, without a transaction if `by` is None.

        What is returned waits for the answer.
        """
        data = memoryview(bytearray(batch))
        if by is not None:
            stamp(data, by.producer, by.epoch, sequence)
        of = Batch(TopicKey(topic, NO_ID), 0, data)
        request = produce(None if by is None else by.name, [of], acks, _PRODUCE[version])
        to = self.leader(topic)

        async def sent() -> asyncio.Future[ProduceAnswer]:
            return to.send(request)

        return Produced(self._runner, self._runner.run(sent()))

    def commit_offset(self, by: Identity, group: str, topic: str, offset: int, version: int = 2) -> None:
        """Commit a position with the transaction, once the group's coordinator takes it."""
        request = txn_offset_commit(by, group, {(topic, 0): Offset(offset, "")}, _COMMIT_OFFSET[version])

        def taken() -> bool:
            _, to = self.coordinator(GROUP, group)
            _refuse(self._asked(to, request)[topic, 0])
            return True

        until("the position is taken", lambda: _tried(taken), PATIENCE)

    def end(self, by: Identity, commit: bool, version: int = 2) -> Identity:
        """End the transaction. Returns who the next one is by."""

        def ended() -> Identity:
            _, to = self.coordinator(TRANSACTION, by.name)
            found = self._asked(to, end_txn(by, commit, _END[version]))
            _refuse(found.error)
            return Identity(by.name, found.producer, found.epoch) if version > 1 else by

        return until("the transaction has ended", lambda: _tried(ended), PATIENCE)

    def reassign(self, topic: str, replicas: Sequence[int]) -> None:
        """Give the topic's only partition other replicas. It takes a while."""
        _refuse(self._asked(self._any(), wire_messages.reassign(topic, replicas)))

    def known_producers(self, node: Address, topic: str) -> set[int]:
        """The producers of which this replica of the topic's only partition has a state."""
        error, known = self._asked(self._connection(node), wire_messages.describe_producers(topic))
        _refuse(error)
        return known

    def _patiently(self, by: Identity, request: Request[int]) -> None:
        def done() -> bool:
            _, to = self.coordinator(TRANSACTION, by.name)
            _refuse(self._asked(to, request))
            return True

        until(f"{request.api.name} is done", lambda: _tried(done), PATIENCE)

    def _asked(self, to: Connection, request: Request[T]) -> T:
        return self._runner.run(_asking(to, request))

    def _any(self) -> Connection:
        for address in (*self._open, *self._access.servers):
            with contextlib.suppress(WireError):
                return self._connection(address)
        raise Refused(CODES["BROKER_NOT_AVAILABLE"])

    def _connection(self, address: Address) -> Connection:
        found = self._open.get(address)
        if found is None or found.closed:
            found = self._open[address] = self._runner.run(Connection.open(address, self._access))
        return found


async def _asking(to: Connection, request: Request[T]) -> T:
    return await to.ask(request)


async def _wait(answer: asyncio.Future[T]) -> T:
    return await answer


def _refuse(error: int) -> None:
    if error != NONE:
        raise Refused(error)


def _tried(step: Callable[[], T]) -> T | None:
    """The step's result; None if it has to be tried again, because a coordinator is away, moves or loads."""
    try:
        return step()
    except Unavailable:
        return None
    except Refused as error:
        if error.code not in _PASSING:
            raise
        return None
