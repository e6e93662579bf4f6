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
from mirror.settings import Http
from mirror.text import BUG

log = logging.getLogger(__name__)

TEXT = "text/plain; charset=utf-8"

Health = Callable[[], list[str]]  # the problems; empty if there are none


@dataclass(frozen=True, slots=True)
class Request:
    """What a route needs of a client's request."""

    query: Mapping[str, list[str]]
    accept: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to a request."""

    content_type: str
    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Route = Callable[[Request], Answer]


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
    """A route that gives 200 and what `well` says, or 503 and the problems."""

    def answer(_: Request) -> Answer:
        problems = check()
        return Answer(TEXT, ("\n".join(problems or [well()]) + "\n").encode(), 503 if problems else 200)

    return answer


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Log what is not just a client that has gone away."""
        if not isinstance(sys.exc_info()[1], OSError):
            log.exception(BUG, extra={"http": str(client_address)})


class WebServer:
    """Answers GET requests by their path, in threads of its own, until stopped."""

    def __init__(self, http: Http, routes: Mapping[str, Route]) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = 10  # seconds; an idle connection must not hold its thread
            server_version, sys_version = "mirror", ""

            def do_GET(self) -> None:  # http.server's name
                path, _, query = self.path.partition("?")
                route = routes.get(path)
                if route is None:
                    answer = Answer(TEXT, f"try {', '.join(routes)}\n".encode(), 404)
                else:
                    answer = route(Request(parse_qs(query), self.headers.get("Accept", "")))
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
                self.wfile.write(answer.body)

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing: scrapes and health checks are not events."""

        try:
            self._server = _Server((http.host, http.port), Handler)
        except OSError as error:
            raise SetupError(f"http: can't listen on {http.host}:{http.port}: {error.strerror}") from error
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True, name="http")
        self._thread.start()

    def stop(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
