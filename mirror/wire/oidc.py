"""Gets tokens for OAUTHBEARER from an OIDC server, by client credentials (RFC 6749, 4.4)."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mirror.errors import Unavailable, Unsupported, WireError

TIMEOUT = 10.0  # seconds for the connection, and for each part of the answer
ANSWERED_WITHIN = 20.0  # seconds that anybody waits for a token
RENEWED_WITHIN = 1.0  # seconds that anybody waits for a newer one while the last one is valid
ANSWER_MAX = 2**20  # bytes; a token has some thousand
RENEWED_AFTER = 0.8  # of a token's life: so a login that takes a while still has a valid one
_TOO_MANY, _SERVER_ERROR = 429, 500


@dataclass(frozen=True, slots=True)
class Token:
    """What proves who we are. From `renewed_at` on another one is fetched; both times are the monotonic clock's."""

    value: str = field(repr=False)
    renewed_at: float
    extensions: Mapping[str, str] = field(default_factory=dict)  # KIP-342
    ends_at: float = float("inf")


class _NotElsewhere(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it would carry the client's secret to whoever the answer names."""

    def redirect_request(self, *_: object) -> None:
        """Refuse it. The answer is then an error."""


class _Deadline:
    """Ends a connection when its time is over: one that trickles never times out by itself."""

    def __init__(self, opened: socket.socket) -> None:
        self.over = False
        self._handle = opened.dup()  # it stays a socket when TLS takes the first one
        self._timer = threading.Timer(ANSWERED_WITHIN, self._pass)
        self._timer.daemon = True
        self._timer.start()

    def _pass(self) -> None:
        self.over = True
        self.end()

    def end(self) -> None:
        """Wake whoever reads from the connection, and leave no thread."""
        self._timer.cancel()
        with self._handle, contextlib.suppress(OSError):  # the other end may have closed it
            self._handle.shutdown(socket.SHUT_RDWR)


class _Bounded(http.client.HTTPConnection):
    deadlines: list[_Deadline]  # gets that of this connection

    def connect(self) -> None:
        """Connect. With TLS, the handshake follows, and counts, too."""
        super().connect()
        self.deadlines.append(_Deadline(self.sock))


class _BoundedTls(http.client.HTTPSConnection, _Bounded):
    """The same with TLS."""


class _Connections(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens connections, each with a deadline, which whoever asks has to end."""

    def __init__(self, trust: ssl.SSLContext) -> None:
        urllib.request.HTTPSHandler.__init__(self, context=trust)
        self._trust = trust
        self.deadlines: list[_Deadline] = []

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Connect, and ask."""
        return self.do_open(partial(self._made, _Bounded), req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Connect, and ask."""
        return self.do_open(partial(self._made, _BoundedTls), req, context=self._trust)

    def _made(self, kind: type[_Bounded], *args: Any, **more: Any) -> _Bounded:
        found = kind(*args, **more)
        found.deadlines = self.deadlines
        return found


class Oidc:
    """A client of an OIDC server, by librdkafka's properties. Raises Unsupported if one is missing or unusable."""

    def __init__(self, properties: Mapping[str, str], trust: ssl.SSLContext) -> None:
        self._url = properties.get("sasl.oauthbearer.token.endpoint.url", "")
        identity = [properties.get(f"sasl.oauthbearer.client.{each}", "") for each in ("id", "secret")]
        if not self._url.lower().startswith(("http://", "https://")) or not all(identity):
            raise Unsupported("OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url, .client.id and .client.secret")
        self._basic = base64.b64encode(":".join(identity).encode()).decode()
        scope = properties.get("sasl.oauthbearer.scope")
        self._form = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
        pairs = (pair.partition("=") for pair in properties.get("sasl.oauthbearer.extensions", "").split(",") if pair)
        self._extensions = {name.strip(): value for name, _, value in pairs}
        self._trust = trust
        self._lock = threading.Lock()  # of the two below: connections that log in at the same time share one token
        self._newest: Token | None = None
        self._fetch: Future[Token] | None = None

    def token(self) -> Token:
        """The newest token while it is young, else another one. Blocks for a while. Raises Unavailable, WireError.

        A thread of its own fetches it, at most one at a time: nobody can say how long a server takes that sends its
        answer byte by byte. While the server is slow or away, the newest token is used to its end: a connection that
        logs in again lets its requests wait meanwhile.
        """
        newest: Token | None = None
        try:
            with self._lock:
                newest = self._newest
                if newest and time.monotonic() < newest.renewed_at:
                    return newest
                fetch = self._fetch = self._fetch or self._begun()
            return _result(fetch, RENEWED_WITHIN if _is_valid(newest) else ANSWERED_WITHIN)
        except Unavailable:
            if newest and _is_valid(newest):
                return newest
            raise

    def _begun(self) -> Future[Token]:
        fetch = Future[Token]()
        try:
            threading.Thread(target=self._run, args=(fetch,), daemon=True, name="fetch a token").start()
        except RuntimeError as error:
            raise Unavailable(f"no token can be fetched: {error}") from error
        return fetch

    def _run(self, fetch: Future[Token]) -> None:
        try:
            found = self._fetched()
        except BaseException as error:  # whatever it is: nobody else would tell those who wait
            self._end(None)
            fetch.set_exception(error)
        else:
            self._end(found)
            fetch.set_result(found)

    def _end(self, found: Token | None) -> None:
        with self._lock:
            self._newest, self._fetch = found or self._newest, None

    def _fetched(self) -> Token:
        asked_at = time.monotonic()
        form = urllib.parse.urlencode(self._form).encode()
        headers = {"Authorization": f"Basic {self._basic}", "Accept": "application/json"}
        connections = _Connections(self._trust)
        try:
            request = urllib.request.Request(self._url, form, headers)
            with urllib.request.build_opener(connections, _NotElsewhere()).open(request, timeout=TIMEOUT) as answer:
                body = answer.read(ANSWER_MAX + 1)
        except urllib.error.HTTPError as error:
            error.close()
            passes = error.code >= _SERVER_ERROR or error.code == _TOO_MANY
            raise (Unavailable if passes else WireError)(f"the token server answers with {error.code}") from error
        except OSError as error:
            raise Unavailable(f"the token server does not answer: {error}") from error
        except http.client.IncompleteRead as error:
            raise Unavailable("the token server breaks off its answer") from error
        except (http.client.HTTPException, ValueError) as error:  # their texts have what the server sent, or the URL
            raise WireError(f"the token server's URL or answer can't be used ({type(error).__name__})") from None
        finally:
            for each in connections.deadlines:
                each.end()
        if any(each.over for each in connections.deadlines):  # what has come until then is no whole answer
            raise Unavailable("the token server does not answer: timed out")
        value, life = _decoded(body)
        return Token(value, asked_at + RENEWED_AFTER * life, self._extensions, asked_at + life)


def _is_valid(token: Token | None) -> bool:
    return token is not None and time.monotonic() < token.ends_at


def _result(fetch: Future[Token], within: float) -> Token:
    """What the thread has fetched. It may go on for longer than we wait."""
    try:
        return fetch.result(within)
    except TimeoutError:
        raise Unavailable("the token server does not answer: timed out") from None


def _decoded(body: bytes) -> tuple[str, float]:
    """The token and its life (s). No error shows what was read."""
    try:
        found = json.loads(body if len(body) <= ANSWER_MAX else b"")
        value, life = found["access_token"], float(found.get("expires_in", 300))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise WireError("the token server's answer has no access_token") from None
    # Anything else would be able to add to the login's message.
    if not isinstance(value, str) or not value.isascii() or not value.isprintable() or not 0 < life < 2**31:
        raise WireError("the token server's access_token can't be used")
    return value, life
