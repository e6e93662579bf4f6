"""Asks the coordinators of consumer groups with mirror's own client."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from mirror.backoff import Backoff
from mirror.errors import Unavailable
from mirror.wire.cluster import Cluster
from mirror.wire.connection import Connection
from mirror.wire.metadata import GROUP

T = TypeVar("T")

FIND_TIMEOUT = 10.0  # seconds
LATE = "no answer in time"


async def find_group_coordinators(client: Cluster, groups: Iterable[str]) -> None:
    """Find the coordinators of many groups by one request.

    The client spares brokers: of questions that follow each other, each waits for up to half a second. Whoever is not
    found now is looked for again when it is asked, and that tells the reason.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FIND_TIMEOUT):
            await asyncio.gather(*(client.coordinator(GROUP, group) for group in groups), return_exceptions=True)


async def asked(
    client: Cluster, group: str, ask: Callable[[Connection], Awaitable[T]], timeout: float, until: float = math.inf
) -> T:
    """Ask the group's coordinator, which may move or load meanwhile.

    `ask` gets the connection to it. It is called again, at the coordinator as it is then, as long as it raises
    Unavailable, but not after `until` on the monotonic clock. Raises WireError; after `timeout` seconds or `until`, the
    last Unavailable.
    """
    backoff, reason = Backoff(0.02, 0.5), Unavailable(LATE)
    try:
        async with asyncio.timeout(timeout):
            while True:
                try:
                    return await ask(await client.connection(await client.coordinator(GROUP, group)))
                except Unavailable as error:
                    reason = error
                client.forget_coordinator(GROUP, group)
                await asyncio.sleep(backoff.next())
                if time.monotonic() >= until:
                    raise reason
    except TimeoutError:
        raise reason from None
