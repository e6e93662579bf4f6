"""Who may ask the HTTP server: TLS and the password."""

from __future__ import annotations

import base64
import http.client
import logging
import socket
import ssl
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from mirror.errors import SetupError
from mirror.service_settings import Http
from mirror.text import BUG
from mirror.web import server as server_module
from mirror.web.guard import Guard
from mirror.web.server import ALL, Answer, WebServer, health
from tests.harness.certificates import Certificate, self_signed
from tests.harness.waiting import until

USER, PASSWORD = "scraper", "xq7-Hunter"
Two = tuple[Certificate, Certificate]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Two:
    directory = tmp_path_factory.mktemp("certificates")
    return self_signed(directory, "first"), self_signed(directory, "second", days=90)


def basic(user: str, password: str) -> str:
    """The header of a login."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


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
        headers = {} if user is None else {"Authorization": basic(user, password)}
        connection.request("GET", path, headers=headers)
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


def unusable(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The keys of the files of which the log says that they can't be used."""
    return [vars(each)["key"] for each in caplog.records if "can't be used" in each.getMessage()]


def test_a_changed_certificate_and_password_are_read_again(
    certificates: Two, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "LOOK_INTERVAL", 0.02)
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
            until("said", lambda: unusable(caplog) == ["http.tls_certificate or http.tls_key"])
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
            assert unusable(caplog) == ["http.password"]
        assert answers(server, second.certificate, "other", "") == 401, "an empty file is no password"
        assert answers(server, second.certificate, "other", "another") == 200
        assert PASSWORD not in caplog.text and "another" not in caplog.text
    finally:
        server.stop()


def test_what_files_hold_at_the_begin_counts_more_than_settings_that_are_older(tmp_path: Path) -> None:
    user, password = tmp_path / "user", tmp_path / "password"
    user.write_text("new-user\n")
    password.write_text("new-password\n")
    http = Http("localhost", 0, username=USER, password=PASSWORD, username_file=str(user), password_file=str(password))
    assert Guard(http).admits(basic("new-user", "new-password")) and not Guard(http).admits(basic(USER, PASSWORD))
    password.unlink()
    assert Guard(http).admits(basic(USER, PASSWORD)), "the configuration was read a moment ago"


def days_left(at: float | None) -> int:
    assert at is not None
    return round((at - time.time()) / 86_400)


def test_the_certificate_in_force_says_when_it_expires(certificates: Two, tmp_path: Path) -> None:
    """A renewed file whose key is missing changes nothing for clients."""
    first, second = certificates
    certificate, key = tmp_path / "certificate", tmp_path / "key"
    certificate.write_bytes(first.certificate.read_bytes())
    key.write_bytes(first.key.read_bytes())
    guard = Guard(Http("localhost", 0, str(certificate), str(key)))
    for file, content, days in ((certificate, second.certificate, 30), (key, second.key, 90)):
        assert days_left(guard.expiry) == 30
        file.write_bytes(content.read_bytes())
        guard.look()  # sees that something moves
        guard.look()
        assert days_left(guard.expiry) == days
    assert Guard(Http("localhost", 0)).expiry is None


def test_a_file_system_that_does_not_answer_holds_up_no_answer_and_no_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, answers_again = threading.Event(), threading.Event()

    def hang(_: Guard) -> None:
        looks.set()
        answers_again.wait()

    monkeypatch.setattr(server_module, "LOOK_INTERVAL", 0.01)
    monkeypatch.setattr(Guard, "look", hang)
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    server = serve(Http("127.0.0.1", 0, username=USER, password=PASSWORD, password_file=str(password)))
    try:
        assert looks.wait(20)
        assert Client(server).get("/metrics", USER, PASSWORD) == (200, "1\n")
        stop = threading.Thread(target=server.stop, daemon=True)
        stop.start()
        stop.join(10)
        assert not stop.is_alive()
    finally:
        answers_again.set()


def test_an_unexpected_error_ends_no_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks = list[int]()

    def fail(_: Guard) -> None:
        looks.append(1)
        raise ZeroDivisionError

    monkeypatch.setattr(server_module, "LOOK_INTERVAL", 0.01)
    monkeypatch.setattr(Guard, "look", fail)
    (tmp_path / "password").write_text(PASSWORD)
    server = serve(Http("127.0.0.1", 0, None, None, USER, PASSWORD, None, str(tmp_path / "password")))
    try:
        until("it looks on", lambda: len(looks) > 1)
        assert BUG in caplog.text
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
