"""A socket that never blocks the event loop, plain or with TLS.

asyncio's own transports copy what they can't send at once, and its TLS copies everything twice. Here bytes go from and
to the caller's buffers; with TLS, OpenSSL reads and writes the socket itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import ssl
import struct
import sys
import termios
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from mirror.errors import Malformed, Unavailable, WireError
from mirror.wire.access import Access, Address

LEAST_SHARE = 0.3  # of the time, for each address of a host that has many: TLS takes several ways there and back

_NOT_NOW = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_ENDED = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)  # what a closed TLS connection raises
_PARTS = 256  # most buffers for one call of the kernel
_TLS_RECORD = 2**14  # bytes
_TLS_SEND = 2**16  # bytes of a large part that OpenSSL gets at once; it takes longer with fewer
# Seconds. What forwards connections drops one after some minutes without a packet, and tells nobody.
_KEPT_ALIVE_AFTER = 60
_COUNT = struct.Struct("i")  # what the kernel writes

if sys.platform == "darwin":
    _TCP_KEEPIDLE = socket.TCP_KEEPALIVE
else:
    _TCP_KEEPIDLE = socket.TCP_KEEPIDLE

_Where = tuple[int, int, int, str, Any]  # what the resolver says of one address


class Stream:
    """An open connection. Its methods raise OSError; `failed` says what that means."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self._loop = asyncio.get_running_loop()
        self._tls = isinstance(opened, ssl.SSLSocket)
        self._writing = False
        self.on_readable: Callable[[], None] = lambda: None
        self.on_writable: Callable[[], None] = lambda: None

    @classmethod
    async def open(cls, address: Address, access: Access, within: float) -> Stream:
        """Connect to the first of the host's addresses that answers. Raises OSError, ValueError.

        It takes `within` seconds at most, and one that does not answer leaves the next ones some of them.
        """
        host, port = address
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        async with asyncio.timeout_at(deadline):
            look_up = partial(socket.getaddrinfo, host, port, family=access.family, type=socket.SOCK_STREAM)
            found = await loop.run_in_executor(access.threads, look_up)
        for place, where in enumerate(found, 1):
            left = deadline - loop.time()
            share = max(left / (len(found) - place + 1), LEAST_SHARE * within)
            try:
                async with asyncio.timeout(min(left, share)):
                    return cls(await _connected(where, host, access.tls))
            except OSError as error:
                if place == len(found) or _refused(error):
                    raise
        raise OSError(f"{host} has no address")

    def start(self) -> None:
        """Call `on_readable` when there is something to read, from now on."""
        self._loop.add_reader(self._socket.fileno(), self.on_readable)

    def close(self) -> None:
        """Close the connection. May be called again."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()
        self.on_readable = self.on_writable = lambda: None  # these refer to the connection, which refers to this

    def read_into(self, buffer: memoryview) -> int:
        """The number of bytes that were read; 0 if there are none yet."""
        try:
            count = self._socket.recv_into(buffer)
        except _NOT_NOW:
            return 0
        if not count:
            raise ConnectionError("the connection was closed")
        return count

    @property
    def reads_parts(self) -> bool:
        """True if a read gives one TLS record at most, although more have come: read until there is nothing.

        OpenSSL may hold bytes of them, too. The event loop does not see those, so nobody would call `on_readable`.
        """
        return self._tls

    def write(self, parts: deque[memoryview]) -> None:
        """Send what the connection takes now, and take it from `parts`. Calls `on_writable` when it takes more."""
        try:
            while parts:
                sent = self._send_tls(parts) if self._tls else self._socket.sendmsg(list(islice(parts, _PARTS)))
                while parts and sent >= len(parts[0]):
                    sent -= len(parts.popleft())
                if sent:
                    parts[0] = parts[0][sent:]
        except ssl.SSLWantReadError:  # TLS has to read first, and the next read calls us again
            self._await_writable(False)
        except _NOT_NOW:
            self._await_writable(True)
        else:
            self._await_writable(False)

    def untaken(self) -> int:
        """How many of the bytes that were sent the other side does not have yet; 0 if the kernel does not say."""
        try:
            return int(_COUNT.unpack(fcntl.ioctl(self._socket, termios.TIOCOUTQ, bytes(_COUNT.size)))[0])
        except OSError:
            return 0

    def _await_writable(self, wanted: bool) -> None:
        if wanted and not self._writing:
            self._loop.add_writer(self._socket.fileno(), self.on_writable)
        elif self._writing and not wanted:
            self._loop.remove_writer(self._socket.fileno())
        self._writing = wanted

    def _send_tls(self, parts: deque[memoryview]) -> int:
        """Small parts go into one TLS record. What could not be sent has to come again, and may have grown.

        Of a large part only some goes at once: OpenSSL says nothing before it has sent all that it was given, and on a
        slow link who waits has to see that it moves.
        """
        if len(parts[0]) >= _TLS_RECORD or len(parts) == 1:
            return self._socket.send(parts[0][:_TLS_SEND])
        some, size = [], 0
        for part in islice(parts, _PARTS):
            some.append(part[: _TLS_RECORD - size])
            size += len(some[-1])
            if size == _TLS_RECORD:
                break
        return self._socket.send(b"".join(some))


async def _connected(where: _Where, host: str, tls: ssl.SSLContext | None) -> socket.socket:
    """A socket that is connected to one address, with TLS if there is a context."""
    family, kind, protocol, _, place = where
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setblocking(False)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        opened.setsockopt(socket.IPPROTO_TCP, _TCP_KEEPIDLE, _KEPT_ALIVE_AFTER)
        await asyncio.get_running_loop().sock_connect(opened, place)
        if tls:
            opened = tls.wrap_socket(opened, server_hostname=host, do_handshake_on_connect=False)
            await _shake_hands(opened)
    except BaseException:
        opened.close()
        raise
    return opened


async def _shake_hands(opened: socket.socket) -> None:
    assert isinstance(opened, ssl.SSLSocket)
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    while True:
        try:
            opened.do_handshake()
            return
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as wanted:
            reads = isinstance(wanted, ssl.SSLWantReadError)
        ready.clear()
        (loop.add_reader if reads else loop.add_writer)(opened.fileno(), ready.set)
        try:
            await ready.wait()
        finally:
            (loop.remove_reader if reads else loop.remove_writer)(opened.fileno())


@contextlib.contextmanager
def failed(name: str, what: str) -> Iterator[None]:
    """Tell an error of the socket as one of ours."""
    try:
        yield
    except TimeoutError as error:
        raise Unavailable(f"{name} {what}: timed out") from error
    except OSError as error:
        raise (WireError if _refused(error) else Unavailable)(f"{name} {what}: {error}") from error
    except ValueError as error:  # the host's name is invalid; a broker may have sent it
        raise Malformed(f"{name} {what}: {error}") from error


def _refused(error: OSError) -> bool:
    """True if one of the two sides does not want this TLS connection; it may be closed for other reasons."""
    return isinstance(error, ssl.SSLError) and not isinstance(error, _ENDED)


def bare(error: WireError) -> WireError:
    """The error without the frames in which it was raised: these hold the answer that was being read."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error
