"""A producer that speaks Kafka's protocol itself: a test says how each batch is acknowledged, and when it is sent.

No client library sends batches of one transaction with different `acks`, or sends on after an error.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from confluent_kafka import KafkaError
from crc32c import crc32c

from mirror.batches import varints
from mirror.errors import Unavailable, WireError
from mirror.wire import messages
from mirror.wire.access import Address, access
from mirror.wire.connection import Connection
from mirror.wire.cursor import Cursor, string
from mirror.wire.messages import Api
from tests.harness.waiting import PATIENCE, until
from tests.harness.wire_messages import added, described, of_partition, offset_committed, produced, text

T = TypeVar("T")

GROUP, TRANSACTION = 0, 1  # kinds of coordinators
ALL, LEADER = -1, 1  # acks
PRODUCE_TIMEOUT = 8_000  # ms; less than a connection waits for an answer

# The last versions that are not flexible (KIP-482), where nothing depends on the version.
FIND_COORDINATOR = Api("FindCoordinator", 10, 2)
INIT_PRODUCER_ID = Api("InitProducerId", 22, 1)
ADD_PARTITIONS = Api("AddPartitionsToTxn", 24, 1)
ADD_OFFSETS = Api("AddOffsetsToTxn", 25, 1)
REASSIGN = Api("AlterPartitionReassignments", 45, 0)
DESCRIBE_PRODUCERS = Api("DescribeProducers", 61, 0)
# Transactions version 1, and version 2 (KIP-890). They are encoded alike.
PRODUCE = {1: Api("Produce", 0, 11), 2: Api("Produce", 0, 12)}
COMMIT_OFFSET = {1: Api("TxnOffsetCommit", 28, 4), 2: Api("TxnOffsetCommit", 28, 5)}
END = {1: Api("EndTxn", 26, 4), 2: Api("EndTxn", 26, 5)}

_PASSING = {
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
_TRANSACTIONAL = 0x10


class Refused(Exception):
    """A broker's error code in an answer."""

    def __init__(self, code: int) -> None:
        super().__init__(KafkaError(code).name())
        self.code = code


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom the coordinator has let in."""

    name: str  # the transactional id
    producer: int
    epoch: int


def stamped(batch: bytes, by: Identity, sequence: int) -> bytes:
    """A batch as one of a producer's transaction."""
    made = bytearray(batch)
    made[22] |= _TRANSACTIONAL
    struct.pack_into(">qhi", made, 43, by.producer, by.epoch, sequence)
    struct.pack_into(">I", made, 17, crc32c(memoryview(made)[21:]))
    return bytes(made)


@dataclass(frozen=True, slots=True)
class Produced:
    """A Produce request that was sent."""

    to: Connection
    number: int

    def base_offset(self) -> int:
        """Wait for the answer: the offset of the batch's first record. Raises Refused and WireError."""
        answer = self.to.answer(self.number)
        answer.tags()
        ((error, base),) = answer.compact_array(produced, 2)
        _refuse(error)
        return base


class WireProducer:
    """Connections to a cluster, and the requests of transactions. Its methods raise Refused and WireError."""

    def __init__(self, bootstrap: str) -> None:
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
            answer = self._any().request(messages.METADATA, messages.metadata(topic))
            _, found = messages.metadata_answer(answer, topic)
            error, node = found.partitions.get(0, (found.error, -1))
            if node not in found.brokers:
                raise Refused(error or KafkaError.LEADER_NOT_AVAILABLE)
            self._leaders[topic] = found.brokers[node]
        return self._connection(self._leaders[topic])

    def coordinator(self, kind: int, name: str) -> tuple[int, Connection]:
        """The node that coordinates a group or a transactional id, and a connection to it."""
        answer = self._any().request(FIND_COORDINATOR, string(name) + struct.pack(">b", kind))
        _, error, _, node = answer.int32(), answer.int16(), answer.string(), answer.int32()
        _refuse(error)
        return node, self._connection((answer.string(), answer.int32()))

    def enter(self, name: str, timeout: float) -> Identity:
        """Fence whoever has this transactional id, after its transaction has ended.

        `timeout` (s) is that of its transactions.
        """

        def entered() -> Identity | None:
            with contextlib.suppress(Refused):
                _, to = self.coordinator(TRANSACTION, name)
                answer = to.request(INIT_PRODUCER_ID, string(name) + struct.pack(">i", int(timeout * 1000)))
                _, error = answer.int32(), answer.int16()
                _refuse(error)
                return Identity(name, answer.int64(), answer.int16())
            return None

        return until(f"{name} has entered", entered, PATIENCE)

    def add(self, by: Identity, topic: str, group: str) -> None:
        """Add a partition and a group to the transaction, as clients did before transactions version 2."""
        who = string(by.name) + struct.pack(">qh", by.producer, by.epoch)
        where = struct.pack(">i", 1) + string(topic) + struct.pack(">ii", 1, 0)
        self._patiently(by, ADD_PARTITIONS, who + where, added)
        self._patiently(by, ADD_OFFSETS, who + string(group), Cursor.int16)

    def send(
        self, by: Identity | None, topic: str, batch: bytes, sequence: int, acks: int, version: int = 2
    ) -> Produced:
        """Send a batch to the topic's only partition, without a transaction if `by` is None.

        What is returned waits for the answer. Answers have to be read in the order of sending.
        """
        name = b"\0" if by is None else text(by.name)
        batch = batch if by is None else stamped(batch, by, sequence)
        head = b"\0" + name + struct.pack(">hi", acks, PRODUCE_TIMEOUT)
        body = of_partition(topic, varints.write_unsigned(len(batch) + 1) + batch)
        to = self.leader(topic)
        return Produced(to, to.ask(PRODUCE[version], head + body))

    def commit_offset(self, by: Identity, group: str, topic: str, offset: int, version: int = 2) -> None:
        """Commit a position with the transaction, once the group's coordinator takes it."""
        head = b"\0" + text(by.name) + text(group) + struct.pack(">qhi", by.producer, by.epoch, -1) + b"\1\0"
        body = of_partition(topic, struct.pack(">qi", offset, -1) + text(""))

        def taken() -> bool:
            _, to = self.coordinator(GROUP, group)
            answer = to.request(COMMIT_OFFSET[version], head + body)
            answer.tags()
            answer.int32()
            (error,) = answer.compact_array(offset_committed, 2)
            _refuse(error)
            return True

        until("the position is taken", lambda: _tried(taken), PATIENCE)

    def end(self, by: Identity, commit: bool, version: int = 2) -> Identity:
        """End the transaction. Returns who the next one is by."""
        body = b"\0" + text(by.name) + struct.pack(">qhb", by.producer, by.epoch, commit) + b"\0"

        def ended() -> Identity:
            _, to = self.coordinator(TRANSACTION, by.name)
            answer = to.request(END[version], body)
            answer.tags()
            answer.int32()
            _refuse(answer.int16())
            return Identity(by.name, answer.int64(), answer.int16()) if version > 1 else by

        return until("the transaction has ended", lambda: _tried(ended), PATIENCE)

    def reassign(self, topic: str, replicas: Sequence[int]) -> None:
        """Give the topic's only partition other replicas. It takes a while."""
        nodes = struct.pack(f">b{len(replicas)}i", len(replicas) + 1, *replicas)
        body = struct.pack(">i", 30_000) + of_partition(topic, nodes)
        answer = self._any().request(REASSIGN, b"\0" + body)
        answer.tags()
        answer.int32()
        _refuse(answer.int16())

    def known_producers(self, node: Address, topic: str) -> set[int]:
        """The producers of which this replica of the topic's only partition has a state."""
        body = b"\0\2" + text(topic) + b"\2" + struct.pack(">i", 0) + b"\0\0"
        answer = self._connection(node).request(DESCRIBE_PRODUCERS, body)
        answer.tags()
        answer.int32()
        ((error, known),) = answer.compact_array(described, 2)
        _refuse(error)
        return known

    def _patiently(self, by: Identity, api: Api, body: bytes, read: Callable[[Cursor], int]) -> None:
        def done() -> bool:
            _, to = self.coordinator(TRANSACTION, by.name)
            answer = to.request(api, body)
            answer.int32()
            _refuse(read(answer))
            return True

        until(f"{api.name} is done", lambda: _tried(done), PATIENCE)

    def _any(self) -> Connection:
        for address in (*self._open, *self._access.servers):
            with contextlib.suppress(WireError):
                return self._connection(address)
        raise Refused(KafkaError._ALL_BROKERS_DOWN)

    def _connection(self, address: Address) -> Connection:
        found = self._open.get(address)
        if found is None or found._socket.fileno() < 0:  # closed, as after any error
            found = self._open[address] = Connection(address, self._access)
        return found


def _refuse(error: int) -> None:
    if error != messages.NONE:
        raise Refused(error)


def _tried(step: Callable[[], T]) -> T | None:
    """None if it has to be tried again: a coordinator is away, moves or loads."""
    try:
        return step()
    except Unavailable:
        return None
    except Refused as error:
        if error.code not in _PASSING:
            raise
        return None
