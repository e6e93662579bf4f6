"""A connection: whatever a broker sends or does not send, each request ends, and none is answered that was not."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import struct
import threading
import tracemalloc
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import Malformed, Unanswered, Unavailable, WireError
from mirror.wire import connection as module
from mirror.wire import login
from mirror.wire.access import Access, access
from mirror.wire.auth import Login
from mirror.wire.connection import Connection
from mirror.wire.fetch import Limits, fetch
from mirror.wire.greeting import Abilities, sasl_authenticate, sasl_handshake
from mirror.wire.incoming import BUFFER, LARGE, PIECE
from mirror.wire.requests import Api, Request
from mirror.wire.stream import Stream
from tests.harness import jumping
from tests.harness.recorded import REQUESTS, Answer, answers

NUMBER = Api("Number", 99, 0, 0, flexible=9)
FETCH_VERSION = 17
RECORDED = answers()
EVERYTHING = Abilities({each.request.api.key: (0, 99) for each in RECORDED} | {NUMBER.key: (0, 0)})


def number(wait: float = 0.0) -> Request[int]:
    """A request whose answer is an INT32, and may take `wait` seconds longer."""
    return Request(NUMBER, lambda writer: writer.pack("i", 0), lambda answer: answer.int32(), wait)


def frame(correlation: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation) + body


def numbers(first: int, count: int) -> bytes:
    """Answers to `number`: each is its correlation id."""
    return b"".join(frame(each, struct.pack(">i", each)) for each in range(first, first + count))


@contextlib.asynccontextmanager
async def opened(to: Access | None = None) -> AsyncIterator[tuple[Connection, socket.socket]]:
    """A connection that has been greeted, and the broker's end of it, which does not block."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    connection = Connection(Stream(ours), ("broker", 1), to or access({}))
    connection.abilities = EVERYTHING
    try:
        yield connection, theirs
    finally:
        connection.close()
        theirs.close()


async def received(theirs: socket.socket, count: int) -> list[bytes]:
    """Requests as they arrive at the broker, without their sizes."""
    loop, data = asyncio.get_running_loop(), b""
    found: list[bytes] = []
    while len(found) < count:
        if len(data) >= 4 and len(data) >= 4 + (size := struct.unpack_from(">i", data)[0]):
            found.append(data[4 : 4 + size])
            data = data[4 + size :]
        else:
            data += await loop.sock_recv(theirs, 65_536)
    return found


async def outcomes(waiting: Sequence[asyncio.Future[Any]]) -> list[Any]:
    """What each has got: an answer or an error. None waits for ever."""
    async with asyncio.timeout(20):
        return list(await asyncio.gather(*waiting, return_exceptions=True))


def test_requests_are_sent_without_a_wait_and_answered_in_order() -> None:
    async def run() -> None:
        async with opened() as (connection, theirs):
            waiting = [connection.send(number()) for _ in range(500)]
            requests = await received(theirs, 500)
            assert [struct.unpack_from(">hhi", each) for each in requests] == [(99, 0, n) for n in range(1, 501)]
            assert connection.pending == 500
            await asyncio.get_running_loop().sock_sendall(theirs, numbers(1, 500))
            assert await outcomes(waiting) == list(range(1, 501))
            assert connection.pending == 0 and not connection.closed

    asyncio.run(run())


def test_an_answer_for_which_nobody_waits_any_more_is_dropped() -> None:
    async def run() -> None:
        async with opened() as (connection, theirs):
            first, second = connection.send(number()), connection.send(number())
            first.cancel()
            await asyncio.get_running_loop().sock_sendall(theirs, numbers(1, 2))
            assert await second == 2

    asyncio.run(run())


def test_a_request_that_is_not_answered_in_time_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.2)

    async def run() -> None:
        async with opened() as (connection, theirs):
            answered, *waiting = [connection.send(number()) for _ in range(4)]
            await asyncio.get_running_loop().sock_sendall(theirs, numbers(1, 1))
            assert await answered == 1
            found = await outcomes(waiting)
            assert [type(each) for each in found] == [Unanswered] * 3
            assert {str(each) for each in found} == {"broker:1 does not answer: timed out"}
            with pytest.raises(Unavailable, match="timed out") as refused:
                connection.send(number())
            assert not isinstance(refused.value, Unanswered), "nothing was sent"

    jumping.run(run())


def test_a_request_may_wait_for_longer_if_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.1)

    async def run() -> None:
        async with opened() as (connection, theirs):
            waiting = connection.send(number(wait=0.4))
            await asyncio.sleep(0.25)
            await asyncio.get_running_loop().sock_sendall(theirs, numbers(1, 1))
            assert await waiting == 1

    jumping.run(run())


def test_what_waits_after_a_patient_request_is_as_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker looks at a request only after it has answered those before it."""
    monkeypatch.setattr(module, "TIMEOUT", 0.1)

    async def run() -> None:
        async with opened() as (connection, theirs):
            waiting = [connection.send(each) for each in (number(), number(wait=0.4), number())]
            theirs.send(numbers(1, 1))  # so the clock is looked at when the first would be late
            await asyncio.sleep(0.25)
            theirs.send(numbers(2, 2))
            assert await outcomes(waiting) == [1, 2, 3]

    jumping.run(run())


def test_each_answer_gives_the_next_request_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are sent at once, and the broker is slow but works: together they take longer than one may."""
    monkeypatch.setattr(module, "TIMEOUT", 1.0)

    async def run() -> None:
        async with opened() as (connection, theirs):
            waiting = [connection.send(number()) for _ in range(5)]
            for each in range(1, 5):
                await asyncio.sleep(0.3)
                theirs.send(numbers(each, 1))
            answered = await outcomes(waiting[:-1])
            begun = asyncio.get_running_loop().time()
            (silent,) = await outcomes(waiting[-1:])
            assert answered == [1, 2, 3, 4] and type(silent) is Unanswered
            assert 0.9 < asyncio.get_running_loop().time() - begun < 5

    jumping.run(run())


def large() -> Request[int]:
    """A request of 400 KB whose answer is an INT32."""
    return Request(NUMBER, lambda writer: writer.raw(bytes(400_000)), lambda answer: answer.int32())


def test_a_request_that_goes_over_a_slow_link_has_time_as_long_as_it_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes four times as long as an answer may."""
    monkeypatch.setattr(module, "TIMEOUT", 1.0)

    async def run() -> None:
        async with opened() as (connection, theirs):
            loop, left = asyncio.get_running_loop(), 400_000
            begun, waiting = loop.time(), [connection.send(large()), connection.send(number())]
            while left > 0:
                assert not connection.closed
                left -= len(await loop.sock_recv(theirs, 40_000))
                await asyncio.sleep(0.4)
            await loop.sock_sendall(theirs, numbers(1, 2))
            assert await outcomes(waiting) == [1, 2] and loop.time() - begun > 3

    jumping.run(run())


@pytest.mark.parametrize(("takes", "each"), [(0, 1), (150_000, 150_000), (150_000, 1_000), (401_000, 401_000)])
def test_a_request_that_does_not_move_is_given_up(takes: int, each: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker takes nothing, some of it, some drops, or all of it and hangs."""
    monkeypatch.setattr(module, "TIMEOUT", 0.5)

    async def run() -> None:
        async with opened() as (connection, theirs):
            loop, taken = asyncio.get_running_loop(), 0
            begun, waiting = loop.time(), connection.send(large())
            while taken < takes and not connection.closed:
                with contextlib.suppress(BlockingIOError):
                    taken += len(theirs.recv(min(each, takes - taken)))
                await asyncio.sleep(0.2 if each == 1_000 else 0.001)
            (found,) = await outcomes([waiting])
            assert type(found) is Unanswered and loop.time() - begun < 5

    jumping.run(run())


def test_a_retired_connection_answers_those_who_wait_and_then_ends() -> None:
    async def run() -> None:
        async with opened() as (connection, theirs):
            given_up, first, second = (connection.send(number()) for _ in range(3))
            given_up.cancel()
            connection.retire()
            await asyncio.get_running_loop().sock_sendall(theirs, numbers(1, 2))
            assert await first == 2 and not connection.closed
            await asyncio.get_running_loop().sock_sendall(theirs, numbers(3, 1))
            assert await second == 3 and connection.closed and not connection.broken

    asyncio.run(run())


def test_a_retired_connection_for_which_nobody_waits_ends_at_once() -> None:
    async def run() -> None:
        async with opened() as (connection, _):
            connection.send(number()).cancel()
            connection.retire()
            assert connection.closed

    asyncio.run(run())


def test_a_retired_connection_that_is_dead_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.2)

    async def run() -> None:
        async with opened() as (connection, _):
            waiting = connection.send(number())
            connection.retire()
            assert [type(each) for each in await outcomes([waiting])] == [Unanswered] and connection.closed

    jumping.run(run())


def test_who_was_patient_for_one_answer_is_not_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.2)

    async def run() -> None:
        async with opened() as (connection, theirs):
            first, second = connection.send(number(wait=60)), connection.send(number())
            theirs.send(numbers(1, 1))
            assert await outcomes([first]) == [1]
            async with asyncio.timeout(5):
                with pytest.raises(Unanswered):
                    await second

    jumping.run(run())


def test_a_loop_that_stood_still_listens_before_it_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a suspend the answer is there, and only the clock has gone on."""
    monkeypatch.setattr(module, "TIMEOUT", 0.2)

    async def run() -> None:
        async with opened() as (connection, theirs):
            waiting = connection.send(number())
            await received(theirs, 1)
            await asyncio.sleep(0)
            jumping.running_loop().now += 1.5
            asyncio.get_running_loop().call_later(0.1, theirs.send, numbers(1, 1))
            assert await waiting == 1

    jumping.run(run())


@pytest.mark.parametrize(
    ("sent", "error", "reason"),
    [
        (struct.pack(">i", 2**31 - 1), Malformed, "answers with 2147483647 bytes"),
        (struct.pack(">i", -1), Malformed, "answers with -1 bytes"),
        (struct.pack(">i", 3), Malformed, "answers with 3 bytes"),
        (numbers(2, 1), Malformed, "a request that was not sent"),
        (frame(1, b"abc"), Malformed, "cut off"),
        (frame(1, b"12345"), Malformed, "1 bytes too many"),
        (numbers(1, 1)[:-1], Unanswered, "the connection was closed"),
        (b"", Unanswered, "the connection was closed"),
    ],
)
def test_what_is_no_answer(sent: bytes, error: type[WireError], reason: str) -> None:
    """The request that it seemed to answer says so. For those after it nobody knows."""

    async def run() -> None:
        async with opened() as (connection, theirs):
            waiting = [connection.send(number()) for _ in range(3)]
            await received(theirs, 3)
            theirs.send(sent)
            theirs.shutdown(socket.SHUT_WR)
            first, *others = await outcomes(waiting)
            assert type(first) is error and reason in str(first)
            assert [type(each) for each in others] == [Unanswered] * 2
            assert connection.closed

    asyncio.run(run())


def test_an_answer_that_nobody_asked_for() -> None:
    async def run() -> None:
        async with opened() as (connection, theirs):
            theirs.send(struct.pack(">i", 2**29))  # and no memory is reserved for it
            async with asyncio.timeout(20):
                while not connection.closed:
                    await asyncio.sleep(0)
            assert "a request that was not sent" in str(connection.closed)

    asyncio.run(run())


def throttling(value: int = 0) -> Request[int]:
    """A request whose answer says for how long (ms) we are throttled."""

    def read(answer: Any) -> int:
        answer.throttle()
        return int(answer.throttled)

    return Request(NUMBER, lambda writer: writer.pack("i", value), read)


def test_a_broker_that_throttles_answers_later_what_was_sent_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads nothing of a throttled connection (KIP-219), so the next answer is not overdue."""
    monkeypatch.setattr(module, "TIMEOUT", 0.2)

    async def run() -> None:
        async with opened() as (connection, theirs):
            waiting = [connection.send(throttling()) for _ in range(2)]
            await received(theirs, 2)
            theirs.send(frame(1, struct.pack(">i", 3000)))
            await asyncio.sleep(0.6)
            theirs.send(frame(2, struct.pack(">i", 0)))
            assert await outcomes(waiting) == [3000, 0]

    jumping.run(run())


def test_a_throttled_connection_is_quiet() -> None:
    """What comes meanwhile is sent later, in its order (KIP-219)."""
    request = throttling()
    told: list[float] = []

    async def run() -> None:
        async with opened(replace(access({}), on_throttled=told.append)) as (connection, theirs):
            loop = asyncio.get_running_loop()
            first = connection.send(request)
            await received(theirs, 1)
            theirs.send(frame(1, struct.pack(">i", 300)))
            assert await first == 300
            begun = loop.time()
            waiting = [connection.send(request) for _ in range(2)]
            given_up = connection.send(request)
            assert connection.pending == 3 and connection.quiet_until > begun
            given_up.cancel()
            assert connection.pending == 2, "who has given up waits for nothing"
            requests = await received(theirs, 2)
            assert loop.time() - begun > 0.25 and [struct.unpack_from(">i", each, 4)[0] for each in requests] == [2, 3]
            theirs.send(frame(2, struct.pack(">i", 0)) + frame(3, struct.pack(">i", 0)))
            assert await outcomes(waiting) == [0, 0]
            assert told == [0.3], "in seconds, and not for answers that do not throttle"

    jumping.run(run())


def test_nothing_overtakes_what_was_held_back() -> None:
    """The quiet time is over, but what waits has not been sent yet, because the loop was busy."""

    async def run() -> None:
        async with opened() as (connection, theirs):
            first = connection.send(throttling(1))
            await received(theirs, 1)
            theirs.send(frame(1, struct.pack(">i", 100)))
            await first
            connection.send(throttling(2))
            jumping.running_loop().now += 0.15
            connection.send(throttling(3))
            assert [each[-4:] for each in await received(theirs, 2)] == [struct.pack(">i", each) for each in (2, 3)]

    jumping.run(run())


def test_who_gives_up_before_anything_is_sent_has_no_effect() -> None:
    async def run() -> None:
        async with opened() as (connection, theirs):
            logging_in(theirs, connection)
            given_up, wanted = (connection.send(number()) for _ in range(2))
            given_up.cancel()
            await received(theirs, 1)
            theirs.send(frame(1, HANDSHAKE))
            await received(theirs, 1)
            theirs.send(frame(2, LOGGED_IN))
            await received(theirs, 1)
            theirs.send(numbers(3, 1))
            assert await wanted == 3 and connection.pending == 0

    asyncio.run(run())


def payload() -> Request[bytes]:
    """A request whose answer is BYTES, in an API that has no records."""
    return Request(NUMBER, lambda writer: writer.pack("i", 0), lambda answer: bytes(answer.bytes()))


@given(
    st.lists(st.sampled_from([0, 10, 5_000, 65_000, 65_536, 200_000]), min_size=1, max_size=6), st.integers(1, 90_000)
)
def test_answers_of_any_size_in_pieces_of_any_size(sizes: list[int], piece: int) -> None:
    bodies = [bytes([number]) * size for number, size in enumerate(sizes)]
    stream = b"".join(frame(n, struct.pack(">i", len(body)) + body) for n, body in enumerate(bodies, 1))

    async def run() -> None:
        async with opened() as (connection, theirs):
            loop = asyncio.get_running_loop()
            waiting = [connection.send(payload()) for _ in bodies]
            await received(theirs, len(bodies))
            for at in range(0, len(stream), max(piece, len(stream) // 50)):
                await loop.sock_sendall(theirs, stream[at : at + max(piece, len(stream) // 50)])
                await asyncio.sleep(0)
            assert await outcomes(waiting) == bodies

    asyncio.run(run())


def test_an_answer_that_keeps_coming_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.8)
    body = bytes(6 * PIECE)
    stream = frame(1, struct.pack(">i", len(body)) + body) + numbers(2, 1)

    async def run() -> None:
        async with opened() as (connection, theirs):
            waiting: list[asyncio.Future[Any]] = [connection.send(payload()), connection.send(number())]
            for at in range(0, len(stream), PIECE + 100):
                await asyncio.get_running_loop().sock_sendall(theirs, stream[at : at + PIECE + 100])
                await asyncio.sleep(0.2)
            assert await outcomes(waiting) == [body, 2]

    jumping.run(run())


def test_the_size_of_an_answer_with_records_is_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the size is known, the kernel writes what follows to where it stays."""
    asked: list[int] = []
    original = Stream.read_into

    def read_into(self: Stream, buffer: memoryview) -> int:
        asked.append(len(buffer))
        return original(self, buffer)

    monkeypatch.setattr(Stream, "read_into", read_into)
    whole = frame(1, b"\0" * 17)

    async def run() -> None:
        async with opened() as (connection, theirs):
            waiting = connection.send(fetch({}, Limits(0, 1)))
            theirs.send(whole)
            with pytest.raises(Malformed):
                await waiting

    asyncio.run(run())
    assert asked == [4, len(whole) - 4]


def test_records_are_read_into_the_memory_that_they_stay_in() -> None:
    """An answer of 32 MiB needs 32 MiB, and what is decoded is a part of them."""
    size = 32 * 2**20
    head = struct.pack(">iihi", 0, 0, 0, 0)[:10]
    partition = struct.pack(">ihqqq", 0, 0, 9, 9, 0) + b"\1" + struct.pack(">i", -1)
    length = bytes([(size + 1) & 0x7F | 0x80, (size + 1) >> 7 & 0x7F | 0x80, (size + 1) >> 14 & 0x7F | 0x80])
    before = b"\0" + head + b"\2" + bytes(16) + b"\2" + partition + length + bytes([(size + 1) >> 21])
    after = b"\0\0\0"

    async def run() -> None:
        async with opened() as (connection, theirs):
            loop = asyncio.get_running_loop()
            waiting = connection.send(fetch({}, Limits(0, 1)))
            requests = await received(theirs, 1)
            assert struct.unpack_from(">hh", requests[0]) == (1, FETCH_VERSION)
            records, rest = memoryview(bytes(size)), struct.pack(">ii", 4 + len(before) + size + len(after), 1)
            tracemalloc.start()
            try:
                for part in (rest, before, records, after):
                    await loop.sock_sendall(theirs, part)
                ((_, found),) = (await waiting).partitions
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert len(found.records) == size and not found.records.readonly
            assert peak < size + 2**20

    asyncio.run(run())


def test_a_size_that_lies_costs_no_memory() -> None:
    async def run() -> None:
        async with opened() as (connection, theirs):
            waiting = connection.send(fetch({}, Limits(0, 1)))
            await received(theirs, 1)
            tracemalloc.start()
            try:
                theirs.send(struct.pack(">ii", 2**26, 1) + bytes(1000))
                theirs.shutdown(socket.SHUT_WR)
                with pytest.raises(Unanswered):
                    await waiting
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert peak < LARGE

    asyncio.run(run())


def test_closed_connections_hold_no_buffers() -> None:
    """A cluster that lets nobody in is tried for hours."""
    count, kept = 20, []

    async def run() -> int:
        for _ in range(count):
            async with opened() as (connection, _):
                kept.append(connection)
                connection.close()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    gc.disable()
    try:
        held = asyncio.run(run())
    finally:
        gc.enable()
        tracemalloc.stop()
    assert len(kept) == count and held < count * BUFFER / 2


@pytest.mark.parametrize("how", ["cut", "closed", "malformed"])
def test_a_closed_connection_holds_no_answer(how: str) -> None:
    """Also before Python looks for reference cycles, though somebody still has the connection, and its error."""
    size = 8 * 2**20

    async def run() -> None:
        async with opened() as (connection, theirs):
            loop = asyncio.get_running_loop()
            waiting = connection.send(fetch({}, Limits(0, 1)))
            await received(theirs, 1)
            tracemalloc.start()
            gc.disable()
            try:
                sent = struct.pack(">ii", size, 1) + bytes(size - 4 if how == "malformed" else 2**20)
                await loop.sock_sendall(theirs, sent)
                del sent
                if how == "closed":
                    while tracemalloc.get_traced_memory()[0] < size:
                        await asyncio.sleep(0)
                    connection.close()
                theirs.shutdown(socket.SHUT_WR)
                (found,) = await outcomes([waiting])
                held = tracemalloc.get_traced_memory()[0]
            finally:
                gc.enable()
                tracemalloc.stop()
            assert type(found) is (Malformed if how == "malformed" else Unanswered)
            assert connection.closed and held < size // 8

    asyncio.run(run())


@given(st.sampled_from(RECORDED), st.data())
def test_a_damaged_answer_is_another_or_is_refused(answer: Answer, data: st.DataObject) -> None:
    """Bytes are flipped, cut off or put in; no length makes it read or reserve more than there is."""
    place = data.draw(st.integers(0, len(answer.data)))
    nonsense = data.draw(st.binary(max_size=8))
    kept = data.draw(st.sampled_from([0, len(nonsense), 2**30]))
    damaged = answer.data[:place] + nonsense + answer.data[place + kept :]
    with contextlib.suppress(WireError):
        answer.request.decode(answer.version, memoryview(bytearray(damaged)))


@given(st.sampled_from([*REQUESTS.values(), sasl_handshake("PLAIN"), sasl_authenticate(b"")]), st.binary(), st.data())
def test_any_bytes_are_an_answer_or_refused(request: Request[Any], answer: bytes, data: st.DataObject) -> None:
    version = data.draw(st.integers(request.api.first, request.api.last))
    with contextlib.suppress(WireError):
        request.decode(version, memoryview(answer))


def test_recorded_answers_are_whole() -> None:
    for answer in RECORDED:
        answer.request.decode(answer.version, memoryview(answer.data))
        with pytest.raises(Malformed):
            answer.request.decode(answer.version, memoryview(answer.data + b"\0"))
        for cut in range(len(answer.data)):
            with pytest.raises(Malformed):
                answer.request.decode(answer.version, memoryview(answer.data[:cut]))


@given(st.data())
def test_a_damaged_stream_acknowledges_nothing_that_was_not_answered(data: st.DataObject) -> None:
    """The answers before the damage count. After it, nothing counts, and nobody waits for ever."""
    count = data.draw(st.integers(1, 12))
    chosen = [data.draw(st.sampled_from(RECORDED)) for _ in range(count)]
    stream, ends = b"", []
    for correlation, answer in enumerate(chosen, 1):
        stream += frame(correlation, answer.data)
        ends.append(len(stream))
    place = data.draw(st.integers(0, len(stream) - 1))
    header = data.draw(st.booleans())  # damage where an answer begins: its size, its correlation id
    if header:
        place = data.draw(st.sampled_from([0, *ends[:-1]])) + data.draw(st.integers(0, 7))
    how = data.draw(st.sampled_from(["cut", "flip", "insert", "drop"]))
    middle = {
        "cut": b"",
        "flip": bytes([stream[place] ^ data.draw(st.integers(1, 255))]),
        "insert": b"\xff",
        "drop": b"",
    }
    after = b"" if how == "cut" else stream[place + (how != "insert") :]
    intact = sum(end <= place for end in ends)

    async def run() -> None:
        async with opened() as (connection, theirs):
            waiting = []
            for answer in chosen:
                connection.abilities = Abilities({answer.request.api.key: (0, answer.version)})
                waiting.append(connection.send(answer.request))
            await received(theirs, count)
            theirs.send(stream[:place] + middle[how] + after)
            theirs.shutdown(socket.SHUT_WR)
            found = await outcomes(waiting)
            assert not any(isinstance(each, BaseException) for each in found[:intact])
            errors = [isinstance(each, WireError) for each in found[intact:]]
            assert not any(isinstance(each, BaseException) and not isinstance(each, WireError) for each in found)
            assert errors == sorted(errors), "after the first error, nothing is answered"
            # An inserted byte may be one more of those that follow: then it is left over at the end.
            if how in ("cut", "drop") or header:
                assert errors and errors[-1]

    asyncio.run(run())


def logging_in(theirs: socket.socket, connection: Connection) -> None:
    """From now on a login is due."""
    connection.access = access({"security.protocol": "sasl_plaintext", "sasl.mechanisms": "PLAIN"})
    connection._login_until = 0.0
    kinds = {kind: (0, version) for kind, version in ((17, 1), (36, 1))}
    connection.abilities = Abilities({**connection.abilities.versions, **kinds})


HANDSHAKE = struct.pack(">hi", 0, 1) + struct.pack(">h", 5) + b"PLAIN"
LOGGED_IN = struct.pack(">hhiq", 0, -1, 0, 60_000)
REFUSED = struct.pack(">hh", 58, 4) + b"bad\n" + struct.pack(">iq", 0, 0)


def test_a_login_is_renewed_between_requests() -> None:
    """The broker takes no other requests meanwhile (KIP-368). What was sent before is answered first."""

    async def run() -> None:
        async with opened() as (connection, theirs):
            before = connection.send(number())
            logging_in(theirs, connection)
            waiting = [connection.send(number()) for _ in range(3)]
            requests = await received(theirs, 2)
            assert [struct.unpack_from(">h", each)[0] for each in requests] == [99, 17]
            theirs.send(numbers(1, 1) + frame(2, HANDSHAKE))
            assert await before == 1
            ((kind,),) = [struct.unpack_from(">h", each) for each in await received(theirs, 1)]
            assert kind == 36 and connection.pending == 4
            theirs.send(frame(3, LOGGED_IN))
            assert [struct.unpack_from(">hhi", each) for each in await received(theirs, 3)] == [
                (99, 0, correlation) for correlation in (4, 5, 6)
            ]
            theirs.send(numbers(4, 3))
            assert await outcomes(waiting) == [4, 5, 6]
            assert 50 < connection._login_until - asyncio.get_running_loop().time() < 52

    asyncio.run(run())


def test_a_login_that_ends_while_the_connection_is_quiet_is_renewed_before_what_waits() -> None:
    """It lasted when they were sent. A broker closes the connection at a request that comes after its end."""

    async def run() -> None:
        async with opened() as (connection, theirs):
            first = connection.send(throttling())
            await received(theirs, 1)
            theirs.send(frame(1, struct.pack(">i", 300)))
            assert await first == 300
            logging_in(theirs, connection)
            connection._login_until = asyncio.get_running_loop().time() + 0.1
            waiting = [connection.send(number()) for _ in range(2)]
            ((kind,),) = [struct.unpack_from(">h", each) for each in await received(theirs, 1)]
            assert kind == 17 and asyncio.get_running_loop().time() >= connection.quiet_until
            theirs.send(frame(2, HANDSHAKE))
            await received(theirs, 1)
            theirs.send(frame(3, LOGGED_IN))
            await received(theirs, 2)
            theirs.send(numbers(4, 2))
            assert await outcomes(waiting) == [4, 5]

    asyncio.run(run())


def test_a_login_that_lasts_for_no_time_lets_through_what_waits() -> None:
    """As with a clock of the broker's that is wrong: else there would be nothing but logins."""

    async def run() -> None:
        async with opened() as (connection, theirs):
            logging_in(theirs, connection)
            waiting = [connection.send(number()) for _ in range(2)]
            await received(theirs, 1)
            theirs.send(frame(1, HANDSHAKE))
            await received(theirs, 1)
            theirs.send(frame(2, struct.pack(">hhiq", 0, -1, 0, 1)))
            assert [struct.unpack_from(">h", each)[0] for each in await received(theirs, 2)] == [99, 99]
            theirs.send(numbers(3, 2))
            assert await outcomes(waiting) == [3, 4]

    asyncio.run(run())


def test_a_login_may_wait_for_answers_that_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may take longer than anything that a login needs: only its own messages have a time of their own."""
    monkeypatch.setattr(login, "MESSAGE_MAX", 0.3)

    async def run() -> None:
        async with opened() as (connection, theirs):
            before = connection.send(number())
            logging_in(theirs, connection)
            waiting = connection.send(number())
            await received(theirs, 2)
            await asyncio.sleep(0.5)
            monkeypatch.setattr(login, "MESSAGE_MAX", 60.0)  # from now on threads have to answer
            theirs.send(numbers(1, 1) + frame(2, HANDSHAKE))
            await received(theirs, 1)
            theirs.send(frame(3, LOGGED_IN))
            await received(theirs, 1)
            theirs.send(numbers(4, 1))
            assert await outcomes([before, waiting]) == [1, 4]

    asyncio.run(run())


def slow_login(connection: Connection, go_on: threading.Event) -> None:
    """Its messages are made once they may `go_on`, as if a token had to be fetched."""
    real = connection.access.login
    assert real
    slow = SimpleNamespace(
        mechanism=real.mechanism, password="", exchange=lambda: real.exchange() if go_on.wait(60) else None
    )
    connection.access = replace(connection.access, login=cast(Login, slow))


def test_a_login_whose_message_takes_too_long_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "MESSAGE_MAX", 0.2)
    go_on = threading.Event()

    async def run() -> None:
        async with opened() as (connection, theirs):
            logging_in(theirs, connection)
            slow_login(connection, go_on)
            waiting = connection.send(number())
            await received(theirs, 1)
            theirs.send(frame(1, HANDSHAKE))
            (found,) = await outcomes([waiting])
            go_on.set()
            assert type(found) is Unavailable and str(found) == "broker:1 can't be logged in to: timed out"

    asyncio.run(run())


def test_a_connection_that_is_closed_while_a_login_has_no_message_yet_ends_the_login() -> None:
    go_on = threading.Event()

    async def run() -> None:
        async with opened() as (connection, theirs):
            logging_in(theirs, connection)
            slow_login(connection, go_on)
            waiting = asyncio.create_task(connection._log_in())
            await received(theirs, 1)
            theirs.send(frame(1, HANDSHAKE))
            await asyncio.sleep(0)
            theirs.shutdown(socket.SHUT_WR)
            while not connection.closed:
                await asyncio.sleep(0.001)
            go_on.set()
            assert [type(each) for each in await outcomes([waiting])] == [Unavailable]

    asyncio.run(run())


@pytest.mark.parametrize("how", ["refused", "closed", "silent"])
def test_a_login_that_is_not_renewed_ends_the_connection(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was held back was not sent, and is told so."""
    monkeypatch.setattr(module, "TIMEOUT", 0.5 if how == "silent" else 20.0)

    async def run() -> None:
        async with opened() as (connection, theirs):
            before = connection.send(number())
            logging_in(theirs, connection)
            waiting = [connection.send(number()) for _ in range(3)]
            await received(theirs, 2)
            theirs.send(numbers(1, 1) + (frame(2, HANDSHAKE) if how != "silent" else b""))
            assert await before == 1
            if how == "refused":
                await received(theirs, 1)
                theirs.send(frame(3, REFUSED))
            elif how == "closed":
                theirs.shutdown(socket.SHUT_RDWR)
            found = await outcomes(waiting)
            assert [type(each) for each in found] == [Unavailable] * 3
            said = {"refused": "refuses the login: bad?", "closed": "was closed", "silent": "timed out"}
            assert said[how] in str(found[0]) and connection.closed

    asyncio.run(run())


@pytest.mark.parametrize("tls", [False, True])
def test_whoever_does_not_answer_is_not_waited_for(tls: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener that takes the connection and says nothing, be it to TLS or to Kafka's first request."""
    monkeypatch.setattr(module, "TIMEOUT", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        properties = {"security.protocol": "ssl" if tls else "plaintext"}
        with pytest.raises(Unavailable, match="timed out") as refused:
            asyncio.run(Connection.open(("127.0.0.1", listener.getsockname()[1]), access(properties)))
        assert not isinstance(refused.value, Unanswered), "what the caller asks for was not sent"


def test_the_next_address_of_a_host_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of which refuses: as a host with IPv6 whose broker has none."""
    with socket.create_server(("127.0.0.1", 0)) as refusing, socket.create_server(("127.0.0.1", 0)) as listener:
        ports = [each.getsockname()[1] for each in (refusing, listener)]
        refusing.close()
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

        async def run() -> None:
            stream = await Stream.open(("host", 1), access({}), 10)
            stream.close()
            found.pop()
            with pytest.raises(ConnectionRefusedError):
                await Stream.open(("host", 1), access({}), 10)

        asyncio.run(run())


def test_an_address_without_a_broker_behind_it_leaves_the_next_one_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a load balancer does: it takes the connection, and closes it before TLS has begun."""
    with socket.create_server(("127.0.0.1", 0)) as closing, socket.create_server(("127.0.0.1", 0)) as silent:

        def close() -> None:
            accepted, _ = closing.accept()
            accepted.recv(1)
            accepted.shutdown(socket.SHUT_RDWR)
            accepted.close()

        thread = threading.Thread(target=close, daemon=True)
        thread.start()
        ports = [each.getsockname()[1] for each in (closing, silent)]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        with pytest.raises(TimeoutError):
            asyncio.run(Stream.open(("host", 1), access({"security.protocol": "ssl"}), 0.4))
        silent.settimeout(5)
        asked, _ = silent.accept()
        asked.close()
        thread.join()


def test_an_address_that_does_not_answer_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as refusing:
        ports = [each.getsockname()[1] for each in (silent, refusing)]
        refusing.close()
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        with pytest.raises(ConnectionRefusedError):
            asyncio.run(Stream.open(("host", 1), access({"security.protocol": "ssl"}), 0.4))
        found.pop()
        with pytest.raises(TimeoutError):
            asyncio.run(Stream.open(("host", 1), access({"security.protocol": "ssl"}), 0.2))
