"""The service's HTTP server: answers `/metrics`, `/livez`, `/readyz` and the status page."""

from __future__ import annotations

import logging
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from mirror.errors import SetupError
from mirror.service_settings import Http
from mirror.text import BUG
from mirror.web.connections import Connections, Head
from mirror.web.guard import Guard

log = logging.getLogger(__name__)

TEXT = "text/plain; charset=utf-8"
ALL = "::"  # the host for all addresses, of IPv6 and IPv4; where there is no IPv6, of IPv4 alone

Health = Callable[[], list[str]]  # the problems; empty if there are none


@dataclass(frozen=True, slots=True)
class Request:
    """What a route needs of a client's request."""

    query: Mapping[str, list[str]]
    accept: str
    is_trusted: bool = True  # False: it lacks the password


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to a request."""

    content_type: str
    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Route = Callable[[Request], Answer]

LOOK_INTERVAL = 1.0  # seconds between two looks at the files with passwords or certificates
PIECE = 64 * 1024  # bytes of an answer that a client has to take within a handler's timeout
OPEN = ("/livez", "/readyz")  # they answer without the password, for probes, but tell no reasons
UNAUTHORIZED = Answer(
    TEXT, b"a user and a password are needed\n", 401, {"WWW-Authenticate": 'Basic realm="mirror", charset="UTF-8"'}
)


def metrics(registry: CollectorRegistry) -> Route:
    """A route that gives all metrics, in OpenMetrics or Prometheus' text format, as the client accepts."""

    def answer(request: Request) -> Answer:
        try:
            encode, content_type = choose_encoder(request.accept)
        except (TypeError, ValueError):  # a malformed version in the Accept header
            encode, content_type = choose_encoder("")
        return Answer(content_type, encode(registry))

    return answer


def health(check: Health, well: Callable[[], str] = lambda: "ok") -> Route:
    """A route that gives 200 and what `well` says, or 503 and the problems, which only those see who may."""

    def answer(request: Request) -> Answer:
        problems = check()
        if problems and not request.is_trusted:
            problems = ["not ok; with the password this page says why"]
        return Answer(TEXT, ("\n".join(problems or [well()]) + "\n").encode(), 503 if problems else 200)

    return answer


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64  # connections that wait to be accepted

    def __init__(self, address: tuple[str, int], guard: Guard, routes: Mapping[str, Route]) -> None:
        host, port = address
        if host == ALL and not socket.has_dualstack_ipv6():
            host = "0.0.0.0"
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.guard, self.routes = guard, routes
        self.connections = Connections()
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind the socket; to IPv4's addresses, too, if it takes all."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def get_request(self) -> tuple[socket.socket, object]:
        """The next connection."""
        connection, address = super().get_request()
        return self.guard.secured(connection), address

    def verify_request(self, request: object, client_address: object) -> bool:
        """Count the connection."""
        assert isinstance(request, socket.socket)
        self.connections.admit(request)
        return True

    def shutdown_request(self, request: object) -> None:
        """The request was answered, or there is none."""
        assert isinstance(request, socket.socket)
        self.connections.leave(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Twice a second, and after each new connection."""
        self.connections.end_late()

    def handle_error(self, request: object, client_address: object) -> None:
        """Log what is not just a client that has gone away."""
        if not isinstance(sys.exc_info()[1], OSError):
            log.exception(BUG, extra={"http": str(client_address)})


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection, in a thread of its own."""

    server: _Server
    timeout = 10  # seconds; an idle connection must not hold its thread
    server_version, sys_version = "mirror", ""

    def setup(self) -> None:
        super().setup()
        self.head = Head(self.rfile)
        self.rfile = self.head  # of which http.server reads lines only

    def handle_one_request(self) -> None:
        self.head.begin()
        super().handle_one_request()

    def do_GET(self) -> None:  # http.server's name
        self._respond()

    def do_HEAD(self) -> None:  # http.server's name
        self._respond(with_body=False)

    def _respond(self, with_body: bool = True) -> None:
        answer = self._answer()
        if answer is None:
            return
        self.send_response(answer.status)
        for name, value in {
            "Content-Type": answer.content_type,
            "Content-Length": str(len(answer.body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            **answer.headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        # Without TLS, the timeout is for all bytes of a call. The connection as a whole has a longer one.
        for begin in range(0, len(answer.body) if with_body else 0, PIECE):
            self.wfile.write(answer.body[begin : begin + PIECE])

    def _answer(self) -> Answer | None:
        """The answer; None if nobody waits for it any more."""
        path, _, query = self.path.partition("?")
        is_trusted = self.server.guard.admits(self.headers.get("Authorization", ""))
        if not is_trusted and path not in OPEN:
            return UNAUTHORIZED
        if (route := self.server.routes.get(path)) is None:
            return Answer(TEXT, f"try {', '.join(self.server.routes)}\n".encode(), 404)
        request = Request(parse_qs(query), self.headers.get("Accept", ""), is_trusted)
        if path in OPEN:  # no probe waits for a page
            return route(request)
        with self.server.connections.turn(self.connection) as has_turn:
            return route(request) if has_turn else None

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: scrapes and health checks are not events."""


class WebServer:
    """Answers GET and HEAD requests by their path, in threads of its own, until stopped."""

    def __init__(self, http: Http, routes: Mapping[str, Route]) -> None:
        """Raises SetupError."""
        try:
            self._guard = Guard(http)
        except (OSError, ValueError) as error:
            said = f"http: tls_certificate and tls_key can't be used: {getattr(error, 'strerror', None) or error}"
            raise SetupError(f"{said}; both must be PEM files, the key without a password") from None
        try:
            self._server = _Server((http.host, http.port), self._guard, routes)
        except OSError as error:
            raise SetupError(f"http: can't listen on {http.host}:{http.port}: {error.strerror}") from error
        self.port: int = self._server.server_address[1]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True, name="http")
        self._thread.start()
        if self._guard.has_files:
            threading.Thread(target=self._look, daemon=True, name="http files").start()

    @property
    def certificate_expiry(self) -> float | None:
        """When the certificate that clients see expires, in seconds since the Unix epoch; None without one."""
        return self._guard.expiry

    def _look(self) -> None:
        """Follow the files. It has a thread of its own: a file system that does not answer holds up nothing else."""
        while not self._stopping.wait(LOOK_INTERVAL):
            try:
                self._guard.look()
            except Exception:  # the server goes on with what it has
                log.exception(BUG)

    def stop(self) -> None:
        """Stop listening."""
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
