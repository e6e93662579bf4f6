"""Who may ask the HTTP server, how many at once, and how much: TLS, a password, bounds on connections and requests."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import http.client
import io
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path

from mirror.service_settings import Http
from mirror.watched_files import FilesWatch, changed_secret_of

log = logging.getLogger(__name__)

CONNECTIONS_MAX = 64  # at once; a scraper, a probe and a few browsers need less than ten
HEAD_MAX = 32 * 1024  # bytes of a request's first line and headers; a browser sends 1 KiB, and a cookie 4 KiB at most
LASTS_MAX = 30.0  # seconds that a connection may take, from its begin to the last byte of the answer
LOOK_INTERVAL = 1.0  # seconds between two looks at the files

_CHANGED = {"what": "the HTTP server"}


class Guard:
    """The TLS and the password of the server. Both are read again once their files have changed."""

    def __init__(self, http: Http, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Raises OSError or ValueError if the certificate or its key can't be used."""
        self._http = http
        self._monotonic = monotonic
        self._files = FilesWatch([Path(each) for each in _files(http)])
        self._next = 0.0
        self._context = _context(http)
        self._login = http.username or "", http.password or ""

    def secured(self, connection: socket.socket) -> socket.socket:
        """The connection with TLS, if the configuration wants it. The handshake comes with the first byte read."""
        if self._context is None:
            return connection
        return self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)

    def admits(self, authorization: str) -> bool:
        """True if a request's header has the user and the password.

        The time that this takes does not tell which one is wrong.
        """
        if self._http.username is None:
            return True
        scheme, _, value = authorization.partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return False
        return hmac.compare_digest(_digest(user, password), _digest(*self._login))

    def look(self) -> None:
        """Read what has changed. What can't be used leaves what was read before in force.

        A login does not wait for a certificate whose key has not come yet, nor a certificate for a login.
        """
        if self._monotonic() < self._next:
            return
        self._next = self._monotonic() + LOOK_INTERVAL
        if not self._files.has_changed():
            return
        log.info("files with passwords or certificates have changed", extra=_CHANGED)
        for read in (self._read_certificate, self._read_login):
            try:
                read()
            except (OSError, ValueError) as error:
                log.warning(
                    "a file can't be used, what it held before counts", extra={**_CHANGED, "reason": _reason(error)}
                )

    def _read_certificate(self) -> None:
        self._context = _context(self._http)

    def _read_login(self) -> None:
        files = (self._http.username_file, self._http.password_file)
        user, password = (
            before if file is None else changed_secret_of(Path(file))
            for file, before in zip(files, self._login, strict=True)
        )
        self._login = user, password


def _files(http: Http) -> list[str]:
    files = (http.tls_certificate, http.tls_key, http.username_file, http.password_file)
    return [each for each in files if each is not None]


def _context(http: Http) -> ssl.SSLContext | None:
    if http.tls_certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # With None, OpenSSL would ask for the password of the key on the terminal.
    context.load_cert_chain(http.tls_certificate, http.tls_key, "")
    return context


def _reason(error: OSError | ValueError) -> str:
    """Without the text of a file."""
    if isinstance(error, OSError):
        return error.strerror or "not a certificate and its key"
    return "empty, with a NUL, or not UTF-8 text"


def _digest(user: str, password: str) -> bytes:
    """Of equal length, so that a comparison does not tell how long the password is."""
    parts = (hashlib.sha256(each.encode()).digest() for each in (user, password))
    return b"".join(parts)


class Head(io.BufferedIOBase):
    """A connection's stream to read, of which a request's first line and headers may take HEAD_MAX bytes together.

    http.server takes 100 headers of 64 KiB, and makes a line of each "\\r" in them: a request without the password
    would cost hundreds of MB.
    """

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self._stream = stream
        self._left = HEAD_MAX

    def begin(self) -> None:
        """The next request begins."""
        self._left = HEAD_MAX

    def readline(self, limit: int | None = -1, /) -> bytes:
        """The next line, cut where the bound is. Raises HTTPException, which http.server answers with 431, after it."""
        if self._left <= 0:
            raise http.client.HTTPException(f"more than {HEAD_MAX} bytes")
        line = self._stream.readline(self._left if limit is None or limit < 0 else min(limit, self._left))
        self._left -= len(line)
        return line

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()


class Connections:
    """Those that are open: at most CONNECTIONS_MAX, each for LASTS_MAX at most. Any thread may use it.

    One more ends the oldest: otherwise a client that holds as many as there may be would keep out a probe.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._began: dict[socket.socket, float] = {}

    def admit(self, connection: socket.socket) -> None:
        """One more."""
        with self._lock:
            oldest = next(iter(self._began)) if len(self._began) >= CONNECTIONS_MAX else None
            if oldest is not None:
                del self._began[oldest]
            self._began[connection] = self._monotonic()
        if oldest is not None:
            _end(oldest)

    def leave(self, connection: socket.socket) -> None:
        """It is closed."""
        with self._lock:
            self._began.pop(connection, None)

    def end_late(self) -> None:
        """End those that have taken too long: a client may send its request byte by byte, or read nothing."""
        with self._lock:
            late = [each for each, began in self._began.items() if self._monotonic() - began > LASTS_MAX]
        for each in late:
            _end(each)


def _end(connection: socket.socket) -> None:
    """Its thread then ends, too."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)  # not TLS's own, which another thread may be using
