"""Asks brokers for their features (KIP-584), which librdkafka does not report.

Features are part of the answer to ApiVersions. A broker answers that request before authentication (KIP-35, KIP-43), so
no password is needed. Every size in the answer is checked.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Mapping
from dataclasses import dataclass

TIMEOUT = 5.0  # seconds to connect, and for each part of the answer
ANSWER_MAX = 2**20  # bytes; brokers send about 1,000

API_VERSIONS, VERSION = 18, 3  # the first version with features; a later one would need a newer broker
CORRELATION = 1
SUPPORTED_TAG, EPOCH_TAG, FINALIZED_TAG = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Features:
    """The features of one broker by name, without those at level 0."""

    supported: Mapping[str, int]  # the highest level that the broker's software supports
    finalized: Mapping[str, int]  # the level that the cluster uses


def ask(host: str, port: int, properties: Mapping[str, str]) -> Features:
    """Ask a broker for its features, connecting as librdkafka's `properties` say. Empty for a broker before Kafka 2.4.

    Raises OSError if the connection fails, ValueError if the answer is invalid.
    """
    with _connection(host, port, properties) as connection:
        connection.sendall(_request())
        (size,) = struct.unpack(">i", _exactly(connection, 4))
        if not 0 < size <= ANSWER_MAX:
            raise ValueError(f"the answer has {size} bytes")
        return decode(_exactly(connection, size))


def _request() -> bytes:
    name = b"mirror"
    header = struct.pack(">hhih", API_VERSIONS, VERSION, CORRELATION, len(name)) + name + b"\0"
    software = bytes([len(name) + 1]) + name
    body = header + software + b"\x021" + b"\0"  # name and version, as compact strings
    return struct.pack(">i", len(body)) + body


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("the broker closed the connection")
        parts += part
    return bytes(parts)


def _connection(host: str, port: int, properties: Mapping[str, str]) -> socket.socket:
    connection = socket.create_connection((host, port), TIMEOUT)
    if not properties.get("security.protocol", "plaintext").lower().endswith("ssl"):
        return connection
    try:
        return _tls(properties).wrap_socket(connection, server_hostname=host)
    except BaseException:
        connection.close()
        raise


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    """TLS with PEM files or texts. Key stores are not supported: only librdkafka can read them."""
    context = ssl.create_default_context(cafile=properties.get("ssl.ca.location"), cadata=properties.get("ssl.ca.pem"))
    if properties.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    certificate = properties.get("ssl.certificate.location")
    if certificate:
        key, password = properties.get("ssl.key.location"), properties.get("ssl.key.password")
        context.load_cert_chain(certificate, key, password or "")  # with None, OpenSSL would ask on the terminal
    return context


def decode(answer: bytes) -> Features:
    """Decode the features from an answer without its size field. Raises ValueError if it is invalid."""
    reader = _Reader(answer)
    if reader.number(">i") != CORRELATION:
        raise ValueError("the answer is to another request")
    if reader.number(">h"):  # an error: the broker is too old, and the rest has the format of version 0
        return Features({}, {})
    for _ in range(reader.count()):
        reader.take(6)
        reader.skip_tags()
    reader.number(">i")  # throttle time
    found: dict[int, dict[str, int]] = {}
    for _ in range(reader.varint()):
        tag, content = reader.varint(), reader.take(reader.varint())
        if tag in (SUPPORTED_TAG, FINALIZED_TAG):
            # (min, max) in the first, (max, min) in the second.
            found[tag] = _levels(_Reader(content), last=tag == SUPPORTED_TAG)
        elif (
            tag == EPOCH_TAG and _Reader(content).number(">q") < 0
        ):  # an unknown epoch: the finalized features that follow are unknown, too
            return Features(found.get(SUPPORTED_TAG, {}), {})
    return Features(found.get(SUPPORTED_TAG, {}), found.get(FINALIZED_TAG, {}))


def _levels(reader: _Reader, last: bool) -> dict[str, int]:
    levels = {}
    for _ in range(reader.count()):
        name = reader.take(reader.count()).decode()
        pair = reader.number(">h"), reader.number(">h")
        reader.skip_tags()
        levels[name] = pair[last]
    return levels


class _Reader:
    """Reads Kafka's flexible encoding (KIP-482). Every method raises ValueError at the end of the data."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._content):
            raise ValueError("the answer ends too early")
        part, self._at = self._content[self._at : end], end
        return part

    def number(self, form: str) -> int:
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("a number has no end")

    def count(self) -> int:
        """Read a compact length, which is encoded as the length plus one, or 0 for null."""
        return max(0, self.varint() - 1)

    def skip_tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())
