"""An OIDC server that gives a token to whoever asks.

Without a key nobody signs the tokens: only brokers that believe anybody take them.
"""

from __future__ import annotations

import base64
import json
import math
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.harness.certificates import signature

ISSUER, AUDIENCE = "https://tokens.test", "kafka"


class TokenServer:
    """A context manager. `asked` has the credentials and the form of each request. `life` (s) is that of its tokens."""

    def __init__(self, life: int, key: Path | None = None, subject: str = "mirror") -> None:
        """Give a `key` (RSA, PEM) to have the tokens signed, for brokers that check signatures."""
        self.life = life
        self.key, self._subject = key, subject
        self.status = 200
        self.asked: list[tuple[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                basic = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
                outer.asked.append((basic, form))
                body = json.dumps({"access_token": outer.token(), "expires_in": max(1, outer.life)}).encode()
                self.send_response(outer.status)
                self.send_header("Content-Type", "application/json")  # librdkafka insists on it
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where tokens are."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/token"

    def token(self) -> str:
        """A signed or an unsecured JWS (RFC 7515)."""
        now = time.time()
        header = {"alg": "none"} if self.key is None else {"alg": "RS256", "kid": "test", "typ": "JWT"}
        claims: dict[str, object] = {"sub": self._subject, "scope": "kafka", "iss": ISSUER, "aud": AUDIENCE}
        # Whole seconds, and not before the life that is promised is over: a login again is due at 85 % of it.
        claims |= {"iat": int(now) - 2000, "exp": math.ceil(now) + self.life}
        signed = b".".join(_encoded(json.dumps(each).encode()) for each in (header, claims))
        proof = b"" if self.key is None else _encoded(signature(self.key, signed))
        return (signed + b"." + proof).decode()

    def __enter__(self) -> TokenServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _encoded(part: bytes) -> bytes:
    return base64.urlsafe_b64encode(part).rstrip(b"=")
