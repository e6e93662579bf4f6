"""Somebody on the network who speaks Spark's protocol and has no credentials.

A frame is its own length (8 bytes), the type of message (1 byte), the message's header, and a body.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

import psutil
import pyarrow as pa

TIMEOUT = 10.0  # seconds for an answer

_CHUNK_FETCH_REQUEST, _CHUNK_FETCH_SUCCESS, _RPC_REQUEST, _RPC_RESPONSE, _RPC_FAILURE = 0, 1, 3, 4, 5
_LZ4, _PACKED = b"LZ4Block", 0x20
_OPEN_BLOCKS, _STREAM_HANDLE = 0, 3
# A text in Java's serialization, for whoever deserializes what a stranger sends.
_SERIALIZED = b"\xac\xed\x00\x05t\x00\x05hello"


class Refused(Exception):
    """The other side did not do what it was asked; its words, if it had any."""


class Mute(Refused):
    """The port does not answer, or not in this protocol."""


class Socket(NamedTuple):
    """One that listens."""

    pid: int
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach it."""
        address = ip_address(self.host)
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        return (mapped or address).is_loopback


def listening(found: Iterable[psutil.Process]) -> list[Socket]:
    """All sockets of these processes to which somebody could connect or send."""
    sockets = []
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            sockets += [
                Socket(process.pid, each.laddr.ip, each.laddr.port)
                for each in process.net_connections("inet")
                if each.laddr and (each.status == psutil.CONN_LISTEN or each.type == socket.SOCK_DGRAM)
            ]
    return sockets


def given_away(sockets: Sequence[Socket], secret: str) -> tuple[bool, bool]:
    """Tells whether a stranger reads the secret at a socket, and whether one deserializes what a stranger sends."""

    def tried(at: Socket) -> tuple[bool, bool]:
        try:
            read = any(secret.encode() in block for block in broadcasts(at.port, at.host))
        except Mute:  # for Python alone, or for a browser
            return False, False
        return read, deserializes(at.port, at.host)

    with ThreadPoolExecutor(len(sockets)) as pool:
        reads, deserialized = zip(*pool.map(tried, sockets), strict=True)
    return any(reads), any(deserialized)


def read_block(port: int, block: str, host: str = "127.0.0.1") -> bytes:
    """A block's bytes from the block manager at this port. Raises Refused."""
    with _connect(host, port) as line:
        texts = b"".join(map(_text, ("app", "stranger")))
        request = bytes([_OPEN_BLOCKS]) + texts + struct.pack(">i", 1) + _text(block)
        answer = _rpc(line, request)
        kind, stream, chunks = struct.unpack(">bqi", answer)
        if (kind, chunks) != (_STREAM_HANDLE, 1):
            raise Refused(repr(answer))
        _send(line, _CHUNK_FETCH_REQUEST, struct.pack(">qi", stream, 0))
        said, message = _receive(line)
        if said != _CHUNK_FETCH_SUCCESS:
            raise Refused(repr(message))
        return message[12:]


def deserializes(port: int, host: str = "127.0.0.1") -> bool:
    """True if the RPC server at this port turns a stranger's bytes into Java objects."""
    nowhere = b"\x00"  # no sender's address
    receiver = struct.pack(">bH", 1, 9) + b"localhost" + struct.pack(">iH", port, 17) + b"endpoint-verifier"
    try:
        with _connect(host, port) as line:
            answer = _rpc(line, nowhere + receiver + _SERIALIZED)
    except Refused as refused:
        return "ObjectInputStream" in str(refused)
    return answer.startswith(_SERIALIZED[:4])  # its own answer, serialized in turn


def broadcasts(port: int, host: str = "127.0.0.1", most: int = 30) -> Iterator[bytes]:
    """The first pieces of the first broadcasts that the server at this port gives away. Raises Mute if none."""
    for number in range(most):
        try:
            yield _plain(read_block(port, f"broadcast_{number}_piece0", host))
        except Mute:
            raise
        except Refused:
            continue


def _plain(block: bytes) -> bytes:
    """What LZ4BlockOutputStream has compressed: pieces with a magic word, the method, both lengths and a checksum."""
    plain, at = b"", 0
    while block.startswith(_LZ4, at):
        method, packed, size, _ = struct.unpack_from("<Biii", block, at + len(_LZ4))
        at += len(_LZ4) + 13
        piece = block[at : at + packed]
        plain += pa.Codec("lz4_raw").decompress(piece, size, asbytes=True) if method & 0xF0 == _PACKED else piece
        at += packed
    return plain or block


def _connect(host: str, port: int) -> socket.socket:
    try:
        return socket.create_connection((host, port), timeout=TIMEOUT)
    except OSError as error:
        raise Refused(str(error)) from error


def _text(value: str) -> bytes:
    return struct.pack(">i", len(value.encode())) + value.encode()


def _rpc(line: socket.socket, body: bytes) -> bytes:
    _send(line, _RPC_REQUEST, struct.pack(">qi", 1, len(body)) + body)
    kind, message = _receive(line)
    if kind != _RPC_RESPONSE:
        raise Refused(message[12:].decode(errors="replace") if kind == _RPC_FAILURE else repr((kind, message)))
    return message[12:]


def _send(line: socket.socket, kind: int, message: bytes) -> None:
    line.sendall(struct.pack(">qb", 9 + len(message), kind) + message)


def _receive(line: socket.socket) -> tuple[int, bytes]:
    length, kind = struct.unpack(">qb", _exactly(line, 9))
    if not 9 <= length < 2**31:
        raise Mute("an answer in another language")
    return kind, _exactly(line, length - 9)


def _exactly(line: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        try:
            more = line.recv(size - len(found))
        except TimeoutError as error:
            raise Mute("no answer") from error
        except OSError as error:
            raise Refused(str(error)) from error
        if not more:
            raise Refused("it closed the connection")
        found += more
    return found
