"""What brokers can do and librdkafka does not tell: the features (KIP-584) in their answer to ApiVersions.

That is the one request that a broker answers before authentication (KIP-35, KIP-43), so it takes no password. All that
comes back is checked by its size.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Mapping
from dataclasses import dataclass

TIMEOUT = 5.0  # seconds to connect, and for each part of the answer
ANSWER_MAX = 2**20  # bytes; brokers send about a thousand

API_VERSIONS, VERSION = 18, 3  # the first version with features, and the last that needs no newer broker
CORRELATION = 1
SUPPORTED_TAG, EPOCH_TAG, FINALIZED_TAG = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Features:
    """Of one broker, by the feature's name. Without what stands at level 0."""

    supported: Mapping[str, int]  # the highest level that its software has
    finalized: Mapping[str, int]  # the level at which the cluster works


def ask(host: str, port: int, properties: Mapping[str, str]) -> Features:
    """Ask a broker, reached as librdkafka's `properties` of the cluster say; none are known of one before Kafka 2.4.

    Raises OSError if it is not reached so, ValueError if it answers something else.
    """
    with _connection(host, port, properties) as connection:
        connection.sendall(_request())
        (size,) = struct.unpack(">i", _exactly(connection, 4))
        if not 0 < size <= ANSWER_MAX:
            raise ValueError(f"an answer of {size} bytes")
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
    """Of PEM files or texts; a key store is for librdkafka alone."""
    context = ssl.create_default_context(cafile=properties.get("ssl.ca.location"), cadata=properties.get("ssl.ca.pem"))
    if properties.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    certificate = properties.get("ssl.certificate.location")
    if certificate:
        key, password = properties.get("ssl.key.location"), properties.get("ssl.key.password")
        context.load_cert_chain(certificate, key, password or "")  # without one it would ask at the terminal
    return context


def decode(answer: bytes) -> Features:
    """An answer's features, given all behind its size. Raises ValueError if it is none."""
    reader = _Reader(answer)
    if reader.number(">i") != CORRELATION:
        raise ValueError("an answer to something else")
    if reader.number(">h"):  # it is too old: then the rest has the form of version 0
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
        elif tag == EPOCH_TAG and _Reader(content).number(">q") < 0:  # not known: so is what comes next
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
    """Kafka's flexible encoding (KIP-482). Everything raises ValueError where the bytes end."""

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
        raise ValueError("a number without an end")

    def count(self) -> int:
        """A compact length: one more than it is, 0 for nothing."""
        return max(0, self.varint() - 1)

    def skip_tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())
