"""An OIDC server that gives a token to whoever asks. Nobody signs it: only brokers that believe anybody take it."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class TokenServer:
    """A context manager. `asked` has the credentials and the form of each request. `life` (s) is that of its tokens."""

    def __init__(self, life: int) -> None:
        self.life = life
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
        """An unsecured JWS (RFC 7515)."""
        now = time.time()
        claims = {"sub": "mirror", "scope": "kafka", "iat": now - 2000, "exp": now + self.life}
        parts = (base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in ({"alg": "none"}, claims))
        return b".".join(parts).decode() + "."

    def __enter__(self) -> TokenServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
