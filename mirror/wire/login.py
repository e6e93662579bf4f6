"""Logs in on a connection, for the first time and again (KIP-368)."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol, TypeVar

from mirror.errors import LoginRefused
from mirror.text import listed, said
from mirror.wire.auth import Exchange, Login, bearer_token
from mirror.wire.error_codes import CODES, name_of
from mirror.wire.greeting import sasl_authenticate, sasl_handshake
from mirror.wire.requests import Request

T = TypeVar("T")

OFFERED_MAX = 10  # mechanisms that are shown


class Ask(Protocol):
    """Sends a request on the connection, and waits for its answer. Raises WireError."""

    async def __call__(self, request: Request[T]) -> T:
        """Ask."""


async def authenticate(ask: Ask, login: Login, name: str) -> float:
    """Log in. Returns for how many seconds the login lasts, 0 for ever. Raises WireError; `name` is the broker's."""
    error, offered = await ask(sasl_handshake(login.mechanism))
    if error == CODES["UNSUPPORTED_SASL_MECHANISM"]:
        shown = listed([said(each) for each in offered], OFFERED_MAX, ", ")
        raise LoginRefused(f"{name} does not offer {login.mechanism}, but {shown}", error)
    if error:
        raise LoginRefused(f"{name} refuses {login.mechanism}: {name_of(error)}", error)
    # A token may have to be fetched, and SCRAM's hashes take some milliseconds.
    exchange = await asyncio.to_thread(login.exchange)
    message, lasts = next(exchange), 0
    secrets = [each for each in (login.password, bearer_token(message)) if each]
    while True:
        reply = await ask(sasl_authenticate(message))
        if reply.error:
            repeats = any(each in reply.message for each in secrets)
            why = "" if repeats else said(reply.message)
            raise LoginRefused(f"{name} refuses the login: {why or name_of(reply.error)}", reply.error)
        lasts = reply.lasts
        more = await asyncio.to_thread(_next, exchange, reply.answer)
        if more is None:
            return lasts / 1000
        message = more


def _next(exchange: Exchange, answer: bytes) -> bytes | None:
    """Our next message; None after the last one. A StopIteration could not leave a thread."""
    with contextlib.suppress(StopIteration):
        return exchange.send(answer)
    return None
