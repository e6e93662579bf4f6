"""Tokens from an OIDC server: what it may answer, and what becomes of the client's secret."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import Unavailable, Unsupported, WireError
from mirror.wire import oidc
from mirror.wire.access import access
from mirror.wire.auth import Login, bearer
from mirror.wire.oidc import Token
from tests.harness.waiting import until

SECRET = "hunter2"


class Server:
    """Answers each request with a status and a body, and keeps what was asked."""

    def __init__(self) -> None:
        self.status, self.body, self.location = 200, b'{"access_token": "token", "expires_in": 60}', ""
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                outer.asked.append(base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode())
                self.send_response(outer.status)
                if outer.location:
                    self.send_header("Location", outer.location)
                self.send_header("Content-Length", str(len(outer.body)))
                self.end_headers()
                self.wfile.write(outer.body)

            def do_GET(self) -> None:
                outer.asked.append(f"GET {self.headers.get('Authorization')}")
                self.send_error(404)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/token"

    def login(self, **more: str) -> Login:
        """A login whose properties name this server; `more` adds to them."""
        properties = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": SECRET,
            "sasl.oauthbearer.token.endpoint.url": self.url,
            **{name: str(Path(__file__).parent) for name in ("ssl.ca.location", "https.ca.location")},  # quicker
            **more,
        }
        found = access(properties).login
        assert found is not None and SECRET not in repr(access(properties))
        return found


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    thread = threading.Thread(target=running.http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield running
    running.http.shutdown()
    running.http.server_close()
    thread.join()


def first_message(login: Login) -> bytes:
    return next(login.exchange())


def test_a_token_is_used_until_most_of_its_life_is_over(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    login = server.login(**{"sasl.oauthbearer.extensions": "logicalCluster=lkc-1,pool=2"})
    expected = b"n,,\x01auth=Bearer token\x01logicalCluster=lkc-1\x01pool=2\x01\x01"
    assert [first_message(login) for _ in range(3)] == [expected] * 3
    assert server.asked == [f"me:{SECRET}"]
    monkeypatch.setattr(oidc, "RENEWED_AFTER", 0.0)
    login = server.login()
    assert [first_message(login) for _ in range(2)] and len(server.asked) == 3


@pytest.mark.parametrize(
    ("status", "body", "error", "reason"),
    [
        (200, b"", WireError, "has no access_token"),
        (200, b"[]", WireError, "has no access_token"),
        (200, b"[" * 10**5, WireError, "has no access_token"),
        (200, b'{"access_token": "a"}' + b" " * 2**20, WireError, "has no access_token"),
        (200, b'{"access_token": 1}', WireError, "can't be used"),
        (200, b'{"access_token": "a\\u0001b"}', WireError, "can't be used"),
        (200, b'{"access_token": "a", "expires_in": -1}', WireError, "can't be used"),
        (200, b'{"access_token": "a", "expires_in": "soon"}', WireError, "has no access_token"),
        (200, b'{"access_token": "a", "expires_in": NaN}', WireError, "can't be used"),
        (401, b"hunter2", WireError, "answers with 401"),
        (503, b"", Unavailable, "answers with 503"),
        (429, b"", Unavailable, "answers with 429"),
    ],
)
def test_what_a_server_may_answer(
    server: Server, status: int, body: bytes, error: type[WireError], reason: str
) -> None:
    server.status, server.body = status, body
    with pytest.raises(error, match=reason) as raised:
        server.login().exchange()
    assert type(raised.value) is error and SECRET not in str(raised.value)


def test_the_secret_goes_to_nobody_else(server: Server) -> None:
    server.status, server.location = 302, server.url
    with pytest.raises(WireError, match="answers with 302"):
        server.login().exchange()
    assert server.asked == [f"me:{SECRET}"]


def test_a_token_is_used_to_its_end_while_the_server_is_away(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old token is not used any more once the server has refused another one."""
    monkeypatch.setattr(oidc, "RENEWED_AFTER", 0.0)
    login = server.login()
    assert b"Bearer token" in first_message(login)
    server.status = 503
    assert b"Bearer token" in first_message(login) and len(server.asked) == 2
    server.status = 401
    with pytest.raises(WireError, match="answers with 401"):
        login.exchange()
    server.status, server.body = 200, b'{"access_token": "token", "expires_in": 0.000001}'
    assert b"Bearer token" in first_message(login)
    server.status = 503
    with pytest.raises(Unavailable, match="answers with 503"):
        login.exchange()


def test_a_valid_token_is_not_held_up_by_a_newer_one(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """All requests of a connection wait while it logs in again."""
    answer, original = threading.Event(), oidc.Oidc._fetched
    monkeypatch.setattr(oidc, "RENEWED_AFTER", 0.0)
    monkeypatch.setattr(oidc, "RENEWED_WITHIN", 0.1)
    login = server.login()
    assert b"Bearer token" in first_message(login)

    def fetched(self: oidc.Oidc) -> Token:
        assert answer.wait(20)
        return original(self)

    monkeypatch.setattr(oidc.Oidc, "_fetched", fetched)
    server.body = b'{"access_token": "newer", "expires_in": 60}'
    assert b"Bearer token" in first_message(login), "ANSWERED_WITHIN has not passed"
    assert len(server.asked) == 1
    answer.set()
    until("the newer one", lambda: b"Bearer newer" in first_message(login))


def test_a_token_is_fetched_once_there_are_threads_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    login = server.login()
    with monkeypatch.context() as patched:

        def no_thread(_: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        patched.setattr(threading.Thread, "start", no_thread)
        for _ in range(2):
            with pytest.raises(Unavailable, match="can't start new thread"):
                login.exchange()
    assert b"Bearer token" in first_message(login)
    monkeypatch.setattr(oidc, "RENEWED_AFTER", 0.0)
    login = server.login()
    assert b"Bearer token" in first_message(login)
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    assert b"Bearer token" in first_message(login), "it is valid"


@pytest.mark.parametrize("url", ["http://[", "http://127.0.0.1:hunter2/"])
def test_a_url_that_is_none(server: Server, url: str) -> None:
    with pytest.raises(WireError, match=r"can't be used \(") as raised:
        server.login(**{"sasl.oauthbearer.token.endpoint.url": url}).exchange()
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("said", [b"SSH-2.0-hunter2\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", b""])
def test_something_that_is_no_token_server(server: Server, said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            accepted, _ = listener.accept()
            with accepted:
                accepted.recv(2**16)
                accepted.sendall(said)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(WireError) as raised:
            server.login(**{"sasl.oauthbearer.token.endpoint.url": url}).exchange()
        assert SECRET not in str(raised.value)
        thread.join()


def test_an_answer_that_has_no_end_is_not_waited_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one request, however often a token is asked for, and its token counts when it comes after all."""
    monkeypatch.setattr(oidc, "ANSWERED_WITHIN", 0.1)
    answer, asked = threading.Event(), threading.Semaphore(0)
    original = oidc.Oidc._fetched

    def fetched(self: oidc.Oidc) -> Token:
        asked.release()
        answer.wait(20)
        return original(self)

    monkeypatch.setattr(oidc.Oidc, "_fetched", fetched)
    login = server.login()
    for _ in range(3):
        with pytest.raises(Unavailable, match="timed out"):
            login.exchange()
    assert asked.acquire(blocking=False) and not asked.acquire(blocking=False)
    monkeypatch.setattr(oidc, "ANSWERED_WITHIN", 20.0)
    answer.set()
    assert b"Bearer token" in first_message(login) and server.asked == [f"me:{SECRET}"]


ENDLESS = {
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X: x\r\n"),
    "continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "line": (b"", b"H"),
    "body": (b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", b"x"),
    "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
}


@pytest.mark.parametrize("how", ENDLESS)
def test_a_server_whose_answer_has_no_end_is_left(how: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something comes all the time, so no time-out of the socket helps. Nobody gets that connection again."""
    monkeypatch.setattr(oidc, "ANSWERED_WITHIN", 0.4)
    begin, more = ENDLESS[how]
    left = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            accepted, _ = listener.accept()
            with accepted:
                accepted.recv(2**16)
                try:
                    accepted.sendall(begin)
                    while not left.wait(0.02):
                        accepted.sendall(more)
                except OSError:
                    left.set()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        login = server.login(
            **{"sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{listener.getsockname()[1]}/"}
        )
        with pytest.raises(WireError) as raised:
            login.exchange()
        assert SECRET not in str(raised.value)
        try:
            assert left.wait(10), "the connection is closed"
            until("the thread has ended", lambda: "fetch a token" not in {each.name for each in threading.enumerate()})
        finally:
            left.set()
            thread.join()


@pytest.mark.parametrize("answers", [True, False])
def test_nothing_is_left_of_a_request_that_has_ended(
    answers: bool, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No thread, and no connection, whether the server has answered or hangs."""
    if not answers:
        monkeypatch.setattr(oidc, "TIMEOUT", 0.2)
    before = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = server.url if answers else f"http://127.0.0.1:{listener.getsockname()[1]}/"
        login = server.login(**{"sasl.oauthbearer.token.endpoint.url": url})
        if answers:
            assert b"Bearer token" in first_message(login)
        else:
            with pytest.raises(Unavailable, match="does not answer"):
                login.exchange()
            accepted, _ = listener.accept()
            with accepted:
                accepted.settimeout(oidc.ANSWERED_WITHIN / 2)
                while accepted.recv(2**16):
                    pass
    until("no thread is left", lambda: set(threading.enumerate()) <= before, oidc.ANSWERED_WITHIN / 2)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["access_token", "expires_in"]), inner, max_size=2)
    ),
    max_leaves=5,
)


@given(st.one_of(st.binary(max_size=40), JSON.map(lambda found: json.dumps(found).encode())))
def test_any_answer_is_a_token_or_refused(body: bytes) -> None:
    try:
        value, life = oidc._decoded(body)
    except WireError:
        return
    assert value.isprintable() and value.isascii() and 0 < life < 2**31


def test_a_server_that_is_away(server: Server) -> None:
    with pytest.raises(Unavailable, match="does not answer"):
        server.login(**{"sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/"}).exchange()


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"sasl.oauthbearer.method": "default"}, "sasl.oauthbearer.method is not oidc"),
        ({"sasl.oauthbearer.grant.type": "jwt-bearer"}, "sasl.oauthbearer.grant.type is set"),
        ({"enable.sasl.oauthbearer.unsecure.jwt": "true"}, "enable.sasl.oauthbearer.unsecure.jwt is set"),
        ({"sasl.oauthbearer.client.secret": ""}, "OAUTHBEARER needs"),
        ({"sasl.oauthbearer.token.endpoint.url": "file:///etc/passwd"}, "OAUTHBEARER needs"),
        ({"sasl.oauthbearer.token.endpoint.url": "token.example/token"}, "OAUTHBEARER needs"),
        ({"https.ca.location": "/nowhere"}, "the certificates or the key can't be used"),
    ],
)
def test_what_only_librdkafka_has(server: Server, properties: dict[str, str], reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        server.login(**properties)


def test_tokens_of_the_caller() -> None:
    known: dict[str, Any] = {"security.protocol": "sasl_ssl", "sasl.mechanisms": "OAUTHBEARER"}
    login = access(known, lambda: Token("mine", 0.0)).login
    assert login is not None and first_message(login) == b"n,,\x01auth=Bearer mine\x01\x01"


def test_a_broker_that_refuses_a_token_is_asked_why() -> None:
    exchange = bearer(Token("token", 0.0))
    next(exchange)
    assert exchange.send(b'{"status":"invalid_token"}') == b"\x01"
    accepted = bearer(Token("token", 0.0))
    next(accepted)
    with pytest.raises(StopIteration):
        accepted.send(b"")
