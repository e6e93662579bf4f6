"""Who may ask the HTTP server: TLS, the password, bounds on connections."""

from __future__ import annotations

import base64
import http.client
import io
import logging
import socket
import ssl
import threading
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest

from mirror.errors import SetupError
from mirror.service_settings import Http
from mirror.web import guard
from mirror.web.guard import HEAD_MAX, Connections, Guard, Head
from mirror.web.server import ALL, RENDERED_MAX, Answer, Request, WebServer, health
from tests.harness.certificates import Certificate, self_signed
from tests.harness.waiting import until

USER, PASSWORD = "scraper", "xq7-Hunter"
Two = tuple[Certificate, Certificate]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Two:
    directory = tmp_path_factory.mktemp("certificates")
    return self_signed(directory, "first"), self_signed(directory, "second")


class Client:
    """Asks a server, over TLS if it is given whom to believe."""

    def __init__(self, server: WebServer, believed: Path | None = None) -> None:
        self.port, self.believed = server.port, believed

    def get(self, path: str, user: str | None = None, password: str = "") -> tuple[int, str]:
        """Status and body."""
        connection: http.client.HTTPConnection
        if self.believed is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        else:
            context = ssl.create_default_context(cafile=self.believed)
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=20, context=context)
        basic = base64.b64encode(f"{user}:{password}".encode()).decode()
        connection.request("GET", path, headers={} if user is None else {"Authorization": f"Basic {basic}"})
        answer = connection.getresponse()
        found = answer.status, answer.read().decode()
        connection.close()
        return found


def serve(settings: Http, problems: list[str] | None = None) -> WebServer:
    routes = {"/readyz": health(lambda: problems or []), "/metrics": lambda _: Answer("text/plain", b"1\n")}
    return WebServer(settings, routes)


def test_only_who_knows_the_password_gets_an_answer() -> None:
    server = serve(Http("127.0.0.1", 0, username=USER, password=PASSWORD), ["orders-0 blocked: a reason"])
    try:
        client = Client(server)
        assert client.get("/metrics", USER, PASSWORD) == (200, "1\n")
        for who in ((None, ""), (USER, ""), (USER, PASSWORD + "x"), ("else", PASSWORD), ("", PASSWORD), ("ü", "ü")):
            assert client.get("/metrics", *who)[0] == 401, who
            assert client.get("/nothing", *who)[0] == 401, "nobody learns which pages there are"
            status, body = client.get("/readyz", *who)
            assert status == 503 and "orders" not in body, "a probe needs no password, and gets no reason"
        assert client.get("/readyz", USER, PASSWORD) == (503, "orders-0 blocked: a reason\n")
    finally:
        server.stop()


def families_that_answer(server: WebServer) -> list[str]:
    found = []
    for host in ("127.0.0.1", "::1"):
        connection = http.client.HTTPConnection(host, server.port, timeout=20)
        with suppress(ConnectionRefusedError):
            connection.request("GET", "/metrics")
            assert connection.getresponse().status == 200
            found.append(host)
        connection.close()
    return found


def test_all_addresses_are_those_of_ipv4_too() -> None:
    server = serve(Http(ALL, 0))
    try:
        assert families_that_answer(server) == ["127.0.0.1", *["::1"] * socket.has_dualstack_ipv6()]
    finally:
        server.stop()


def test_without_ipv6_all_addresses_are_ipv4s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    server = serve(Http(ALL, 0))
    try:
        assert families_that_answer(server) == ["127.0.0.1"]
    finally:
        server.stop()


@pytest.mark.parametrize("header", ["Basic", "Basic !!!", "Bearer eA==", "Basic /w==", "", "Basic eA=="])
def test_what_is_no_login_is_refused(header: str) -> None:
    assert not Guard(Http("localhost", 0, username=USER, password=PASSWORD)).admits(header)
    assert Guard(Http("localhost", 0)).admits(header)


def answers(server: WebServer, certificate: Path, user: str, password: str) -> int:
    """The status of an answer; 0 if the server shows another certificate."""
    try:
        return Client(server, certificate).get("/metrics", user, password)[0]
    except ssl.SSLError:
        return 0


def test_a_changed_certificate_and_password_are_read_again(
    certificates: Two, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "LOOK_INTERVAL", 0.0)
    first, second = certificates
    certificate, key, user, password = (tmp_path / name for name in ("certificate", "key", "user", "password"))
    certificate.write_bytes(first.certificate.read_bytes())
    key.write_bytes(first.key.read_bytes())
    user.write_text(USER)
    password.write_text(PASSWORD + "\n")
    server = serve(Http("127.0.0.1", 0, str(certificate), str(key), USER, PASSWORD, str(user), str(password)))
    try:
        assert Client(server, first.certificate).get("/metrics", USER, PASSWORD)[0] == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            Client(server, second.certificate).get("/metrics", USER, PASSWORD)
        with caplog.at_level(logging.WARNING):
            certificate.write_bytes(second.certificate.read_bytes())  # not the key yet
            until("said", lambda: [each for each in caplog.records if "can't be used" in each.message])
        assert Client(server, first.certificate).get("/metrics", USER, PASSWORD)[0] == 200, "the old pair goes on"
        password.write_text("another\n")
        login = first.certificate, USER, "another"
        until("a password waits for no key", lambda: answers(server, *login) == 200)
        assert answers(server, first.certificate, USER, PASSWORD) == 401
        key.write_bytes(second.key.read_bytes())
        user.write_text("other")
        until("the new ones", lambda: answers(server, second.certificate, "other", "another") == 200)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            password.write_text("\n")
            until("said", lambda: "empty" in "".join(str(vars(each).get("reason")) for each in caplog.records))
            caplog.clear()
            password.write_text("another\0one")
            until("said", lambda: "NUL" in "".join(str(vars(each).get("reason")) for each in caplog.records))
        assert answers(server, second.certificate, "other", "") == 401, "an empty file is no password"
        assert answers(server, second.certificate, "other", "another") == 200
        assert PASSWORD not in caplog.text and "another" not in caplog.text
    finally:
        server.stop()


def test_a_client_without_tls_does_no_harm(certificates: Two) -> None:
    server = serve(Http("127.0.0.1", 0, str(certificates[0].certificate), str(certificates[0].key)))
    try:
        with socket.create_connection(("127.0.0.1", server.port), 20) as plain:
            plain.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            with suppress(OSError):  # the server may have closed the connection already
                plain.shutdown(socket.SHUT_WR)
                assert b"200" not in plain.recv(100)
        assert Client(server, certificates[0].certificate).get("/metrics") == (200, "1\n")
    finally:
        server.stop()


@pytest.mark.parametrize("wrong", ["", "no pem"])
def test_a_certificate_that_can_not_be_used_ends_the_start(wrong: str, tmp_path: Path) -> None:
    file = tmp_path / "certificate"
    if wrong:
        file.write_text(wrong)
    with pytest.raises(SetupError, match="tls_certificate and tls_key can't be used"):
        serve(Http("127.0.0.1", 0, str(file), str(file)))


def test_one_more_connection_than_the_bound_ends_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that holds all of them keeps out no probe."""
    monkeypatch.setattr(guard, "CONNECTIONS_MAX", 2)
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
    encrypted: bool, certificates: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "LASTS_MAX", 0.5)
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
    monkeypatch.setattr(guard, "CONNECTIONS_MAX", 1)
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


def head_of(size: int) -> bytes:
    """A request's first line and headers, of which one is filled up; as long as `size`."""
    begin, end = b"GET /metrics HTTP/1.1\r\nX: ", b"\r\n\r\n"
    return begin + b"a" * (size - len(begin) - len(end)) + end


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize(("more", "status"), [(0, b"200"), (1, b"431")])
def test_a_request_may_have_so_many_bytes(more: int, status: bytes, encrypted: bool, certificates: Two) -> None:
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
