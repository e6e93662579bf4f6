"""A cluster: connections stay few and attempts rare, and who leads and coordinates is found again."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from mirror.commands.verify.record_reader import _Fetches
from mirror.errors import LoginRefused, Malformed, Unavailable, WireError
from mirror.wire import cluster as module
from mirror.wire import pool
from mirror.wire.access import access
from mirror.wire.cluster import TOPICS_AT_ONCE, Cluster
from mirror.wire.connection import Connection
from mirror.wire.cursor import Cursor
from mirror.wire.error_codes import CODES
from mirror.wire.fetch import FetchAnswer, PartitionAnswer
from mirror.wire.metadata import GROUP, TRANSACTION, Coordinator, Described, DescribedTopic, Leader
from mirror.wire.oidc import Token
from mirror.wire.pool import MOST_CONNECTIONS, Pool
from mirror.wire.requests import Request
from mirror.wire.writer import Writer
from tests.harness import fake_broker
from tests.harness.fake_broker import FakeBroker

ADDRESSES = {1: ("a", 1), 2: ("b", 2), 3: ("c", 3)}
ID, OTHER_ID = b"1" * 16, b"2" * 16


class Refusing:
    """Stands in for a broker: refuses connections, or lets nobody in, and counts who tries."""

    def __init__(self) -> None:
        self.attempts = 0
        self.at_once = 0
        self.most = 0

    async def open(self, *_: object) -> Connection:
        self.attempts += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await asyncio.sleep(0.01)
            raise Unavailable("refused")
        finally:
            self.at_once -= 1


@pytest.mark.parametrize("both", [False, True])
def test_who_is_cancelled_ends_though_the_connection_is_given_up_too(
    monkeypatch: pytest.MonkeyPatch, both: bool
) -> None:
    """As at the end of an event loop: whoever takes it for a broker that is away would try again for ever."""

    async def forever(*_: object) -> Connection:
        await asyncio.sleep(3600)
        raise AssertionError

    monkeypatch.setattr(Connection, "open", forever)

    async def run() -> None:
        serving = Pool(("a", 1), access({"bootstrap.servers": "a:1"})).connections("fetch", 1)
        waiting = asyncio.create_task(serving.connection())
        await asyncio.sleep(0.01)
        serving.close()
        if both:
            waiting.cancel()
        with pytest.raises(asyncio.CancelledError if both else Unavailable):
            await waiting

    asyncio.run(run())


def test_a_broker_that_refuses_is_asked_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred partitions want it all the time. There are a few attempts, then one every second or two."""
    broker = Refusing()
    monkeypatch.setattr(Connection, "open", broker.open)

    async def partition(serving: pool.Connections) -> None:
        while True:
            with contextlib.suppress(Unavailable):
                await serving.connection()
            await asyncio.sleep(0.005)

    async def run() -> None:
        made = Pool(("a", 1), access({}))
        by_purpose = [made.connections(name, most) for name, most in MOST_CONNECTIONS.items()]
        tasks = [
            asyncio.create_task(partition(serving))
            for serving, _ in zip(itertools.cycle(by_purpose), range(100), strict=False)
        ]
        await asyncio.sleep(1.5)
        assert broker.most <= sum(MOST_CONNECTIONS.values()) and len(made) <= sum(MOST_CONNECTIONS.values())
        # 50 ms, 100, 200, ... less half of each: six at most, of which the first may be one for each purpose.
        assert broker.attempts <= sum(MOST_CONNECTIONS.values()) + 6
        for task in tasks:
            task.cancel()

    asyncio.run(run())


class Busy(Connection):
    """A connection that is always busy."""

    def __init__(self) -> None:
        self.access = access({})
        self._closed = None
        self.retired = False
        self.quiet_until = 0.0
        self.opened_at = self.used_at = asyncio.get_running_loop().time()

    @property
    def pending(self) -> int:
        return 1

    def close(self, reason: WireError | None = None) -> None:
        self._closed = reason or Unavailable("closed")
        self.closed_at = asyncio.get_running_loop().time()
        self.broken = self.pending > 0


def test_connections_have_a_bound_while_they_are_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    opening = 0

    async def slow(*_: object) -> Connection:
        nonlocal opening
        opening += 1
        await asyncio.sleep(0.1)
        return Busy()

    monkeypatch.setattr(Connection, "open", slow)

    async def run() -> None:
        serving = Pool(("a", 1), access({})).connections("produce", 4)
        found = await asyncio.gather(*(serving.connection() for _ in range(100)))
        assert opening == 4 and len(serving) == 4 and len(set(map(id, found))) == 4

    asyncio.run(run())


def test_one_who_gives_up_does_not_take_the_connection_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(*_: object) -> Connection:
        await asyncio.sleep(0.1)
        return Busy()

    monkeypatch.setattr(Connection, "open", slow)

    async def run() -> None:
        made = Pool(("a", 1), access({}))
        serving = made.connections("other", 1)
        first, second = asyncio.create_task(serving.connection()), asyncio.create_task(serving.connection())
        await asyncio.sleep(0)
        first.cancel()
        assert isinstance(await second, Busy)
        third = asyncio.create_task(made.connections("more", 1).connection())
        await asyncio.sleep(0.01)
        made.close()
        with pytest.raises(Unavailable, match="were closed"):
            await third

    asyncio.run(run())


def test_who_waits_for_connections_is_spread_over_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a thousand partitions of a broker begin at once."""

    async def slow(*_: object) -> Connection:
        await asyncio.sleep(0.05)
        return Busy()

    monkeypatch.setattr(Connection, "open", slow)

    async def run() -> None:
        serving = Pool(("a", 1), access({})).connections("produce", 4)
        found = await asyncio.gather(*(serving.connection() for _ in range(1000)))
        counts = Counter(map(id, found))
        assert len(counts) == 4 and set(counts.values()) <= {249, 250, 251}

    asyncio.run(run())


def test_an_answer_that_can_not_be_read_is_none_to_who_wants_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their requests were not sent. And one that we have retired is no failure of the broker."""

    async def at_once(*_: object) -> Connection:
        return Busy()

    monkeypatch.setattr(Connection, "open", at_once)

    async def run() -> None:
        monkeypatch.setattr(pool, "RECONNECT_MAX", 60.0)
        monkeypatch.setattr(pool, "RECONNECT", 60.0)
        made = Pool(("a", 1), access({}))
        by_purpose = [made.connections(name, 1) for name in "abc"]
        retired, unreadable, _ = [await serving.connection() for serving in by_purpose]
        retired.retired = True
        retired.close()
        retired.broken = False
        assert not made.is_doubtful() and await by_purpose[0].connection() is not retired
        unreadable.close(Malformed("impossible length"))
        assert made.is_doubtful()
        for purpose in "bd":
            with pytest.raises(Unavailable, match="impossible length"):
                await made.connections(purpose, 1).connection()

    asyncio.run(run())


def test_a_machine_without_a_thread_left_is_like_a_broker_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    async def without(*_: object) -> Connection:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Connection, "open", without)

    async def run() -> None:
        made = Pool(("a", 1), access({}))
        with pytest.raises(Unavailable, match="can't start new thread"):
            await made.connections("other", 1).connection()
        assert made.failing and made.waits

    asyncio.run(run())


def test_a_broker_that_takes_no_more_connections_is_asked_on_those_that_are_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may have a bound of its own (max.connections.per.ip)."""
    attempts = 0

    async def once(*_: object) -> Connection:
        nonlocal attempts
        attempts += 1
        if attempts > 1:
            raise Unavailable("refused")
        return Busy()

    monkeypatch.setattr(Connection, "open", once)

    async def run() -> None:
        monkeypatch.setattr(pool, "RECONNECT_MAX", 60.0)
        monkeypatch.setattr(pool, "RECONNECT", 60.0)
        made = Pool(("a", 1), access({}))
        serving = made.connections("produce", 4)
        first = await serving.connection()
        for _ in range(20):
            assert await serving.connection() is first
            await asyncio.sleep(0)
        assert attempts == 2 and made.failing
        found = []
        for _ in range(3):  # nothing is open for another purpose
            with pytest.raises(Unavailable, match="refused") as refused:
                await made.connections("fetch", 1).connection()
            found.append(len(refused.traceback))
        assert found == found[:1] * 3, "an error that is raised again does not grow"

    asyncio.run(run())


def test_connections_that_break_off_together_are_one_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that restarts is not waited for as if it had failed once for each of them."""

    async def at_once(*_: object) -> Connection:
        return Busy()

    monkeypatch.setattr(Connection, "open", at_once)

    async def run() -> None:
        monkeypatch.setattr(pool, "RECONNECT_MAX", 60.0)
        monkeypatch.setattr(pool, "RECONNECT", 1.0)
        made = Pool(("a", 1), access({}))
        by_purpose = [made.connections(name, 1) for name in "abcdefgh"]
        for connection in [await serving.connection() for serving in by_purpose]:
            connection.close()
        for serving in by_purpose:
            with pytest.raises(Unavailable):
                await serving.connection()
        await asyncio.sleep(1.05)
        assert isinstance(await by_purpose[0].connection(), Busy) and not made.failing

    asyncio.run(run())


@pytest.mark.parametrize("since", ["time has passed", "another was opened"])
def test_a_connection_that_broke_off_before_is_no_reason_to_wait_now(
    since: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All broke off together, as when a broker restarts, and are looked at only when they are needed next."""

    async def soon(*_: object) -> Connection:
        await asyncio.sleep(0.01)
        return Busy()

    monkeypatch.setattr(Connection, "open", soon)

    async def run() -> None:
        wait = 0.1 if since == "time has passed" else 60.0
        monkeypatch.setattr(pool, "RECONNECT", wait)
        monkeypatch.setattr(pool, "RECONNECT_MAX", wait)
        made = Pool(("a", 1), access({}))
        by_purpose = [made.connections(name, 1) for name in "abcd"]
        for connection in [await serving.connection() for serving in by_purpose]:
            connection.opened_at -= pool.LASTING + 1
            connection.close()
            assert connection.broken
        await asyncio.sleep(0.15)
        if since == "another was opened":
            await made.connections("e", 1).connection()
        found = await asyncio.gather(*(serving.connection() for serving in by_purpose))
        assert not any(each.closed for each in found) and not made.failing

    asyncio.run(run())


def test_a_retired_connection_gets_nothing_more_but_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who wait for its answers keep it open. If all are retired, no other one is opened."""

    async def at_once(*_: object) -> Connection:
        return Busy()

    monkeypatch.setattr(Connection, "open", at_once)

    async def run() -> None:
        serving = Pool(("a", 1), access({})).connections("produce", 2)
        first = await serving.connection()
        first.retired = True
        second = await serving.connection()
        assert second is not first and len(serving) == 2
        assert await serving.connection() is second
        second.retired = True
        assert await serving.connection() in (first, second) and len(serving) == 2
        first.opened_at -= pool.LASTING + 1
        first.close()
        first.broken = False  # nobody waits any more
        assert await serving.connection() not in (first, second) and len(serving) == 2

    asyncio.run(run())


def test_a_connection_that_was_idle_for_long_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker may close it just now, and then nobody knew whether a request took effect."""

    class Idle(Busy):
        pending = 0

    async def at_once(*_: object) -> Connection:
        return Idle()

    monkeypatch.setattr(Connection, "open", at_once)

    async def run() -> None:
        serving = Pool(("a", 1), access({})).connections("other", 1)
        first = await serving.connection()
        assert await serving.connection() is first
        first.used_at -= pool.IDLE_MAX + 1
        first.opened_at -= pool.IDLE_MAX + 1
        second = await serving.connection()
        assert second is not first and first.closed
        second.opened_at -= pool.LASTING + 1
        second.close()  # as the broker may do it
        assert await serving.connection() is not second, "no failure, and no wait"

    asyncio.run(run())


@dataclass
class Scripted(Cluster):
    """A cluster whose brokers answer what a test says."""

    leaders: dict[int, Leader] = field(default_factory=lambda: {0: Leader(1, 5)})
    topic_id_: bytes = ID
    error: int = 0
    known: dict[int, tuple[str, int]] = field(default_factory=lambda: dict(ADDRESSES))
    coordinators: dict[str, Coordinator] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(access({"bootstrap.servers": "a:1"}))

    async def ask(self, request: Request[Any]) -> Any:
        self.asked.append(request.api.name)
        await asyncio.sleep(0)
        if request.api.name == "Metadata":
            topic = DescribedTopic(self.error, self.topic_id_, dict(self.leaders))
            return Described(self.known, {"t": topic, "u": topic})
        return dict(self.coordinators)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def test_many_questions_are_one_request() -> None:
    async def main() -> None:
        cluster = Scripted()
        found = await asyncio.gather(*(cluster.leader(topic, 0) for topic in "tu" * 50))
        assert found == [Leader(1, 5)] * 100 and cluster.asked == ["Metadata"]
        await cluster.leader("t", 0)
        assert cluster.asked == ["Metadata"], "it is known"
        cluster.forget_leader("t", 0)
        await cluster.leader("t", 0)
        assert cluster.asked == ["Metadata"] * 2

    run(main())


def test_many_topics_are_described_some_at_a_time() -> None:
    """Reading an answer with all of them would hold up everything else."""
    asked: list[list[str]] = []

    class Large(Scripted):
        async def ask(self, request: Request[Any]) -> Any:
            writer = Writer(12, True)
            request.write(writer)
            names = Cursor(b"".join(map(bytes, writer.parts)), 12, True).array(_name, 18)
            asked.append(names)
            topic = DescribedTopic(0, ID, {0: Leader(1, 5)})
            return Described(self.known, dict.fromkeys(names, topic))

    def _name(answer: Cursor) -> str:
        answer.uuid()
        name = answer.string()
        answer.tags()
        return name

    async def main() -> None:
        cluster, names = Large(), [f"t{number:03}" for number in range(2 * TOPICS_AT_ONCE + 1)]
        found = await asyncio.gather(*(cluster.leader(name, 0) for name in names))
        assert found == [Leader(1, 5)] * len(names)
        await cluster.refresh(set(names))
        assert [len(each) for each in asked] == [TOPICS_AT_ONCE, TOPICS_AT_ONCE, 1] * 2
        assert [*itertools.chain(*asked)] == names * 2
        assert set(await cluster.brokers()) == set(ADDRESSES) and asked[6:] == [[]]

    run(main())


class Several(Cluster):
    """A cluster with three brokers. The first one is cut off from the others, and knows only who led before."""

    def __init__(self, old: Mapping[int, Leader] = MappingProxyType({0: Leader(1, 5)}), old_id: bytes = ID) -> None:
        """`old` are the leaders that the first broker knows."""
        super().__init__(access({"bootstrap.servers": "a:1"}))
        self.asked: list[int] = []
        self._old = DescribedTopic(0, old_id, old)

    def _connections(self, address: tuple[str, int], purpose: str) -> Any:
        node = next(each for each, known in ADDRESSES.items() if known == address)

        async def ask(request: Request[Any]) -> Any:
            self.asked.append(node)
            leader = Leader(1, 5) if node == 1 else Leader(2, 6)
            if request.api.name == "Metadata":
                return Described(ADDRESSES, {"t": self._old if node == 1 else DescribedTopic(0, ID, {0: leader})})
            return {"g": Coordinator(leader.node, ADDRESSES[leader.node], 0)}

        async def connection() -> Any:
            return SimpleNamespace(ask=ask)

        return SimpleNamespace(connection=connection)


def test_a_broker_whose_answer_does_not_help_is_not_asked_again() -> None:
    async def main() -> None:
        cluster = Several()
        assert await cluster.leader("t", 0) == Leader(1, 5) and await cluster.coordinator(GROUP, "g") == 1
        cluster.forget_leader("t", 0)
        await cluster.leader("t", 0)
        cluster.forget_leader("t", 0)
        assert await cluster.leader("t", 0) == Leader(2, 6)
        assert cluster.asked == [1, 1, 1, 2], "as long as its answers help, it is the same one"
        cluster = Several()
        await cluster.coordinator(GROUP, "g")
        found = []
        for _ in range(3):
            cluster.forget_coordinator(GROUP, "g")
            await cluster.topic("t")  # so that the other brokers are known
            found.append(await cluster.coordinator(GROUP, "g"))
        assert found[-1] == 2

    run(main())


@pytest.mark.parametrize("old", [{}, {0: Leader(-1, 6, CODES["LEADER_NOT_AVAILABLE"])}, {0: Leader(-1, 6)}])
def test_a_broker_that_names_no_leader_is_not_asked_again(old: Mapping[int, Leader]) -> None:
    """Those who ask for several partitions at the same time pass over one broker, not over each other's."""

    async def main() -> None:
        cluster = Several(old)
        failed = await asyncio.gather(*(cluster.leader("t", 0) for _ in range(3)), return_exceptions=True)
        assert all(isinstance(each, WireError) for each in failed)
        assert await cluster.leader("t", 0) == Leader(2, 6)
        assert cluster.asked == [1, 2]

    run(main())


def test_from_a_broker_that_may_be_cut_off_only_newer_leaders_are_taken() -> None:
    async def main() -> None:
        cluster = Several({0: Leader(1, 9)}, OTHER_ID)
        while await cluster.leader("t", 0) != Leader(2, 6):
            cluster.forget_leader("t", 0)
        for _ in range(3):
            await cluster.refresh({"t"})
        assert sorted(cluster.asked[-3:]) == [1, 2, 3]
        assert await cluster.leader("t", 0) == Leader(2, 6) and cluster.topic_id("t") == ID

    run(main())


def test_brokers_are_asked_in_turn_for_what_is_new() -> None:
    """What one says that is cut off is older, and does not count (KIP-320)."""

    async def main() -> None:
        cluster, found = Several(), []
        await cluster.leader("t", 0)
        for _ in range(4):
            await cluster.refresh({"t"})
            found.append(await cluster.leader("t", 0))
        assert cluster.asked == [1, 2, 3, 1, 2] and found == [Leader(2, 6)] * 4

    run(main())


def test_requests_keep_a_distance() -> None:
    async def main() -> None:
        cluster = Scripted(leaders={0: Leader(-1, 5, 5)})
        begun = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() < begun + 0.5:
            with pytest.raises(Unavailable, match="LEADER_NOT_AVAILABLE"):
                await cluster.leader("t", 0)
        assert len(cluster.asked) <= 7  # 20 ms, 40, 80, ... less half of each

    run(main())


def test_the_newest_leader_counts() -> None:
    """Brokers name leaders beside an error (KIP-951) and in their metadata, which may lag behind."""

    async def main() -> None:
        cluster = Scripted()
        await cluster.leader("t", 0)
        cluster.hint("t", 0, Leader(2, 6), ("b", 22))
        assert await cluster.leader("t", 0) == Leader(2, 6)
        cluster.hint("t", 0, Leader(3, 6), None)
        cluster.hint("t", 0, Leader(-1, 9), None)
        assert await cluster.leader("t", 0) == Leader(2, 6), "not newer, or nobody"
        await cluster.topic("t")
        assert await cluster.leader("t", 0) == Leader(2, 6), "that broker lags behind"
        cluster.topic_id_ = OTHER_ID
        await cluster.topic("t")
        assert await cluster.leader("t", 0) == Leader(1, 5) and cluster.topic_id("t") == OTHER_ID, "another topic"
        cluster.leaders = {0: Leader(9, 7)}
        cluster.forget_leader("t", 0)
        with pytest.raises(Unavailable):  # a broker that the answer does not name
            await cluster.leader("t", 0)
        with pytest.raises(Unavailable, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await cluster.leader("t", 1)

    run(main())


def test_a_quota_of_the_leader_is_known_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quota is for a client id: what one connection was told holds for all with the same purpose."""

    async def at_once(*_: object) -> Connection:
        return Busy()

    monkeypatch.setattr(Connection, "open", at_once)

    async def main() -> None:
        cluster = Scripted()
        assert cluster.quiet_until("t", 0, "first") == 0, "the leader is not known"
        leader = await cluster.leader("t", 0)
        first, second = await asyncio.gather(*(cluster.connection(leader.node, "first") for _ in range(2)))
        assert first is not second and cluster.quiet_until("t", 0, "first") == 0
        first.quiet_until, second.quiet_until = 7.0, 5.0
        assert (cluster.quiet_until("t", 0, "first"), cluster.quiet_until("t", 0, "produce")) == (7, 0)
        first.close()
        assert cluster.quiet_until("t", 0, "first") == 5
        cluster.forget_leader("t", 0)
        assert cluster.quiet_until("t", 0, "first") == 0, "perhaps another one leads"

    run(main())


@pytest.mark.parametrize("node", [1, 9])
@pytest.mark.parametrize("named", ["in its metadata", "beside an error"])
def test_an_epoch_that_lies_is_not_believed_for_ever(node: int, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a while the partition has no leader: an older one may be one that is cut off. Node 9 does not exist."""
    monkeypatch.setattr(module, "DOUBTED_MAX", 0.2)

    async def main() -> None:
        cluster, lie = Scripted(), Leader(node, 2**31 - 1)
        await cluster.leader("t", 0)
        if named == "beside an error":
            cluster.hint("t", 0, lie, None)
        else:
            cluster.leaders = {0: lie}
            await cluster.topic("t")
        cluster.leaders = {0: Leader(2, 6)}
        await cluster.topic("t")
        assert cluster.known_leader("t", 0) == lie, "nobody doubts it yet"
        if node in ADDRESSES:
            assert await cluster.leader("t", 0) == lie
            cluster.forget_leader("t", 0)
        begun = time.monotonic()
        async with asyncio.timeout(5):
            while cluster.known_leader("t", 0) == lie:
                with contextlib.suppress(Unavailable):
                    assert await cluster.leader("t", 0) == Leader(2, 6)
                if node in ADDRESSES:
                    cluster.forget_leader("t", 0)  # as whoever gets an error does
        assert time.monotonic() - begun >= 0.2
        cluster.hint("t", 0, Leader(3, 7), None)
        assert await cluster.leader("t", 0) == Leader(3, 7)
        monkeypatch.setattr(module, "DOUBTED_MAX", 60.0)
        cluster.leaders = {0: Leader(1, 5)}
        cluster.forget_leader("t", 0)
        with pytest.raises(Unavailable):
            await cluster.leader("t", 0)

    run(main())


class Led(Scripted):
    """Broker 2 has become the leader of t-0, and broker 1 names it."""

    async def connection(self, node: int, purpose: str = "other") -> Any:
        self.asked.append(f"Fetch of {node}")
        new = Leader(2, 6) if node == 1 else None
        records = memoryview(b"" if new else b"records")
        found = PartitionAnswer(0, CODES["NOT_LEADER_OR_FOLLOWER"] if new else 0, 9, (), records, None, new, -1, 9)
        answered: asyncio.Future[FetchAnswer] = asyncio.get_running_loop().create_future()
        answered.set_result(FetchAnswer(0, 0, [(ID, found)], {2: ("b", 22)} if new else {}, 0, False))
        return SimpleNamespace(send=lambda _: answered)


def test_a_reader_goes_to_the_leader_that_an_error_names() -> None:
    """It does so without another request for metadata."""

    async def main() -> None:
        cluster = Led()
        assert bytes((await _Fetches(cluster, "t", 0, True).next(0, 9)).records) == b"records"
        assert cluster.asked == ["Metadata", "Fetch of 1", "Fetch of 2"] and cluster._brokers[2] == ("b", 22)

    run(main())


def test_a_leader_whose_address_nobody_knows_is_asked_for() -> None:
    async def main() -> None:
        cluster = Scripted()
        await cluster.leader("t", 0)
        cluster.hint("t", 0, Leader(4, 6), None)
        cluster.known[4], cluster.leaders = ("d", 4), {0: Leader(4, 6)}
        assert await cluster.leader("t", 0) == Leader(4, 6) and cluster.asked == ["Metadata"] * 2

    run(main())


def test_a_doubted_leader_is_believed_again_by_a_hint() -> None:
    async def main() -> None:
        cluster = Scripted()
        await cluster.leader("t", 0)
        cluster.forget_leader("t", 0)
        cluster.hint("t", 0, Leader(2, 6), None)
        assert await cluster.leader("t", 0) == Leader(2, 6) and len(cluster.asked) == 1

    run(main())


def test_connections_to_brokers_that_are_gone_are_closed() -> None:
    async def main() -> None:
        cluster = Scripted()
        await cluster.topic("t")
        found = [cluster._pool(address) for address in ADDRESSES.values()]
        assert len(cluster.connections()) == 3
        del cluster.known[3]
        await cluster.topic("t")
        assert cluster.connections().keys() == {("a", 1), ("b", 2)} and found[2] not in cluster._pools.values()
        cluster.known.clear()
        with pytest.raises(Unavailable, match="no brokers"):
            await cluster.topic("t")

    run(main())


def test_what_does_not_pass_by_itself_is_said() -> None:
    async def main() -> None:
        with pytest.raises(WireError, match="Metadata of t was answered with TOPIC_AUTHORIZATION_FAILED") as refused:
            await Scripted(error=29).leader("t", 0)
        assert not isinstance(refused.value, Unavailable) and refused.value.code == 29
        with pytest.raises(Malformed, match="does not have that topic"):
            await Scripted().leader("x", 0)

    run(main())


def test_coordinators_move() -> None:
    async def main() -> None:
        cluster = Scripted(coordinators={"g": Coordinator(2, ("b", 2), 0), "h": Coordinator(-1, ("", -1), 15)})
        assert await cluster.coordinator(GROUP, "g") == 2
        with pytest.raises(Unavailable, match="COORDINATOR_NOT_AVAILABLE"):
            await cluster.coordinator(GROUP, "h")
        cluster.coordinators["g"] = Coordinator(3, ("c", 3), 0)
        assert await cluster.coordinator(GROUP, "g") == 2 and await cluster.coordinator(TRANSACTION, "g") == 3
        cluster.forget_coordinator(GROUP, "g")
        assert await cluster.coordinator(GROUP, "g") == 3
        with pytest.raises(Malformed, match="does not have x"):
            await cluster.coordinator(GROUP, "x")

    run(main())


def test_whoever_waits_is_told_when_the_cluster_is_closed() -> None:
    class Silent(Scripted):
        async def ask(self, request: Request[Any]) -> Any:
            await asyncio.Event().wait()

    async def main() -> None:
        cluster = Silent()
        waiting = [asyncio.create_task(cluster.leader("t", 0)), asyncio.create_task(cluster.coordinator(GROUP, "g"))]
        await asyncio.sleep(0.01)
        cluster.close()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(each) for each in found] == [Unavailable] * 2
        with pytest.raises(Unavailable, match="were closed"):
            await cluster.any()
        assert not cluster.connections(), "who comes too late opens no other"

    run(main())


def test_who_had_begun_to_ask_before_the_cluster_was_closed_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[Connection]()

    async def at_once(*_: object) -> Connection:
        opened.append(Busy())
        return opened[-1]

    monkeypatch.setattr(Connection, "open", at_once)

    async def main() -> None:
        for turns in range(5):
            cluster = Cluster(access({"bootstrap.servers": "a:1"}))
            asking = asyncio.create_task(cluster.any())
            for _ in range(turns):
                await asyncio.sleep(0)
            cluster.close()
            await asyncio.gather(asking, return_exceptions=True)
            assert all(each.closed for each in opened)

    run(main())


def test_silent_brokers_are_not_waited_for_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take connections and say nothing, as those of hosts that hang. The next ones are asked soon."""
    monkeypatch.setattr(module, "SILENT", 0.2, raising=False)

    async def main(ports: list[int]) -> None:
        servers = ",".join(f"127.0.0.1:{port}" for port in ports)
        cluster = Cluster(access({"bootstrap.servers": servers}))
        for _ in range(2):
            async with asyncio.timeout(5):
                found = await cluster.any()
            assert found.name == f"127.0.0.1:{ports[-1]}"
            found.opened_at -= pool.LASTING + 1
            found.close()
            monkeypatch.setattr(module, "SILENT", 60.0)  # and those that are still silent are not asked first again
        cluster.close()

    with FakeBroker() as answering, contextlib.ExitStack() as listeners:
        silent = [listeners.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        run(main([*(each.getsockname()[1] for each in silent), answering.port]))


@pytest.mark.parametrize("slow", [1, 2, 3])
def test_a_slow_broker_is_waited_for(slow: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever it is, others that are silent do not end its attempt."""
    monkeypatch.setattr(module, "SILENT", 0.05, raising=False)
    tried: list[str] = []

    async def opening(address: tuple[str, int], _: object) -> Connection:
        tried.append(address[0])
        if len(tried) == len(ADDRESSES):
            all_are_asked.set()
        await (all_are_asked.wait() if address == ADDRESSES[slow] else asyncio.sleep(3600))
        return Busy()

    monkeypatch.setattr(Connection, "open", opening)
    all_are_asked = asyncio.Event()

    async def main() -> None:
        cluster = Cluster(access({"bootstrap.servers": "a:1,b:2,c:3"}))
        async with asyncio.timeout(20):
            found = await cluster.any()
            assert await cluster.any() is found
        assert tried == ["a", "b", "c"]
        cluster.close()

    run(main())


def test_a_broker_that_has_failed_is_asked_last_however_long_ago_that_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may hang: then it lets us in, and answers nothing."""
    tried: list[tuple[str, int]] = []

    async def opening(address: tuple[str, int], _: object) -> Connection:
        tried.append(address)
        return Busy()

    monkeypatch.setattr(Connection, "open", opening)

    async def main() -> None:
        cluster = Cluster(access({"bootstrap.servers": "a:1,b:2"}))
        first = await cluster.any()
        first.opened_at -= pool.LASTING + 1
        first.close()
        await asyncio.sleep(2 * pool.RECONNECT)
        assert await cluster.any() is not first
        assert tried == [("a", 1), ("b", 2)]
        cluster.close()

    run(main())


@pytest.mark.parametrize("lets_in", [True, False])
def test_a_broker_that_refuses_us_does_not_keep_us_from_others(lets_in: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Perhaps it alone does not know the password yet. If nobody lets us in, that is the reason."""
    monkeypatch.setattr(module, "SILENT", 0.05)

    async def opening(address: tuple[str, int], _: object) -> Connection:
        if address == ADDRESSES[1]:
            await asyncio.sleep(0.2)
            raise LoginRefused("bad password")
        await asyncio.sleep(0.4 if address == ADDRESSES[2] else 0)
        if address == ADDRESSES[2] and lets_in:
            return Busy()
        raise Unavailable("away")

    monkeypatch.setattr(Connection, "open", opening)

    async def main() -> None:
        cluster = Cluster(access({"bootstrap.servers": "a:1,b:2,c:3"}))
        if lets_in:
            assert not (await cluster.any()).closed
        else:
            with pytest.raises(LoginRefused, match="bad password"):
                await cluster.any()
        cluster.close()

    run(main())


@pytest.mark.parametrize("slow", ["names", "tokens"])
def test_a_cluster_that_is_slow_to_log_in_to_holds_up_no_other(slow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads look up names and fetch tokens. Those that wait for the one cluster are not the other's."""
    go_on, blocked, resolved = threading.Event(), list[object](), socket.getaddrinfo

    def block(*_: object) -> Token:
        blocked.append(None)
        go_on.wait(60)
        raise Unavailable("too late")

    def found(host: str, *rest: Any, **more: Any) -> Any:
        return block() if host == "slow" else resolved(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", found)

    async def main(port: int) -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(6))  # as on a machine with two cores
        sasl = {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "OAUTHBEARER"}
        source = Cluster(access(sasl if slow == "tokens" else {}, block))
        serving = source._connections(("localhost" if slow == "tokens" else "slow", port), "produce")
        more = source._connections(serving._pool.address, "first")
        waiting = [asyncio.create_task(each.connection()) for each in [serving, more] * 4]
        async with asyncio.timeout(20):
            while len(blocked) < 6:
                await asyncio.sleep(0.01)
        target = Cluster(access({"bootstrap.servers": f"localhost:{port}"}))
        try:
            async with asyncio.timeout(5):
                assert not (await target.any()).closed
        finally:
            go_on.set()
        source.close()
        target.close()
        assert {type(each) for each in await asyncio.gather(*waiting, return_exceptions=True)} == {Unavailable}

    with FakeBroker() as broker:
        broker.answers = lambda *_: struct.pack(">hi", 0, 1) + fake_broker.string("OAUTHBEARER")
        run(main(broker.port))


def test_the_threads_of_a_closed_cluster_end() -> None:
    """Also those that still wait for a name or a token end after that."""

    async def main(port: int) -> None:
        before = set(threading.enumerate())
        cluster = Cluster(access({"bootstrap.servers": f"localhost:{port}"}))
        await cluster.any()
        cluster.close()
        async with asyncio.timeout(20):
            while set(threading.enumerate()) - before - set(broker._threads):
                await asyncio.sleep(0.01)

    with FakeBroker() as broker:
        run(main(broker.port))
