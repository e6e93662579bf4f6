"""The open connections of the HTTP server: how many, for how long, how large a request, and whose page is made."""

from __future__ import annotations

import contextlib
import http.client
import io
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator

CONNECTIONS_MAX = 64  # at once; a scraper, a probe and a few browsers need less than ten
HEAD_MAX = 32 * 1024  # bytes of a request's first line and headers; a browser sends 1 KiB, and a cookie 4 KiB at most
LASTS_MAX = 30.0  # seconds that a connection may take, from its begin to the last byte of the answer
RENDERED_MAX = 4  # pages at once; each takes memory for all partitions, and together they are made no faster


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

    One more ends the oldest: otherwise a client that holds as many as there may be would keep out a probe. The thread
    of a connection that was ended does not wait for a turn any more, so the threads have a bound, too.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._began: dict[socket.socket, float] = {}
        self._turns = 0  # that are taken

    def admit(self, connection: socket.socket) -> None:
        """One more."""
        with self._changed:
            oldest = next(iter(self._began)) if len(self._began) >= CONNECTIONS_MAX else None
            self._began[connection] = self._monotonic()
        if oldest is not None:
            self._end([oldest])

    def leave(self, connection: socket.socket) -> None:
        """It is closed."""
        with self._changed:
            self._began.pop(connection, None)

    def end_late(self) -> None:
        """End those that have taken too long: a client may send its request byte by byte, or read nothing."""
        with self._changed:
            late = [each for each, began in self._began.items() if self._monotonic() - began > LASTS_MAX]
        self._end(late)

    def _end(self, connections: list[socket.socket]) -> None:
        """Their threads then end, too."""
        with self._changed:
            for each in connections:
                self._began.pop(each, None)
            self._changed.notify_all()
        for each in connections:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(each, socket.SHUT_RDWR)  # not TLS's own, which another thread may be using

    @contextlib.contextmanager
    def turn(self, connection: socket.socket) -> Iterator[bool]:
        """Wait for one of RENDERED_MAX turns to make a page. False if the connection has ended before it came."""
        with self._changed:
            had_to_wait = self._turns >= RENDERED_MAX
            self._changed.wait_for(
                lambda: self._turns < RENDERED_MAX or connection not in self._began, timeout=LASTS_MAX
            )
            has_turn = self._turns < RENDERED_MAX and connection in self._began
            # Only after a wait: a client may end its half of a connection and still read the answer.
            has_turn = has_turn and not (had_to_wait and _has_gone(connection))
            self._turns += has_turn
        try:
            yield has_turn
        finally:
            with self._changed:
                self._turns -= has_turn
                self._changed.notify_all()


def _has_gone(connection: socket.socket) -> bool:
    """True if the client has closed its end."""
    found = select.poll()
    found.register(connection, select.POLLRDHUP)
    return bool(found.poll(0))
