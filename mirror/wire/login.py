"""Logs in on a connection, for the first time and again (KIP-368)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Protocol, TypeVar

from mirror.errors import LoginRefused
from mirror.text import listed, said
from mirror.wire.auth import Exchange, Login, bearer_token
from mirror.wire.error_codes import CODES, name_of
from mirror.wire.greeting import sasl_authenticate, sasl_handshake
from mirror.wire.requests import Request

T = TypeVar("T")

OFFERED_MAX = 10  # mechanisms that are shown
MESSAGE_MAX = 30.0  # seconds to make a message, for which a token may have to be fetched


class Ask(Protocol):
    """Sends a request on the connection, and waits for its answer. Raises WireError."""

    async def __call__(self, request: Request[T]) -> T:
        """Ask."""


async def authenticate(ask: Ask, login: Login, name: str, threads: Executor | None = None) -> float:
    """Log in. Returns for how many seconds the login lasts, 0 for ever. `name` is the broker's.

    One of `threads` makes each message (by default, one of asyncio's): a token may have to be fetched, and SCRAM's
    hashes take some milliseconds. How long an answer may take is the connection's concern: what was sent before is
    answered first, and a quota may delay it. Raises WireError, and TimeoutError if a message takes too long.
    """
    run = partial(_made, threads)
    error, offered = await ask(sasl_handshake(login.mechanism))
    if error == CODES["UNSUPPORTED_SASL_MECHANISM"]:
        shown = listed([said(each) for each in offered], OFFERED_MAX, ", ")
        raise LoginRefused(f"{name} does not offer {login.mechanism}, but {shown}", error)
    if error:
        raise LoginRefused(f"{name} refuses {login.mechanism}: {name_of(error)}", error)
    exchange = await run(login.exchange)
    message, lasts = next(exchange), 0
    secrets = [each for each in (login.password, bearer_token(message)) if each]
    while True:
        reply = await ask(sasl_authenticate(message))
        if reply.error:
            repeats = any(each in reply.message for each in secrets)
            why = "" if repeats else said(reply.message)
            raise LoginRefused(f"{name} refuses the login: {why or name_of(reply.error)}", reply.error)
        lasts = reply.lasts
        more = await run(_next, exchange, reply.answer)
        if more is None:
            return lasts / 1000
        message = more


async def _made(threads: Executor | None, make: Callable[..., T], *arguments: object) -> T:
    async with asyncio.timeout(MESSAGE_MAX):
        return await asyncio.get_running_loop().run_in_executor(threads, make, *arguments)


def _next(exchange: Exchange, answer: bytes) -> bytes | None:
    """Our next message; None after the last one. A StopIteration could not leave a thread."""
    with contextlib.suppress(StopIteration):
        return exchange.send(answer)
    return None
