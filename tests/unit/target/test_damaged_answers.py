"""Whole transactions over a real socket whose answers are damaged: what is told to be committed is committed."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.clock import Clock
from mirror.errors import PartitionError, WireError
from mirror.model import Partition
from mirror.target import batch_take_over, batch_transaction, coordination
from mirror.target.batch_session import BatchSession
from mirror.target.batch_take_over import Owner, take_over
from mirror.target.loading import Tokens
from mirror.wire import connection
from mirror.wire.access import access
from mirror.wire.cluster import Cluster
from tests.harness.batch_target import Target, made
from tests.harness.loopback import HOST, Loopback
from tests.harness.waiting import PATIENCE
from tests.unit.target.test_batch_session import RARELY, TOPIC, after

SOON = 0.1  # seconds in place of ten
WITHIN = 20.0  # seconds: many times what all time-outs together take then
REQUESTS = 22  # that a take-over and a transaction make, with the greetings


@dataclass(frozen=True)
class Damage:
    """What becomes of an answer: bytes are flipped, put in, cut off or sent in its place; it never comes, or twice."""

    how: str
    place: int
    noise: bytes

    def of(self, answer: bytes) -> bytes | None:
        at = self.place % len(answer)
        if self.how == "flip":
            return answer[:at] + bytes([answer[at] ^ (self.noise[0] or 1)]) + answer[at + 1 :]
        sized = struct.pack(">i", len(answer) - 4 + len(self.noise))
        return {
            "insert": sized + answer[4 : max(4, at)] + self.noise + answer[max(4, at) :],
            "cut": answer[:at],
            "shorter": struct.pack(">i", max(at, 4)) + answer[4 : 4 + max(at, 4)],
            "size": struct.pack(">i", 2**31 - 1 - self.place) + answer[4:],
            "garbage": self.noise * 20,
            "other": answer[:4] + struct.pack(">i", self.place) + answer[8:],
            "twice": answer + answer,
            "never": b"",
            "close": None,
        }[self.how]


DAMAGES = st.builds(
    Damage,
    st.sampled_from(
        ["flip"] * 6 + ["insert"] * 2 + ["cut", "shorter", "size", "garbage", "other", "twice", "never", "close"]
    ),
    st.integers(0, 400),
    st.binary(min_size=1, max_size=6),
)


@contextlib.contextmanager
def hurried(soon: float = SOON) -> Iterator[list[int]]:
    """Time-outs are that short, and only the ports in the list can be reached: damage may name any address."""
    ports: list[int] = []
    original = socket.getaddrinfo

    def known(host: Any, port: Any, *more: Any, **named: Any) -> Any:
        if (host, port) not in [(HOST, each) for each in ports]:
            raise socket.gaierror("not here")
        return original(host, port, *more, **named)

    with pytest.MonkeyPatch.context() as patch:
        for module in (coordination, batch_transaction, batch_take_over):
            patch.setattr(module, "PATIENCE", soon)
        patch.setattr(connection, "TIMEOUT", soon)
        patch.setattr(connection, "THROTTLE_MAX", soon)
        patch.setattr(socket, "getaddrinfo", known)
        yield ports


async def copied(loopback: Loopback, counts: list[int], careful: bool) -> None:
    """Take over, and copy these batches by one transaction."""
    cluster = Cluster(access({"bootstrap.servers": f"{HOST}:{loopback.port}"}))
    try:
        owner = Owner.of(RARELY, TOPIC, 0)
        taken = await take_over(cluster, owner, Tokens())
        batches = made(*counts)
        session = BatchSession(cluster, RARELY, Partition("t", 0), TOPIC, taken, Clock(), careful)
        await session.copy(batches, after(batches))
    finally:
        cluster.close()


def test_without_damage_it_is_copied() -> None:
    loopback = Loopback(Target())

    async def run() -> None:
        async with loopback.serve():
            ports.append(loopback.port)
            await copied(loopback, [3, 2], False)

    with hurried(PATIENCE) as ports:
        asyncio.run(run())
    assert len(loopback.target.committed["remote"]) == 5 and loopback.target.position.offset == 5
    assert 10 < len(loopback.asked) <= REQUESTS and loopback.most_open <= 14, loopback.asked


@settings(max_examples=60)
@given(
    st.dictionaries(st.integers(1, REQUESTS), DAMAGES, min_size=1, max_size=2),
    st.lists(st.integers(1, 3), min_size=1, max_size=4),
    st.booleans(),
)
def test_damage_ends_in_an_error_of_ours_or_in_a_whole_transaction(
    damages: dict[int, Damage], counts: list[int], careful: bool
) -> None:
    def way(number: int, answer: bytes) -> bytes | None:
        return damages[number].of(answer) if number in damages else answer

    loopback = Loopback(Target(), way)
    wrong: list[dict[str, Any]] = []

    async def run() -> bool:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))
        async with asyncio.timeout(WITHIN), loopback.serve():
            ports.append(loopback.port)
            try:
                await copied(loopback, counts, careful)
            except (PartitionError, WireError):
                return False
            return True

    with hurried() as ports:
        told = asyncio.run(run())
    target, records = loopback.target, sum(counts)
    assert not wrong, "nothing fails unseen in the loop"
    assert target.commits <= 1
    if target.commits:  # the end was asked for: then everything was answered well before
        assert len(target.committed["remote"]) == records and target.position.offset == records
    assert told <= target.commits
