"""A cluster: its brokers, who leads a partition and who coordinates a name, and the connections to them."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from mirror.errors import Malformed, Unavailable, WireError
from mirror.wire import metadata as described
from mirror.wire.access import Access, Address
from mirror.wire.connection import Connection
from mirror.wire.error_codes import CODES, failure
from mirror.wire.gathered import Gathered
from mirror.wire.metadata import Coordinator, DescribedTopic, Leader, find_coordinators, metadata
from mirror.wire.pool import MOST_CONNECTIONS, OTHER_PURPOSE, Connections, Pool
from mirror.wire.requests import Request

T = TypeVar("T")

TOPICS_AT_ONCE = 100  # in a request for metadata: reading an answer for many partitions holds up everything else

THREADS = 8  # most that look up names and log in
SILENT = 2.0  # seconds to connect, after which another broker is asked, too

# Seconds after which an older leader counts: several brokers name none with the epoch that is doubted.
DOUBTED_MAX = 30.0

_REPLICA_NOT_AVAILABLE = CODES["REPLICA_NOT_AVAILABLE"]  # no error here (KAFKA-1609): another replica is away


class Cluster:
    """What is known of a cluster, and the connections to it. It belongs to one event loop.

    Methods raise WireError. What is known stays until `forget` or a newer answer: whoever gets an error from a broker
    says so, and then asks again.
    """

    def __init__(self, access: Access) -> None:
        # Not those of asyncio, which all clusters would share: one whose names or tokens come slowly takes all of them.
        self._threads = ThreadPoolExecutor(THREADS, "log in")
        self._access = replace(access, threads=self._threads)
        self._closed = False
        self._pools: dict[Address, Pool] = {}
        self._brokers: dict[int, Address] = {}
        self._topics: dict[str, DescribedTopic] = {}
        self._leaders: dict[tuple[str, int], Leader] = {}
        # Their leaders may be outdated, but for a while not their epochs. The values are since when (monotonic).
        self._doubted: dict[tuple[str, int], float] = {}
        self.unreplicated: set[tuple[str, int]] = set()  # partitions to which a write could not be replicated in time
        self._coordinators: dict[tuple[int, str], int] = {}
        self._former: dict[tuple[int, str], int] = {}  # coordinators that are doubted
        self._turn = 0  # how often another broker had to be asked first
        self._described: Gathered[str, DescribedTopic] = Gathered(self._describe)
        self._found: dict[int, Gathered[str, Coordinator]] = {
            kind: Gathered(self._finder(kind)) for kind in (described.GROUP, described.TRANSACTION)
        }

    async def connection(self, node: int, purpose: str = OTHER_PURPOSE) -> Connection:
        """A connection to a broker. Raises Unavailable if it is not known."""
        if node not in self._brokers:
            raise Unavailable(f"broker {node} is not known")
        return await self._connections(self._brokers[node], purpose).connection()

    async def any(self) -> Connection:
        """A connection to the first broker that lets us in. Those that have failed or are silent are asked last.

        While one is silent, others are asked beside it. It is the same one as long as its answers help: a broker that
        is cut off from the others names old leaders.
        """
        reasons, attempts = list[str](), set[asyncio.Task[Connection]]()
        refused: BaseException | None = None
        addresses = deque(dict.fromkeys([*self._pools, *self._brokers.values(), *self._access.servers]))
        addresses.rotate(-self._turn)
        left = deque(sorted(addresses, key=lambda each: self._pool(each).is_doubtful()))
        try:
            while left or attempts:
                if left:
                    pool, serving = self._pool(left[0]), self._connections(left.popleft(), OTHER_PURPOSE)
                    attempts.add(asyncio.create_task(serving.connection()))
                most = SILENT if left else None
                done, attempts = await asyncio.wait(attempts, timeout=most, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    pool.silent = True
                for each in sorted(done, key=lambda each: each.exception() is not None):
                    error = each.exception()
                    if error is None:
                        return each.result()
                    if not isinstance(error, Unavailable):
                        refused = refused or error
                    reasons.append(str(error))
        finally:
            for each in attempts:
                each.cancel()
        if refused:
            raise refused
        raise Unavailable("; ".join(reasons) or "bootstrap.servers is empty")

    async def ask(self, request: Request[T]) -> T:
        """Ask any broker."""
        return await (await self.any()).ask(request)

    async def brokers(self) -> Mapping[int, Address]:
        """All brokers as they are now."""
        await self._describe(frozenset())
        return dict(self._brokers)

    async def refresh(self, topics: Set[str]) -> None:
        """Learn newer leaders of these topics, from another broker than before.

        Nothing else is taken: the broker may be one that is cut off, and know old topics, and not all brokers.
        """
        if not topics:
            return
        self._turn += 1
        for some in _few(topics):
            found = await self.ask(metadata(some))
            for name in some & found.topics.keys():
                if found.topics[name].id == self.topic_id(name):
                    for partition, leader in found.topics[name].leaders.items():
                        self.hint(name, partition, leader, found.brokers.get(leader.node))

    async def topic(self, name: str) -> DescribedTopic:
        """The topic as it is now. Raises Unavailable while no broker knows it."""
        found = await self._described.get(name)
        if found.error:
            raise failure(found.error, f"Metadata of {name}")
        return found

    async def leader(self, topic: str, partition: int) -> Leader:
        """The leader as far as is known, or as it is now. Raises Unavailable while there is none."""
        known = self._usable_leader(topic, partition)
        if known is not None:
            return known
        before, turn = self._leaders.get((topic, partition)), self._turn
        self.forget_leader(topic, partition)
        try:
            found = (await self.topic(topic)).leaders.get(partition)
            if found is None:
                raise failure(CODES["UNKNOWN_TOPIC_OR_PARTITION"], f"Metadata of {topic}-{partition}")
            if found.error not in (0, _REPLICA_NOT_AVAILABLE):
                raise failure(found.error, f"Metadata of {topic}-{partition}")
            known = self._usable_leader(topic, partition)
            if known is None:
                raise failure(CODES["LEADER_NOT_AVAILABLE"], f"Metadata of {topic}-{partition}")
        except WireError:
            self._turn = turn + 1  # not one more for each of those who got the same answer
            raise
        if before is not None and known.epoch <= before.epoch:
            self._turn = turn + 1  # nothing new about a leader that is doubted
        return known

    def _usable_leader(self, topic: str, partition: int) -> Leader | None:
        known = self._leaders.get((topic, partition))
        usable = known is not None and known.node in self._brokers and (topic, partition) not in self._doubted
        return known if usable else None

    def topic_id(self, topic: str) -> bytes:
        """The id that the topic had when it was last described."""
        return self._topics[topic].id if topic in self._topics else described.NO_ID

    def replicas(self, topic: str, partition: int) -> Sequence[int]:
        """The nodes that had the partition when the topic was last described."""
        return self._topics[topic].replicas.get(partition, ()) if topic in self._topics else ()

    def known_leader(self, topic: str, partition: int) -> Leader | None:
        """The leader as far as is known, without asking."""
        return self._leaders.get((topic, partition))

    def quiet_until(self, topic: str, partition: int, purpose: str) -> float:
        """Until when a quota of the leader holds requests with this purpose back, by the loop's clock.

        A quota is for a client id. So others may have used it up, on other connections, too.
        """
        leader = self._usable_leader(topic, partition)
        return self._connections(self._brokers[leader.node], purpose).quiet_until if leader else 0.0

    def forget_leader(self, topic: str, partition: int) -> None:
        """Ask for the leader again when it is needed next."""
        self._doubted.setdefault((topic, partition), time.monotonic())

    def hint(self, topic: str, partition: int, leader: Leader, address: Address | None) -> None:
        """Take a leader that a broker has named in its answer (KIP-951), if it is newer than what we know."""
        known = self._leaders.get((topic, partition))
        if leader.node < 0 or (known and leader.epoch <= known.epoch):
            return
        if address:
            self._brokers[leader.node] = address
        self._leaders[topic, partition] = leader
        self._doubted.pop((topic, partition), None)

    async def coordinator(self, kind: int, name: str) -> int:
        """The node that coordinates a name, as far as is known, or as it is now."""
        known = self._coordinators.get((kind, name))
        if known is not None:
            return known
        turn = self._turn
        found = await self._found[kind].get(name)
        if found.error or found.node == self._former.pop((kind, name), None):
            self._turn = turn + 1
        if found.error:
            raise failure(found.error, f"FindCoordinator of {name}")
        self._brokers[found.node] = found.address
        self._coordinators[kind, name] = found.node
        return found.node

    def forget_coordinator(self, kind: int, name: str) -> None:
        """Ask for the coordinator again when it is needed next."""
        known = self._coordinators.pop((kind, name), None)
        if known is not None:
            self._former[kind, name] = known

    def connections(self) -> dict[Address, int]:
        """How many connections there are to each broker, those that are being opened included."""
        return {address: len(pool) for address, pool in self._pools.items()}

    def renew(self, access: Access) -> None:
        """Connect in this way from now on, to the same cluster. Connections that are open stay open.

        Where a login on them ends, the next one is made in this way, too.
        """
        self._access = replace(access, threads=self._threads)
        for pool in self._pools.values():
            pool.renew(self._access)

    def close(self) -> None:
        """Close all connections, and fail whoever waits. No other is opened any more."""
        self._closed = True
        self._described.close()
        for found in self._found.values():
            found.close()
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _connections(self, address: Address, purpose: str) -> Connections:
        return self._pool(address).connections(purpose, MOST_CONNECTIONS[purpose])

    def _pool(self, address: Address) -> Pool:
        if self._closed:
            raise Unavailable("the cluster's connections were closed")
        if address not in self._pools:
            self._pools[address] = Pool(address, self._access)
        return self._pools[address]

    async def _describe(self, topics: Set[str]) -> dict[str, DescribedTopic]:
        return {name: topic for some in _few(topics) for name, topic in (await self._describe_few(some)).items()}

    async def _describe_few(self, topics: Set[str]) -> dict[str, DescribedTopic]:
        found = await self.ask(metadata(topics))
        if not found.brokers:  # a broker that has just started knows of none
            raise Unavailable("the cluster has no brokers")
        self._brokers = dict(found.brokers)
        for address in self._pools.keys() - {*self._brokers.values(), *self._access.servers}:
            self._pools.pop(address).close()
        for name in topics:
            if name not in found.topics:
                raise Malformed(f"the answer to a Metadata request for {name} does not have that topic")
            self._learn(name, found.topics[name])
        return {name: found.topics[name] for name in topics}

    def _learn(self, name: str, topic: DescribedTopic) -> None:
        """Take what is newer."""
        before = self._topics.get(name)
        if topic.error:
            return
        self._topics[name] = topic
        same = before is not None and before.id == topic.id
        for partition, leader in topic.leaders.items():
            known = self._leaders.get((name, partition)) if same else None
            since = self._doubted.get((name, partition), float("inf"))
            # A broker that knows only an older leader has old metadata.
            older = known and known.epoch > leader.epoch and time.monotonic() - since < DOUBTED_MAX
            if leader.node >= 0 and not older:
                self._leaders[name, partition] = leader
                self._doubted.pop((name, partition), None)

    def _finder(self, kind: int) -> Callable[[Set[str]], Awaitable[Mapping[str, Coordinator]]]:
        async def coordinators_of(names: Set[str]) -> Mapping[str, Coordinator]:
            found = await self.ask(find_coordinators(kind, names))
            missing = names - found.keys()
            if missing:
                raise Malformed(f"the answer to FindCoordinator does not have {min(missing)}")
            return found

        return coordinators_of


def _few(topics: Set[str]) -> list[frozenset[str]]:
    """The topics, some at a time. No topics at all are one set, too, for that asks for the brokers."""
    names = sorted(topics)
    return [frozenset(names[at : at + TOPICS_AT_ONCE]) for at in range(0, len(names) or 1, TOPICS_AT_ONCE)]
