"""Kafka's protocol: answers of brokers are checked before they are used, and no call waits for ever."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import struct
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.batches.records import Content, encode
from mirror.commands.verify import record_reader
from mirror.commands.verify.digests import Digester, Stretch
from mirror.commands.verify.record_reader import OldFormat, RecordReader, obstacle
from mirror.errors import Malformed, MirrorError, Unavailable, WireError
from mirror.settings import Cluster
from mirror.wire import connection
from mirror.wire.access import access
from mirror.wire.auth import Login, plain, scram
from mirror.wire.connection import Connection
from mirror.wire.fetch import Limits, fetch
from mirror.wire.greeting import api_versions
from mirror.wire.metadata import metadata
from tests.harness import batches, fake_broker
from tests.harness.fake_broker import FETCH, METADATA, FakeBroker

TOPIC = "topic"


def log(first: int, count: int) -> bytes:
    return batches.batch([(n, n, Content(b"%d" % n, None, ())) for n in range(first, first + count)])


def serve(broker: FakeBroker, fetch: Callable[[int], bytes]) -> None:
    """Make the broker lead the topic; `fetch` gives the answer for an offset."""

    def answers(api: int, body: bytes) -> bytes:
        if api == METADATA:
            return fake_broker.metadata(TOPIC, 1, {1: broker.port})
        return fetch(fake_broker.position(body))

    broker.answers = answers


def read(broker: FakeBroker, start: int = 0, stop: int = 10) -> list[int]:
    return [offset for offset, _, _ in RecordReader(broker.properties).read(TOPIC, 0, start, stop)]


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker() as running:
        yield running


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "TIMEOUT", 0.3)
    monkeypatch.setattr(record_reader, "TIMEOUT", 1.0)


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.mechanisms": "OAUTHBEARER"}, "sasl.oauthbearer.method is not oidc"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "sasl.mechanisms is GSSAPI"),
        ({"security.protocol": "ssl", "ssl.keystore.location": "a.p12"}, "ssl.keystore.location is set"),
        ({"security.protocol": "ssl", "ssl.key.pem": "text"}, "ssl.key.pem is set"),
        ({"security.protocol": "ssl", "ssl.ca.location": "/nowhere"}, "the certificates or the key can't be used"),
        ({"client.dns.lookup": "resolve_canonical_bootstrap_servers_only"}, "client.dns.lookup is set"),
        ({"broker.address.family": "v7"}, "broker.address.family is v7"),
        ({"bootstrap.servers": "a:b:c"}, "bootstrap.servers has a:b:c"),
        ({"bootstrap.servers": "127.0.0.1:65537"}, "bootstrap.servers has 127.0.0.1:65537"),
    ],
)
def test_properties_that_only_librdkafka_supports_are_refused(properties: dict[str, str], reason: str) -> None:
    assert (obstacle({"bootstrap.servers": "127.0.0.1:1", **properties}) or "").startswith(reason)


def test_properties_have_librdkafkas_meaning() -> None:
    found = access({"bootstrap.servers": "a, SSL://b:1,[::1]:2", "ssl.key.pem": "not used", "linger.ms": "5"})
    assert found.servers == (("a", 9092), ("b", 1), ("::1", 2))
    assert (found.tls, found.login, found.client) == (None, None, "mirror")
    secure = {"bootstrap.servers": "a", "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
    secret = access({**secure, "sasl.username": "user", "sasl.password": "hunter2"})
    assert secret.login == Login("SCRAM-SHA-512", "user", "hunter2") and "hunter2" not in repr(secret)
    checks = [("true", "https", True, ssl.CERT_REQUIRED), ("true", "none", False, ssl.CERT_REQUIRED)]
    checks += [("yes", "https", True, ssl.CERT_REQUIRED), ("False", "https", False, ssl.CERT_NONE)]
    for verification, name, hostname, mode in checks:
        given_ = {"enable.ssl.certificate.verification": verification, "ssl.endpoint.identification.algorithm": name}
        tls = access({**secure, **given_}).tls
        assert tls and (tls.check_hostname, tls.verify_mode) == (hostname, mode)


def test_plain() -> None:
    assert next(plain("user", "pencil")) == b"\0user\0pencil"


FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SIGNATURE = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_scram_as_in_rfc_7677() -> None:
    exchange = scram("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert next(exchange) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.send(FIRST).endswith(b",p=" + PROOF)
    with pytest.raises(StopIteration):
        exchange.send(SIGNATURE)


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([b""], "can't be read"),
        ([b"r=other,s=W22Z,i=4096"], "not for us"),
        ([FIRST.replace(b"4096", b"99999999999")], "99999999999 iterations"),
        ([FIRST.replace(b"4096", b"1")], "1 iterations"),
        ([FIRST.replace(b"W22Z", b"\xff\xfe\xfd")], "can't be read"),
        ([FIRST, b"v=" + base64.b64encode(bytes(32))], "does not prove"),
        ([FIRST, b"e=other-error"], "does not prove"),
    ],
)
def test_a_broker_without_the_password_gets_nothing(answers: list[bytes], reason: str) -> None:
    exchange = scram("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    next(exchange)
    with pytest.raises(WireError, match=reason):
        for answer in answers:
            exchange.send(answer)


@given(st.one_of(st.binary(max_size=60), st.binary(max_size=9).map(lambda noise: FIRST[:30] + noise + FIRST[30:])))
def test_any_challenge_is_answered_or_refused(challenge: bytes) -> None:
    exchange = scram("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    next(exchange)
    with contextlib.suppress(WireError):
        assert exchange.send(challenge).startswith(b"c=biws,r=rOprNGfwEbeRWgbNEkqO")


@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=8), st.booleans())
def test_invalid_answers_are_refused(at: int, nonsense: bytes, cut: bool) -> None:
    """The result is an error of ours, or another valid answer, whatever the counts and lengths are."""
    for answer, request, version in (
        (fake_broker.fetched(TOPIC, b"records"), fetch({}, Limits(0, 1)), 11),
        (fake_broker.metadata(TOPIC, 1, {1: 9092, 2: 9093}), metadata([TOPIC]), 8),
        (fake_broker.versions(), api_versions(), 0),
    ):
        place = at % len(answer)
        damaged = answer[:place] if cut else answer[:place] + nonsense + answer[place + len(nonsense) :]
        with contextlib.suppress(WireError):
            request.decode(version, memoryview(damaged))


@pytest.mark.usefixtures("impatient")
def test_a_broker_that_does_not_wait_for_records_is_asked_rarely(broker: FakeBroker) -> None:
    serve(broker, lambda offset: fake_broker.fetched(TOPIC, b""))
    with pytest.raises(WireError, match="no records come"):
        read(broker)
    assert broker.count(FETCH) <= 4


def test_records_are_read_to_the_end(broker: FakeBroker) -> None:
    serve(broker, lambda offset: fake_broker.fetched(TOPIC, log(offset // 4 * 4, 4)))
    assert read(broker, 2, 10) == list(range(2, 10))
    assert broker.count(METADATA) == 1 and broker.count(FETCH) == 3


def test_a_reader_that_stopped_half_way_reads_again(broker: FakeBroker) -> None:
    """The answer that was on its way is not mistaken for the next one."""
    serve(broker, lambda offset: fake_broker.fetched(TOPIC, log(offset, 4)))
    reader = RecordReader(broker.properties)
    assert next(reader.read(TOPIC, 0, 0, 100))[0] == 0
    assert [offset for offset, _, _ in reader.read(TOPIC, 0, 50, 54)] == [50, 51, 52, 53]


def test_it_follows_the_leader(broker: FakeBroker) -> None:
    with FakeBroker() as other:
        leader = [1]

        def answers(node: int) -> Callable[[int, bytes], bytes]:
            def answer(api: int, body: bytes) -> bytes:
                if api == METADATA:
                    return fake_broker.metadata(TOPIC, leader[0], {1: broker.port, 2: other.port})
                offset = fake_broker.position(body)
                if offset >= 4:
                    leader[0] = 2
                return fake_broker.fetched(TOPIC, *((log(offset, 4),) if node == leader[0] else (b"", 6)))

            return answer

        broker.answers, other.answers = answers(1), answers(2)
        assert read(broker) == list(range(10))
        assert other.count(FETCH) == 2


def test_it_connects_again_after_the_connection_was_closed(broker: FakeBroker) -> None:
    """Brokers close connections that are idle."""
    serve(broker, lambda offset: fake_broker.fetched(TOPIC, log(offset, 4)))
    reader = RecordReader(broker.properties)
    assert len(list(reader.read(TOPIC, 0, 0, 4))) == 4
    broker.disconnect()
    assert len(list(reader.read(TOPIC, 0, 0, 4))) == 4


@pytest.mark.usefixtures("impatient")
def test_a_leader_that_hangs_is_left(broker: FakeBroker) -> None:
    with FakeBroker() as other:

        def answer(api: int, body: bytes) -> bytes:
            if api == METADATA:
                leader = 2 if broker.count(FETCH) > 1 else 1
                return fake_broker.metadata(TOPIC, leader, {1: broker.port, 2: other.port})
            return fake_broker.fetched(TOPIC, log(fake_broker.position(body), 4))

        broker.answers = lambda api, body: b"" if broker.count(FETCH) > 1 else answer(api, body)
        other.answers = answer
        both = {"bootstrap.servers": f"127.0.0.1:{broker.port},127.0.0.1:{other.port}"}
        assert [offset for offset, _, _ in RecordReader(both).read(TOPIC, 0, 0, 8)] == list(range(8))


@pytest.mark.parametrize("host", ["", "\0", "a" * 300, "é" * 100])
@pytest.mark.usefixtures("impatient")
def test_an_invalid_address_is_refused(broker: FakeBroker, host: str) -> None:
    broker.answers = lambda _, __: fake_broker.metadata(TOPIC, 1, {1: 1}, host)
    with pytest.raises(WireError):
        read(broker)


def test_a_quota_is_kept(broker: FakeBroker) -> None:
    serve(broker, lambda offset: fake_broker.fetched(TOPIC, log(offset, 4), throttle=400))
    assert read(broker, stop=8) == list(range(8))
    first, second = [request.at for request in broker.requests if request.api == FETCH]
    assert second - first >= 0.4


@pytest.mark.parametrize(
    ("answer", "error", "reason"),
    [
        (fake_broker.fetched(TOPIC, log(0, 4)), Malformed, "no batch with offset 4"),  # again and again the same
        (fake_broker.fetched(TOPIC, log(0, 4)[:-1]), Malformed, "no batch with offset 0"),
        (
            fake_broker.fetched(TOPIC, log(0, 4) + batches.message(0, 1, b"", b"")),
            Malformed,
            "offset 0 comes after offset 3",
        ),
        (fake_broker.fetched("other", log(0, 4)), Malformed, "does not have that partition"),
        (fake_broker.fetched(TOPIC, b"x" * 100), Malformed, "no record batch"),
        (fake_broker.fetched(TOPIC, b"", 29), WireError, "TOPIC_AUTHORIZATION_FAILED"),
        (fake_broker.fetched(TOPIC, b""), WireError, "within 1.0 s: no records come"),
        (fake_broker.fetched(TOPIC, b"", 6), WireError, "within 1.0 s: NOT_LEADER_OR_FOLLOWER"),
        (b"", WireError, "does not answer: timed out"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
@pytest.mark.usefixtures("impatient")
def test_the_error_says_what_prevents_reading(
    broker: FakeBroker, answer: bytes, error: type[WireError], reason: str
) -> None:
    serve(broker, lambda _: answer)
    begun = time.monotonic()
    with pytest.raises(error, match=reason):
        read(broker)
    assert time.monotonic() - begun < 10


def test_deleted_records_raise_the_usual_error(broker: FakeBroker) -> None:
    serve(broker, lambda _: fake_broker.fetched(TOPIC, b"", 1))
    digester = Digester({"a": Cluster("a", broker.properties, {}, {})})
    with pytest.raises(MirrorError, match="topic-0 on a: records were removed meanwhile"):
        digester.chunks(Stretch("a", TOPIC, 0, 0, 10, 10, True))


def test_old_formats_are_reported_with_their_end(broker: FakeBroker) -> None:
    old = b"".join(batches.message(n, 1, b"", b"") for n in range(4, 7))
    serve(broker, lambda offset: fake_broker.fetched(TOPIC, log(0, 4) + old + log(7, 4) if offset < 4 else old))
    found = []
    with pytest.raises(OldFormat) as stopped:
        for offset, _, content in RecordReader(broker.properties).read(TOPIC, 0, 0, 11):
            found.append((offset, content))
    assert found == [(n, encode(Content(b"%d" % n, None, ()))) for n in range(4)]
    assert (stopped.value.first, stopped.value.last) == (4, 6)


@pytest.mark.parametrize(
    ("answer", "error", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Malformed, "is it a Kafka broker"),
        (struct.pack(">ii", 2**14, 1), Unavailable, "timed out"),  # and nothing follows
        (struct.pack(">ii", 2**30, 1), Malformed, "is it a Kafka broker"),
        (struct.pack(">ii", 14, 99) + b"x" * 10, Malformed, "a request that was not sent"),
        (struct.pack(">iihi", 10, 1, 0, 2**31 - 1), Malformed, "ends before its 126 items"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
@pytest.mark.usefixtures("impatient")
def test_something_that_is_not_a_broker_is_refused(answer: bytes, error: type[WireError], reason: str) -> None:
    with FakeBroker(greeting=answer) as broker, pytest.raises(error, match=reason):
        asyncio.run(Connection.open(("127.0.0.1", broker.port), access(broker.properties)))


def test_a_broker_that_is_too_old_is_an_obstacle(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fake_broker.VERSIONS, FETCH, (0, 10))
    assert obstacle(broker.properties) == "Fetch needs version 11 to 17: the broker has versions 0 to 10"
