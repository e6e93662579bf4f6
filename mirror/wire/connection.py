"""One connection to a broker: sends requests and reads their answers, each within a time-out."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import time
from collections.abc import Iterator

from mirror.errors import Malformed, Unavailable, Unsupported, WireError
from mirror.wire import messages
from mirror.wire.access import Access, Address
from mirror.wire.auth import login
from mirror.wire.cursor import Cursor
from mirror.wire.messages import Api

TIMEOUT = 10.0  # seconds to connect, and for the next piece of an answer
PIECE = 2**18  # bytes of an answer that have to arrive within TIMEOUT; a slow link can do that
ANSWER_MAX = 2**30  # bytes; no batch that a broker accepts is larger
THROTTLE_MAX = 60.0  # seconds; brokers throttle for a few

_ENDED = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)  # what a closed TLS connection raises

_SIZE = struct.Struct(">i")
_CORRELATION = struct.Struct(">i")


class Connection:
    """A connection to one broker, logged in. Every method raises WireError, and then the connection is closed."""

    def __init__(self, address: Address, access: Access) -> None:
        self._name = f"{address[0]}:{address[1]}"
        self._client = access.client
        self._sent = 0
        self._quiet_until = 0.0
        self._socket = socket.socket()
        self._connect(address, access.tls)
        try:
            self._look(access)
            if access.login:
                self._login(*access.login)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection. Open requests get no answer."""
        self._socket.close()

    def ask(self, api: Api, body: bytes) -> int:
        """Send a request, after a wait if the broker throttles us. Returns the number that `answer` needs."""
        time.sleep(max(0.0, self._quiet_until - time.monotonic()))
        self._sent += 1
        request = messages.header(api, self._sent, self._client) + body
        with self._closing("can't be sent to"):
            self._socket.settimeout(TIMEOUT)
            self._socket.sendall(_SIZE.pack(len(request)) + request)
        return self._sent

    def answer(self, number: int) -> Cursor:
        """Wait for the answer to a request. Answers to earlier requests are dropped: nobody waits for them any more."""
        with self._closing("does not answer"):
            while True:
                (size,) = _SIZE.unpack(self._read(_SIZE.size))
                if not _CORRELATION.size <= size <= ANSWER_MAX:
                    raise Malformed(f"{self._name} answers with {size} bytes: is it a Kafka broker?")
                (found,) = _CORRELATION.unpack(self._read(_CORRELATION.size))
                if not 0 < found <= number:
                    raise Malformed(f"{self._name} answers a request that was not sent")
                body = self._read(size - _CORRELATION.size)
                if found == number:
                    return Cursor(body)

    def throttled(self, milliseconds: int) -> None:
        """Send no request for this time, because the broker has throttled us (KIP-219)."""
        self._quiet_until = time.monotonic() + min(max(0, milliseconds) / 1000, THROTTLE_MAX)

    def request(self, api: Api, body: bytes) -> Cursor:
        """Send a request and wait for its answer."""
        return self.answer(self.ask(api, body))

    def _connect(self, address: Address, tls: ssl.SSLContext | None) -> None:
        with self._closing("can't be reached"):
            self._socket = socket.create_connection(address, TIMEOUT)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls:
                self._socket = tls.wrap_socket(self._socket, server_hostname=address[0])

    def _look(self, access: Access) -> None:
        """Check that the broker supports the needed request versions. Raises Unsupported."""
        versions = messages.api_versions(self.request(messages.API_VERSIONS, b""))
        needed = [messages.FETCH, messages.METADATA]
        needed += [messages.SASL_HANDSHAKE, messages.SASL_AUTHENTICATE] if access.login else []
        for api in needed:
            first, last = versions.get(api.key, (0, -1))
            if not first <= api.version <= last:
                raise Unsupported(f"{self._name} does not have version {api.version} of {api.name}: Kafka 2.3 has it")

    def _login(self, mechanism: str, user: str, password: str) -> None:
        answer = self.request(messages.SASL_HANDSHAKE, messages.sasl_handshake(mechanism))
        error, offered = messages.sasl_handshake_answer(answer)
        if error == messages.UNSUPPORTED_SASL_MECHANISM:
            raise WireError(f"{self._name} does not offer {mechanism}, but {', '.join(offered)}")
        if error:
            raise WireError(f"{self._name} refuses {mechanism}: {messages.error_name(error)}")
        exchange = login(mechanism, user, password)
        message = next(exchange)
        with contextlib.suppress(StopIteration):
            while True:
                answer = self.request(messages.SASL_AUTHENTICATE, messages.sasl_authenticate(message))
                error, words, reply = messages.sasl_authenticate_answer(answer)
                if error:
                    raise WireError(f"{self._name} refuses the login: {words or messages.error_name(error)}")
                message = exchange.send(reply)

    def _read(self, count: int) -> bytes:
        pieces = []
        while count:
            piece = self._piece(min(count, PIECE))
            count -= len(piece)
            pieces.append(piece)
        return b"".join(pieces)

    def _piece(self, count: int) -> bytes:
        piece, deadline = bytearray(), time.monotonic() + TIMEOUT
        while len(piece) < count:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"timed out after {TIMEOUT:.0f} s")
            self._socket.settimeout(left)
            some = self._socket.recv(count - len(piece))
            if not some:
                raise ConnectionError("the connection was closed")
            piece += some
        return bytes(piece)

    @contextlib.contextmanager
    def _closing(self, what: str) -> Iterator[None]:
        """Close the connection after any error, because it is not known where the next answer begins."""
        try:
            yield
        except OSError as error:
            self.close()
            refused = isinstance(error, ssl.SSLError) and not isinstance(error, _ENDED)
            raise (WireError if refused else Unavailable)(f"{self._name} {what}: {error}") from error
        except ValueError as error:  # the host's name is invalid; a broker may have sent it
            self.close()
            raise Malformed(f"{self._name} {what}: {error}") from error
        except BaseException:
            self.close()
            raise
