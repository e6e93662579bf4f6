"""What the image's HEALTHCHECK asks, against the real HTTP server."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest
from healthy import PORT, lives

from mirror.config.model import HttpModel
from mirror.service_settings import Http
from mirror.web.server import WebServer, health
from tests.harness.certificates import self_signed

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("problems", [[], ["the service's loop stands still"]])
@pytest.mark.parametrize("tls", [False, True])
def test_it_learns_whether_the_service_lives_with_and_without_tls(
    tls: bool, problems: list[str], tmp_path: Path
) -> None:
    settings = Http("127.0.0.1", 0, username="probe", password="xq7-Hunter")
    if tls:
        made = self_signed(tmp_path, "service")
        settings = Http("127.0.0.1", 0, tls_certificate=str(made.certificate), tls_key=str(made.key))
    server = WebServer(settings, {"/livez": health(lambda: problems)})
    try:
        assert lives(server.port) == (not problems)
    finally:
        server.stop()


def test_a_port_that_nobody_listens_on_is_an_error() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            lives(free.getsockname()[1])


def test_the_image_asks_the_default_port() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    (command,) = re.findall(r"^HEALTHCHECK .* CMD (\[.*\])$", dockerfile, re.MULTILINE)
    *_, script = json.loads(command)
    assert f"COPY deploy/image/healthy.py {Path(script).parent}/\n" in dockerfile
    assert HttpModel().port == PORT and f"EXPOSE {PORT}\n" in dockerfile
