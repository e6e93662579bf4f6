"""Connections to a cluster's brokers, and which broker leads a partition."""

from __future__ import annotations

from collections.abc import Sequence

from mirror.errors import Unavailable, WireError
from mirror.wire import messages
from mirror.wire.access import Access, Address
from mirror.wire.connection import Connection


class Brokers:
    """Keeps one connection for each broker. Every method raises WireError."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._servers = list(access.servers)
        self._used: Address | None = None  # the broker that was used last
        self._connections: dict[Address, Connection] = {}
        self._leaders: dict[tuple[str, int], Address] = {}

    def leader(self, topic: str, partition: int) -> Connection:
        """A connection to the partition's leader. Raises Unavailable while it has no leader, or none is known."""
        address = self._leaders.get((topic, partition))
        if address is None:
            address = self._leaders[topic, partition] = self._find(topic, partition)
        return self._connection(address)

    def forget(self, topic: str, partition: int) -> None:
        """Forget the partition's leader and close all connections, because both may be outdated after an error.

        The broker that was used last may hang, so it is asked last from now on.
        """
        self._leaders.pop((topic, partition), None)
        self._servers.sort(key=lambda address: address == self._used)
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def any(self) -> Connection:
        """A connection to the first broker that answers."""
        reasons = []
        for address in self._addresses():
            try:
                return self._connection(address)
            except Unavailable as error:
                reasons.append(str(error))
        raise Unavailable("; ".join(reasons))

    def all(self, topic: str) -> list[Connection]:
        """A connection to each broker. `topic` is any topic that exists: brokers are asked for by one."""
        answer = self.any().request(messages.METADATA, messages.metadata(topic))
        _, found = messages.metadata_answer(answer, topic)
        return [self._connection(address) for address in found.brokers.values()]

    def _addresses(self) -> Sequence[Address]:
        """The addresses to try: first those with an open connection."""
        return [*self._connections, *self._servers]

    def _connection(self, address: Address) -> Connection:
        self._used = address
        found = self._connections.get(address)
        if found is None:
            found = self._connections[address] = Connection(address, self._access)
        return found

    def _find(self, topic: str, partition: int) -> Address:
        connection = self.any()
        answer = connection.request(messages.METADATA, messages.metadata(topic))
        throttled, leaders = messages.metadata_answer(answer, topic)
        connection.throttled(throttled)
        error, node = leaders.partitions.get(partition, (leaders.error or messages.UNKNOWN_TOPIC_OR_PARTITION, -1))
        address = leaders.brokers.get(node)
        # REPLICA_NOT_AVAILABLE is no error here (KAFKA-1609): another replica than the leader is away.
        if address is not None and error in (messages.NONE, messages.REPLICA_NOT_AVAILABLE):
            return address
        raise failure(error or messages.LEADER_NOT_AVAILABLE)


def failure(error: int) -> WireError:
    """The error for an error code: Unavailable if it passes by itself."""
    return (Unavailable if error in messages.PASSING else WireError)(messages.error_name(error))
