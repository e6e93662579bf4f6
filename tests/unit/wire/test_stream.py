"""TLS: every byte arrives once and in order, and a broker needs a certificate for the name that was asked for."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
import socket
import ssl
import struct
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mirror.wire import access as access_
from mirror.wire import connection as module
from mirror.wire.access import access
from mirror.wire.connection import Connection
from mirror.wire.greeting import Abilities
from mirror.wire.requests import Api, Request
from mirror.wire.stream import Stream
from tests.harness import jumping

NAME = "broker.example"
NUMBER = Api("Number", 99, 0, 0, flexible=9)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for NAME with its key, which nobody else has signed."""
    made = tmp_path_factory.mktemp("tls")
    key, certificate, both = (made / name for name in ("key", "certificate", "both.pem"))
    command = ["openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    names = ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    return both


class Server:
    """Takes one connection with TLS, which `serve` gets."""

    def __init__(self, own: Path, serve: Callable[[ssl.SSLSocket], None]) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(own)
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            accepted, _ = self._listener.accept()
            with self.context.wrap_socket(accepted, server_side=True) as opened:
                self._serve(opened)

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every name is an address of this machine."""

    def found(_: str, port: int, *__: object, **___: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    yield


async def sent(parts: list[bytes], port: int, own: Path) -> None:
    """Write parts as they come, while the server takes what it likes, and read what it sends meanwhile."""
    known = access({"security.protocol": "ssl", "ssl.ca.location": str(own)})
    stream = await Stream.open((NAME, port), known, 10)
    out: deque[memoryview] = deque()
    buffer, ended = memoryview(bytearray(2**16)), asyncio.Event()

    def readable() -> None:
        try:
            while stream.read_into(buffer):
                pass
        except OSError:
            stream.close()
            ended.set()

    stream.on_readable, stream.on_writable = readable, lambda: stream.write(out)
    stream.start()
    for number, part in enumerate(parts):
        out.append(memoryview(part))
        stream.write(out)
        if number % 3 == 0:
            await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await ended.wait()


@pytest.mark.usefixtures("named")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_parts_of_any_size_arrive_as_they_were_sent(own: Path, version: ssl.TLSVersion) -> None:
    chance = random.Random(5)
    sizes = [1, 10, 100, 2**14 - 1, 2**14, 2**14 + 1, 70_000, 500_000]  # a TLS record has 2**14 bytes
    parts = [chance.randbytes(chance.choice(sizes)) for _ in range(150)]
    found, wanted = hashlib.sha256(), sum(map(len, parts))

    def serve(opened: ssl.SSLSocket) -> None:
        have = 0
        while have < wanted and (some := opened.recv(chance.choice([100, 5_000, 2**16]))):
            found.update(some)
            have += len(some)
            if have % 7 == 0:
                opened.sendall(bytes(chance.choice([1, 20_000])))

    with Server(own, serve) as server:
        server.context.minimum_version = server.context.maximum_version = version
        asyncio.run(sent(parts, server.port, own))
    assert found.digest() == hashlib.sha256(b"".join(parts)).digest()


@pytest.mark.usefixtures("named")
@pytest.mark.parametrize(
    ("name", "properties", "refused"),
    [
        (NAME, {}, None),
        ("other.example", {}, "Hostname mismatch"),
        ("127.0.0.1", {}, "IP address mismatch"),
        ("other.example", {"ssl.endpoint.identification.algorithm": "none"}, None),
        (NAME, {"ssl.ca.location": str(Path(__file__).parent)}, "certificate verify failed"),
        ("other.example", {"ssl.ca.location": "probe", "enable.ssl.certificate.verification": "false"}, None),
    ],
)
def test_who_is_believed(own: Path, name: str, properties: dict[str, str], refused: str | None) -> None:
    known = access({"security.protocol": "ssl", "ssl.ca.location": str(own), **properties})

    async def connected(port: int) -> None:
        (await Stream.open((name, port), known, 10)).close()

    with Server(own, lambda _: None) as server:
        if refused is None:
            asyncio.run(connected(server.port))
            return
        with pytest.raises(ssl.SSLCertVerificationError, match=refused):
            asyncio.run(connected(server.port))


@pytest.mark.usefixtures("named")
def test_the_systems_authorities_are_found_where_pythons_openssl_does_not_look(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python that was built elsewhere may know no authorities; librdkafka finds those of the system."""
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda _: None)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.setattr(access_, "_BUNDLES", (own.with_name("another"), own))
    known = access({"security.protocol": "ssl"})

    async def connected(port: int) -> None:
        (await Stream.open((NAME, port), known, 10)).close()

    with Server(own, lambda _: None) as server:
        asyncio.run(connected(server.port))
    monkeypatch.setenv("SSL_CERT_DIR", str(own.parent))
    known = access({"security.protocol": "ssl"})
    with Server(own, lambda _: None) as server, pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(connected(server.port))


@pytest.mark.usefixtures("named")
def test_a_client_has_a_certificate_too(own: Path) -> None:
    shown: list[object] = []
    known = access({"security.protocol": "ssl", "ssl.ca.location": str(own), "ssl.certificate.location": str(own)})

    async def connected(port: int) -> None:
        stream = await Stream.open((NAME, port), known, 10)
        while not shown:
            await asyncio.sleep(0.01)
        stream.close()

    with Server(own, lambda opened: shown.append(opened.getpeercert())) as server:
        server.context.verify_mode = ssl.CERT_REQUIRED
        server.context.load_verify_locations(own)
        asyncio.run(asyncio.wait_for(connected(server.port), 20))
    assert str(shown[0]).count(NAME) > 1


async def shaken(own: Path) -> tuple[ssl.SSLSocket, ssl.SSLSocket]:
    """Both ends of a connection with TLS, which don't block: ours and the broker's."""
    sides = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    sides[0].load_verify_locations(own)
    sides[1].load_cert_chain(own)
    plain = socket.socketpair()
    for each in plain:
        each.setblocking(False)
    ours = sides[0].wrap_socket(plain[0], server_hostname=NAME, do_handshake_on_connect=False)
    theirs = sides[1].wrap_socket(plain[1], server_side=True, do_handshake_on_connect=False)
    left = {ours, theirs}
    while left:
        for each in tuple(left):
            with contextlib.suppress(ssl.SSLWantReadError):
                each.do_handshake()
                left.remove(each)
    return ours, theirs


def test_a_request_that_goes_over_a_slow_link_has_time_as_long_as_it_moves(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without TLS. OpenSSL, which has encrypted a part, would say nothing before all of it has gone."""
    monkeypatch.setattr(module, "TIMEOUT", 1.0)
    size = 600_000
    large = Request(NUMBER, lambda writer: writer.raw(bytes(size)), lambda answer: answer.int32())

    async def run() -> None:
        loop, (ours, theirs) = asyncio.get_running_loop(), await shaken(own)
        connection = Connection(Stream(ours), (NAME, 1), access({}))
        connection.abilities = Abilities({NUMBER.key: (0, 0)})
        begun, waiting, left = loop.time(), connection.send(large), size
        while left > 0:
            assert not connection.closed
            with contextlib.suppress(ssl.SSLWantReadError):
                left -= len(theirs.recv(2**14))
            await asyncio.sleep(0.15)
        theirs.send(struct.pack(">iii", 8, 1, 7))
        assert await waiting == 7 and loop.time() - begun > 4
        connection.close()
        theirs.close()

    jumping.run(run())


def test_all_that_has_come_is_read_at_once(own: Path) -> None:
    """Each TLS record would otherwise take a turn of the loop."""
    size = 150_000
    text: Request[bytes] = Request(NUMBER, lambda writer: None, lambda answer: bytes(answer.bytes()))

    async def run() -> None:
        ours, theirs = await shaken(own)
        connection = Connection(Stream(ours), (NAME, 1), access({}))
        connection.abilities = Abilities({NUMBER.key: (0, 0)})
        waiting = connection.send(text)
        assert theirs.send(struct.pack(">iii", size + 8, 1, size) + bytes(size)) == size + 12
        for _ in range(3):
            await asyncio.sleep(0)
        assert waiting.done() and waiting.result() == bytes(size)
        connection.close()
        theirs.close()

    asyncio.run(run())
