"""The connections of the HTTP server: how many, for how long, how large a request, and how many pages at once."""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress

import pytest

from mirror.service_settings import Http
from mirror.web import connections as module
from mirror.web import server as server_module
from mirror.web.connections import HEAD_MAX, RENDERED_MAX, Connections, Head
from mirror.web.server import Answer, Request, WebServer, health
from tests.harness.waiting import until
from tests.unit.web.test_guard import PASSWORD, USER, Client, Two, certificates, serve  # noqa: F401  # fixture


def test_one_more_connection_than_the_bound_ends_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that holds all of them keeps out no probe."""
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 2)
    server = serve(Http("127.0.0.1", 0))
    held = [socket.create_connection(("127.0.0.1", server.port), 20) for _ in range(2)]
    try:
        for each in held:
            each.sendall(b"GET /metrics HTTP/1.0\r\n")
        serving = "process_request_thread"
        until("both are held", lambda: sum(serving in each.name for each in threading.enumerate()) >= 2)
        assert Client(server).get("/metrics")[0] == 200
        ended = held[0]
        assert ended.recv(10) == b"", "it was the oldest"
        held[1].sendall(b"\r\n")
        assert b"200" in held[1].recv(100)
    finally:
        for each in held:
            each.close()
        server.stop()


@pytest.mark.parametrize("encrypted", [False, True])
def test_whoever_sends_byte_by_byte_is_ended(
    encrypted: bool,
    certificates: Two,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LASTS_MAX", 0.5)
    files = (str(certificates[0].certificate), str(certificates[0].key)) if encrypted else (None, None)
    server = serve(Http("127.0.0.1", 0, *files))
    # What comes before the end of a request, or of TLS' first message, which has 512 bytes.
    sent = iter(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(400) if encrypted else b"GET /" + b"a" * 400)
    try:
        with socket.create_connection(("127.0.0.1", server.port), 20) as slow:
            slow.settimeout(0.05)

            def is_ended() -> bool:
                try:
                    slow.send(bytes([next(sent)]))
                    return slow.recv(1) == b""
                except TimeoutError:
                    return False
                except OSError:
                    return True

            until("it is ended", is_ended, 20)
    finally:
        server.stop()


def test_a_place_is_free_after_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 1)
    connections = Connections()
    (one, its_client), (other, _) = socket.socketpair(), socket.socketpair()
    connections.admit(one)
    connections.leave(one)
    connections.admit(other)
    one.sendall(b"x")
    assert its_client.recv(1) == b"x", "it was not ended"
    connections.admit(one)
    with pytest.raises(BrokenPipeError):
        other.sendall(b"x")
    for each in (one, its_client, other, _):
        each.close()


Ends = tuple[socket.socket, socket.socket]  # the server's and the client's


@pytest.fixture
def pairs() -> Iterator[list[Ends]]:
    """Connections, of which all turns but one are for the first ones."""
    made = [socket.socketpair() for _ in range(RENDERED_MAX + 2)]
    yield made
    for ends in made:
        for each in ends:
            each.close()


class Maker(threading.Thread):
    """Makes a page, once it has a turn, until `ends` is set."""

    def __init__(self, connections: Connections, connection: socket.socket) -> None:
        super().__init__(daemon=True)
        self.connections, self.connection, self.ends = connections, connection, threading.Event()
        self.has_turn: bool | None = None
        self.start()

    def run(self) -> None:
        with self.connections.turn(self.connection) as self.has_turn:
            if self.has_turn:
                self.ends.wait(20)


def makers(connections: Connections, pairs: list[Ends]) -> list[Maker]:
    """As many as there may be, at work."""
    for server, _ in pairs:
        connections.admit(server)
    made = [Maker(connections, server) for server, _ in pairs[:RENDERED_MAX]]
    until("they have their turns", lambda: all(each.has_turn for each in made))
    return made


def waiting_in(connections: Connections) -> int:
    """How many threads wait for a turn."""
    return len(vars(connections._changed)["_waiters"])


@pytest.mark.parametrize("how", ["one more", "late"])
def test_who_waits_for_a_turn_waits_no_more_once_its_connection_is_ended(
    how: str, pairs: list[Ends], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the bound on connections would be none on threads."""
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 1 if how == "one more" else 64)
    now = [0.0]
    connections = Connections(lambda: now[0])
    connections.admit(pairs[0][0])
    makers_at_work = [Maker(connections, pairs[0][0]) for _ in range(RENDERED_MAX)]
    until("they have their turns", lambda: all(each.has_turn for each in makers_at_work))
    waiting = Maker(connections, pairs[0][0])
    until("it waits", lambda: waiting_in(connections) == 1)
    if how == "one more":
        connections.admit(pairs[1][0])
    else:
        now[0] = module.LASTS_MAX + 1
        connections.end_late()
    waiting.join(10)
    assert not waiting.is_alive() and waiting.has_turn is False
    for each in makers_at_work:
        each.ends.set()


def test_no_page_is_made_for_a_client_that_has_gone(pairs: list[Ends]) -> None:
    connections = Connections()
    at_work = makers(connections, pairs)
    gone, waiting = (Maker(connections, server) for server, _ in pairs[RENDERED_MAX:])
    until("both wait", lambda: waiting_in(connections) == 2)
    pairs[RENDERED_MAX][1].close()
    at_work[0].ends.set()
    until("the other one has the turn", lambda: waiting.has_turn)
    for each in (*at_work, waiting):
        each.ends.set()
    gone.join(10)
    assert gone.has_turn is False


def test_who_ends_its_half_of_a_connection_has_not_gone(pairs: list[Ends]) -> None:
    connections, (server, client) = Connections(), pairs[0]
    connections.admit(server)
    client.shutdown(socket.SHUT_WR)
    with connections.turn(server) as has_turn:
        assert has_turn


def test_threads_have_a_bound_and_end_with_their_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 8)
    made, may_end = list[int](), threading.Event()

    def slow(_: Request) -> Answer:
        made.append(1)
        assert may_end.wait(20)
        return Answer("text/plain", b"1\n")

    def threads() -> int:
        return sum("process_request_thread" in each.name for each in threading.enumerate()) - before

    before = 0
    before = threads()
    server = WebServer(Http("127.0.0.1", 0), {"/metrics": slow, "/readyz": health(lambda: [])})
    try:
        for _ in range(40):
            with socket.create_connection(("127.0.0.1", server.port), 20) as client:
                client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert Client(server).get("/readyz") == (200, "ok\n"), "all have been accepted before"
        until("few are left", lambda: threads() <= 8 + RENDERED_MAX, 10)
        may_end.set()
        until("none is left", lambda: threads() == 0, 10)
        assert len(made) <= RENDERED_MAX
    finally:
        may_end.set()
        server.stop()


def test_who_reads_slowly_gets_the_whole_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece has the time that a socket has for a call, not all pieces together."""
    monkeypatch.setattr(server_module._Handler, "timeout", 1.5)
    body, got, begun = b"x" * 16_000_000, 0, time.monotonic()
    server = WebServer(Http("127.0.0.1", 0), {"/big": lambda _: Answer("text/plain", body)})
    try:
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            slow.settimeout(20)
            slow.connect(("127.0.0.1", server.port))
            slow.sendall(b"GET /big HTTP/1.0\r\n\r\n")
            while found := slow.recv(65_536):
                got += len(found)
                time.sleep(0.012 * len(found) / 65_536)
        assert got > len(body) and time.monotonic() - begun > 2.5
    finally:
        server.stop()


def test_head_is_answered_like_get_without_the_body() -> None:
    server = serve(Http("127.0.0.1", 0, username=USER, password=PASSWORD), ["a problem"])

    def ask(method: str, path: str) -> tuple[int, str | None, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        connection.request(method, path)
        with connection.getresponse() as answer:
            return answer.status, answer.getheader("Content-Length"), answer.read()

    try:
        for path, status in (("/readyz", 503), ("/metrics", 401)):
            found, length, body = ask("GET", path)
            assert (found, length) == (status, str(len(body))) and body
            assert ask("HEAD", path) == (status, length, b"")
    finally:
        server.stop()


def head_of(size: int) -> bytes:
    """A request's first line and headers, of which one is filled up; as long as `size`."""
    begin, end = b"GET /metrics HTTP/1.1\r\nX: ", b"\r\n\r\n"
    return begin + b"a" * (size - len(begin) - len(end)) + end


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize(("more", "status"), [(0, b"200"), (1, b"431")])
def test_a_request_may_have_so_many_bytes(
    more: int,
    status: bytes,
    encrypted: bool,
    certificates: Two,  # noqa: F811
) -> None:
    files = (str(certificates[0].certificate), str(certificates[0].key)) if encrypted else (None, None)
    server = serve(Http("127.0.0.1", 0, *files))
    try:
        with socket.create_connection(("127.0.0.1", server.port), 20) as plain:
            connection = plain
            if encrypted:
                context = ssl.create_default_context(cafile=certificates[0].certificate)
                connection = context.wrap_socket(plain, server_hostname="127.0.0.1")
            # Nothing that the server does not read, for which it would reset the connection before the answer is here.
            connection.sendall(head_of(HEAD_MAX + more)[:HEAD_MAX])
            assert connection.recv(100).split(b" ")[1] == status
    finally:
        server.stop()


def test_large_headers_cost_little_memory() -> None:
    """http.server alone takes them all, and needs 265 MB: each carriage return begins a line."""
    server = serve(Http("127.0.0.1", 0, username=USER, password=PASSWORD))
    large = b"GET /metrics HTTP/1.1\r\n" + (b"X: " + b"a\r" * 32_700 + b"\n") * 98 + b"\r\n"
    tracemalloc.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port), 60) as connection, suppress(OSError):
            connection.sendall(large)
            connection.recv(100)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
        server.stop()


def test_each_request_of_a_connection_has_the_whole_bound() -> None:
    stream = io.BytesIO(head_of(HEAD_MAX) * 2)
    head = Head(stream)
    for _ in range(2):
        head.begin()
        assert len(b"".join(head.readline(65537) for _ in range(3))) == HEAD_MAX
        with pytest.raises(http.client.HTTPException):
            head.readline(65537)
    head.close()
    assert stream.closed


def test_a_few_pages_are_made_at_once_and_no_probe_waits_for_them() -> None:
    begun, may_end = [], threading.Event()

    def slow(_: Request) -> Answer:
        begun.append(threading.current_thread())
        assert may_end.wait(20)
        return Answer("text/plain", b"1\n")

    server = WebServer(Http("127.0.0.1", 0), {"/metrics": slow, "/readyz": health(lambda: [])})
    asking = [socket.create_connection(("127.0.0.1", server.port), 20) for _ in range(RENDERED_MAX + 1)]
    try:
        for each in asking:
            each.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        until("as many as may be", lambda: len(begun) >= RENDERED_MAX)
        assert Client(server).get("/readyz") == (200, "ok\n"), "the last page's thread had begun before this one's"
        assert len(begun) == RENDERED_MAX
        may_end.set()
        for each in asking:
            assert b"200" in each.recv(100)
    finally:
        may_end.set()
        for each in asking:
            each.close()
        server.stop()
