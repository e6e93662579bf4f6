"""Answers that a broker makes up: each is refused with an error of ours, soon, and before it costs memory."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
import tracemalloc
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror import varints
from mirror.errors import Malformed, Unanswered, Unsupported, WireError
from mirror.wire import connection as module
from mirror.wire.access import BATCH_MAX, access
from mirror.wire.auth import Login
from mirror.wire.fetch import Limits, TopicKey, fetch
from mirror.wire.greeting import Abilities, Reply, api_versions, sasl_authenticate, sasl_handshake
from mirror.wire.incoming import PIECE
from mirror.wire.login import authenticate
from mirror.wire.metadata import BROKERS_MAX, GROUP, HOST_MAX, PARTITIONS_MAX, Described, find_coordinators, metadata
from mirror.wire.offsets import Offset, offset_commit, offset_fetch
from mirror.wire.oidc import Token
from mirror.wire.produce import ALL, Batch, produce
from mirror.wire.requests import BESIDE_MAX, GREETING_MAX, Request
from mirror.wire.transactional import Identity, end_txn, init_producer_id
from mirror.wire.writer import Writer
from tests.harness.recorded import REQUESTS
from tests.unit.wire.test_connection import RECORDED, number, opened, outcomes, received

T = TypeVar("T")

MUCH = 4 * 2**20  # bytes: a thousand times more than the recorded answers have
GREETINGS = (api_versions(), sasl_handshake("PLAIN"), sasl_authenticate(b""))
HUGE = [
    struct.pack(">i", 2**31 - 1),
    b"\xff\xff\xff\xff\x7f",  # the largest number that a length can be
    b"\xff" * 11,  # one that has no end
]
LOOKED_AT = 150  # bytes of each answer: more repeat what is there


def test_no_number_in_an_answer_costs_memory() -> None:
    """Each place of each recorded answer gets numbers that are as large as they can be."""
    tracemalloc.start()
    try:
        for answer in RECORDED:
            for place in range(min(LOOKED_AT, len(answer.data))):
                for each in HUGE:
                    damaged = answer.data[:place] + each + answer.data[place + len(each) :]
                    try:
                        answer.request.decode(answer.version, memoryview(damaged))
                    except WireError:
                        continue
        assert tracemalloc.get_traced_memory()[1] < MUCH
    finally:
        tracemalloc.stop()


@given(st.sampled_from(sorted(REQUESTS)), st.data())
def test_tagged_fields_of_any_kind_are_passed_over_or_refused(name: str, data: st.DataObject) -> None:
    """The header has tagged fields before each answer but that to ApiVersions; here they come in any number."""
    request = REQUESTS[name]
    fields = data.draw(st.lists(st.tuples(st.integers(0, 2**31), st.binary(max_size=9)), max_size=9))
    written = b"".join(varints.write_unsigned(tag) + varints.write_unsigned(len(held)) + held for tag, held in fields)
    count = data.draw(st.sampled_from([len(fields), len(fields) + 1, 2**31, 2**35 - 1]))
    body = next(each for each in RECORDED if each.request is request) if name != "ListOffsets" else RECORDED[0]
    with contextlib.suppress(WireError):
        request.decode(body.version, memoryview(varints.write_unsigned(count) + written + body.data[1:]))


@pytest.mark.parametrize("request_", GREETINGS)
def test_an_answer_before_the_login_is_small(request_: Request[Any]) -> None:
    """Nobody knows yet who answers. It could keep us for an hour, bit by bit, or fill the memory with a challenge."""
    assert request_.answer_max(2**30) == GREETING_MAX < 2**16 - 8

    async def run() -> None:
        async with opened() as (connection, theirs):
            connection.abilities = Abilities({request_.api.key: (0, request_.api.last)})
            waiting = connection.send(request_)
            await received(theirs, 1)
            theirs.send(struct.pack(">i", GREETING_MAX + 1))
            assert [type(each) for each in await outcomes([waiting])] == [Malformed]

    asyncio.run(run())


@pytest.mark.parametrize("request_", GREETINGS)
def test_an_answer_before_the_login_has_its_time_as_a_whole(
    request_: Request[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.2)

    async def run() -> None:
        async with opened() as (connection, theirs):
            connection.abilities = Abilities({request_.api.key: (0, request_.api.last)})
            waiting = connection.send(request_)
            await received(theirs, 1)
            theirs.send(struct.pack(">ii", GREETING_MAX, 1))
            begun = asyncio.get_running_loop().time()
            while not waiting.done() and asyncio.get_running_loop().time() < begun + 5:
                theirs.send(b"x")
                await asyncio.sleep(0.02)
            assert [type(each) for each in await outcomes([waiting])] == [Unanswered]
            assert asyncio.get_running_loop().time() < begun + 5

    asyncio.run(run())


@pytest.mark.parametrize(("beyond", "error"), [(0, Unanswered), (1, Malformed)])
@pytest.mark.parametrize("asked", [2**20, 2**25])
def test_an_answer_with_records_has_what_was_asked_for_or_one_batch(
    asked: int, beyond: int, error: type[WireError]
) -> None:
    """What is larger is refused before it comes, for it is no answer of a broker that librdkafka could read."""

    async def run() -> None:
        async with opened(access({BATCH_MAX: str(2**24)})) as (connection, theirs):
            waiting = connection.send(fetch({}, Limits(0, asked)))
            await received(theirs, 1)
            theirs.send(struct.pack(">ii", max(asked, 2**24) + BESIDE_MAX + beyond, 1))
            theirs.shutdown(socket.SHUT_WR)
            assert [type(each) for each in await outcomes([waiting])] == [error]

    asyncio.run(run())


def test_the_largest_batch_is_librdkafkas() -> None:
    assert access({}).batch_max == 100_000_000
    with pytest.raises(Unsupported, match=f"{BATCH_MAX} is much"):
        access({BATCH_MAX: "much"})


def test_what_trickles_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a large piece of an answer gives the rest more time."""
    monkeypatch.setattr(module, "TIMEOUT", 0.2)

    async def run() -> None:
        async with opened() as (connection, theirs):
            waiting = connection.send(number())
            await received(theirs, 1)
            theirs.send(struct.pack(">ii", 2 * PIECE, 1))
            for _ in range(100):
                if waiting.done():
                    break
                theirs.send(bytes(100))
                await asyncio.sleep(0.02)
            assert [type(each) for each in await outcomes([waiting])] == [Unanswered]

    asyncio.run(run())


def listing(before: bytes, item: bytes, count: int, after: bytes = b"\0\0") -> memoryview:
    """An answer with a list of so many items of one topic. The header, and what follows the list, have no tags."""
    return memoryview(b"\0" + before + varints.write_unsigned(count + 1) + item * count + after)


TOPIC = b"\2" + bytes(16)  # the only one, by its id
FETCHED = struct.pack(">ihqqq", 0, 0, 9, 9, 0) + b"\1" + struct.pack(">i", -1) + b"\1\0"
DESCRIBED = bytes(2) + b"\2t" + bytes(17) + b"\1" + bytes(5)


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (fetch({}, Limits(0, 1)), lambda count: listing(bytes(10) + TOPIC, FETCHED, count)),
        (fetch({}, Limits(0, 1)), lambda count: listing(bytes(10), bytes(16) + b"\2" + FETCHED + b"\0", count, b"\0")),
        (metadata(["t"]), lambda count: listing(bytes(4) + b"\1\0" + bytes(4), DESCRIBED, count, b"\0")),
        (
            find_coordinators(GROUP, ["g"]),
            lambda count: listing(bytes(4), b"\1" + bytes(4) + b"\1" + bytes(5) + b"\x0f" + bytes(2), count, b"\0"),
        ),
        (offset_commit("g", {("t", 0): Offset(0, "")}), lambda count: listing(bytes(4) + b"\2\2t", bytes(7), count)),
        (
            offset_fetch("g", [("t", 0)]),
            lambda count: listing(bytes(4) + b"\2\2g\2\2t", bytes(16) + b"\1" + bytes(3), count, bytes(5)),
        ),
    ],
)
def test_nobody_is_told_more_than_was_asked(request_: Request[Any], answer: Callable[[int], memoryview]) -> None:
    """Reading each of half a million partitions would hold up everything else for seconds."""
    request_.decode(request_.api.last, answer(1))
    many = answer(500_000)
    begun = time.process_time()
    with pytest.raises(Malformed, match="the answer has a list of 500000, and can have"):
        request_.decode(request_.api.last, many)
    assert time.process_time() - begun < 0.2


def decoded(request: Request[T], writer: Writer, version: int) -> T:
    """What becomes of an answer."""
    return request.decode(version, memoryview(b"".join(map(bytes, writer.parts))))[0]


def described(hosts: list[str], numbers: list[int], node: Callable[[int], int] = lambda each: each) -> Described:
    """An answer to Metadata, with these brokers and these partitions of one topic."""

    def broker(writer: Writer, item: tuple[int, str]) -> None:
        writer.pack("i", node(item[0])).string(item[1]).pack("i", 9092).string(None).tags()

    def partition(writer: Writer, each: int) -> None:
        writer.pack("hiii", 0, each, 0, 0)
        for _ in range(3):
            writer.array((), Writer.string)
        writer.tags()

    def topic(writer: Writer, name: str) -> None:
        writer.pack("h", 0).string(name).raw(bytes(16)).pack("b", 0).array(numbers, partition).pack("i", 0).tags()

    writer = Writer(12, True).tags().pack("i", 0).array(list(enumerate(hosts)), broker).string("id").pack("i", 0)
    return decoded(metadata(["t"]), writer.array(("t",), topic).tags(), 12)


def test_metadata_of_a_cluster_that_can_not_be() -> None:
    assert len(described(["a"] * 3, [2, 0, 1]).topics["t"].leaders) == 3
    assert len(described(["a", "b"], [], lambda _: 5).brokers) == 1, "node ids that repeat"
    with pytest.raises(Malformed, match=f"a list of {BROKERS_MAX + 1}"):
        described(["a"] * (BROKERS_MAX + 1), [])
    for each in (-1, PARTITIONS_MAX, 2**31 - 1):
        with pytest.raises(Malformed, match="partition"):
            described(["a"], [each])


@pytest.mark.parametrize("host", ["", "a" * (HOST_MAX + 1), "a\nERROR all is lost", "\x1b[2J", "a b", "\0", "\u202ea"])
def test_no_host_has_such_a_name(host: str) -> None:
    """It is a part of errors and log lines."""

    def coordinator(writer: Writer, name: str) -> None:
        writer.string(name).pack("i", 1).string(host).pack("ih", 9092, 0).string(None).tags()

    with pytest.raises(Malformed):
        described([host], [])
    found = Writer(6, True).tags().pack("i", 0).array(("g",), coordinator).tags()
    with pytest.raises(Malformed):
        decoded(find_coordinators(GROUP, ["g"]), found, 6)


@pytest.mark.parametrize(("producer", "epoch"), [(-1, 0), (0, -1), (-(2**63), -(2**15))])
def test_nobody_gets_in_without_a_number(producer: int, epoch: int) -> None:
    """A batch with the number -1 would be nobody's, and in no transaction."""
    for request in (init_producer_id("t", 1), end_txn(Identity("t", 1, 1), True)):
        with pytest.raises(Malformed, match="producer"):
            decoded(request, Writer(5, True).tags().pack("ihqh", 0, 0, producer, epoch).tags(), 5)
        refused = decoded(request, Writer(5, True).tags().pack("ihqh", 0, 47, producer, epoch).tags(), 5)
        assert refused.error == 47


def test_what_a_broker_says_is_cut_and_can_not_move_a_cursor() -> None:
    """It comes into the log, and into the partition's report."""

    def partition(writer: Writer, said: str) -> None:
        writer.pack("ihqqq", 0, 87, -1, -1, -1).array((), Writer.string).string(said).tags()

    def topic(writer: Writer, said: str) -> None:
        writer.raw(bytes(16)).array((said,), partition).tags()

    writer = Writer(13, True).tags().array(("\x1b[2J\n" + "x" * 2**20,), topic).pack("i", 0).tags()
    ((_, found),) = decoded(
        produce(None, [Batch(TopicKey("t", bytes(16)), 0, memoryview(b""))], ALL), writer, 13
    ).partitions
    assert found.message.startswith("?[2J?xxx") and len(found.message) == 200


@pytest.mark.parametrize(
    "login",
    [
        Login("PLAIN", "user", "hunter2"),
        Login("SCRAM-SHA-256", "user", "hunter2"),
        Login("OAUTHBEARER", "", "", lambda: Token("hunter2", 0.0)),
    ],
    ids=lambda login: login.mechanism,
)
def test_a_broker_that_repeats_a_secret_is_not_quoted(login: Login) -> None:
    """Its words come into the log, the reports and the status page."""

    async def ask(request: Request[Any]) -> Any:
        return (0, []) if request.api.name == "SaslHandshake" else Reply(58, "no: hunter2", b"", 0)

    with pytest.raises(WireError, match="broker refuses the login: SASL_AUTHENTICATION_FAILED") as raised:
        asyncio.run(authenticate(ask, login, "broker"))
    assert "hunter2" not in str(raised.value)
