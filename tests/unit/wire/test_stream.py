"""TLS: every byte arrives once and in order, and a broker needs a certificate for the name that was asked for."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
import socket
import ssl
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mirror.wire.access import access
from mirror.wire.stream import Stream

NAME = "broker.example"


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
            while stream.read_into(buffer) and stream.holds_more():
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
