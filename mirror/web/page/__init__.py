"""The status page: HTML made from an overview, with its style and script as files beside this module."""

from __future__ import annotations

from pathlib import Path

from mirror.status.overview import Overview
from mirror.web.page.render import render
from mirror.web.server import Answer, Request, Route

HTML = "text/html; charset=utf-8"
FILES = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}

# The page loads and runs only what this server sends, and no other page may frame it.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}


def page(overview: Overview, request: Request) -> Answer:
    """The page. Each `open` in the query names a topic, as source->target/topic, whose partitions are shown."""
    return Answer(HTML, render(overview, frozenset(request.query.get("open", ()))), headers=HEADERS)


def files() -> dict[str, Route]:
    """The routes of the files that the page loads."""
    return {f"/{name}": _file(name, content_type) for name, content_type in FILES.items()}


def _file(name: str, content_type: str) -> Route:
    answer = Answer(content_type, Path(__file__).with_name(name).read_bytes(), headers=HEADERS)
    return lambda _: answer
