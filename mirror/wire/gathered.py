"""Joins questions that are asked at about the same time into one request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Set
from typing import Generic, TypeVar

from mirror.backoff import Backoff
from mirror.errors import Unavailable, WireError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

INTERVAL, INTERVAL_MAX = 0.02, 0.5  # seconds between two requests: the longer, the more follow each other
QUIET = 1.0  # seconds without a request, after which the next one is the first again


class Gathered(Generic[K, V]):
    """Answers by key. A thousand partitions that lose their leader together cost one request, not a thousand.

    `ask` gets the keys, and returns what is known of each, or raises WireError for all.
    """

    def __init__(self, ask: Callable[[Set[K]], Awaitable[Mapping[K, V]]]) -> None:
        self._ask = ask
        self._waiting: dict[K, list[asyncio.Future[V]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._backoff = Backoff(INTERVAL, INTERVAL_MAX)
        self._not_before = self._quiet_at = 0.0

    async def get(self, key: K) -> V:
        """Ask for this key, together with others. Raises WireError."""
        future: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append(future)
        if not self._task or self._task.done():
            self._task = asyncio.create_task(self._run())
        return await future

    def close(self) -> None:
        """Fail all questions."""
        if self._task:
            self._task.cancel()
            self._task = None  # whoever asks later would wait for it
        self._fail(self._taken(), Unavailable("the cluster's connections were closed"))

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            await asyncio.sleep(max(0.0, self._not_before - loop.time()))
            if loop.time() > self._quiet_at:
                self._backoff.reset()
            self._not_before = loop.time() + self._backoff.next()
            self._quiet_at = self._not_before + QUIET
            some = self._taken()
            try:
                found = await self._ask(some.keys())
            except WireError as error:
                self._fail(some, error)
                continue
            except BaseException:  # whatever it is: nobody else would tell those who wait
                given_up = Unavailable("the request was given up")
                self._fail(some, given_up)
                self._fail(self._taken(), given_up)
                raise
            for key, futures in some.items():
                for future in futures:
                    if not future.done():
                        future.set_result(found[key])

    def _taken(self) -> dict[K, list[asyncio.Future[V]]]:
        some, self._waiting = self._waiting, {}
        return some

    @staticmethod
    def _fail(some: Mapping[K, list[asyncio.Future[V]]], error: WireError) -> None:
        for futures in some.values():
            for future in futures:
                if not future.done():
                    future.set_exception(error)
