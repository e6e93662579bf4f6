"""`/metrics`, `/livez` and `/readyz` over HTTP."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from mirror.errors import SetupError
from mirror.settings import Http

Health = Callable[[], list[str]]  # what is wrong; empty: all is well


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no event."""


class WebServer:
    """Answers until stopped. `live` must not depend on any cluster; `ready` may."""

    def __init__(self, http: Http, registry: CollectorRegistry, live: Health, ready: Health) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = 10  # seconds; an idle connection must not hold its thread

            def do_GET(self) -> None:  # http.server's name
                path = self.path.partition("?")[0]
                if path == "/metrics":
                    self._answer(200, CONTENT_TYPE_LATEST, generate_latest(registry))
                elif path in ("/livez", "/readyz"):
                    problems = live() if path == "/livez" else ready()
                    text = "\n".join(problems or ["ok"]) + "\n"
                    self._answer(503 if problems else 200, "text/plain; charset=utf-8", text.encode())
                else:
                    self._answer(404, "text/plain; charset=utf-8", b"try /metrics, /livez or /readyz\n")

            def _answer(self, status: int, content_type: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Scrapes and probes are not events."""

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
