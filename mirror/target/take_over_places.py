"""The few places for partitions that are taken over at the same time.

Who has something to do goes first, and who has failed goes last: a take-over that can't succeed has its place until its
time is over, again and again. Others must not wait for that.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TypeAlias

TAKE_OVERS_MAX = 32  # at once: each is half a dozen requests, and a task may begin with thousands of partitions

Queue: TypeAlias = "OrderedDict[Place, asyncio.Future[None]]"


class Places:
    """The places of one task. It belongs to one event loop."""

    def __init__(self, most: int = TAKE_OVERS_MAX) -> None:
        self._free = most
        self._kept = most // 4  # of these, places that nobody gets who has failed
        self._first: Queue = OrderedDict()  # they have something to do
        self._others: Queue = OrderedDict()
        self._last: Queue = OrderedDict()  # they have failed

    @property
    def free(self) -> int:
        """How many more may take over now."""
        return self._free

    async def enter(self, place: Place) -> None:
        """Wait for a place."""
        if self._free > (self._kept if place.has_failed else 0):
            self._free -= 1
            return
        queue = self._last if place.has_failed else self._first if place.hurries else self._others
        turn = queue[place] = asyncio.get_running_loop().create_future()
        try:
            await turn
        except BaseException:
            self._withdraw(place)
            if not turn.cancelled() and not turn.exception():  # its turn had just come
                self.leave()
            raise

    def leave(self) -> None:
        """The place is free for whoever waits."""
        self._free += 1
        for queue, kept in ((self._first, 0), (self._others, 0), (self._last, self._kept)):
            while queue and self._free > kept:
                _, turn = queue.popitem(last=False)
                if not turn.done():
                    self._free -= 1
                    turn.set_result(None)
                    return

    def hurry(self, place: Place) -> None:
        """Whoever waits for the place has something to do. If it has failed, that changes nothing."""
        if turn := self._others.pop(place, None):
            self._first[place] = turn

    def give_up(self, place: Place, why: Exception) -> None:
        """Whoever waits for the place gets `why`."""
        turn = self._withdraw(place)
        if turn and not turn.done():
            turn.set_exception(why)

    def _withdraw(self, place: Place) -> asyncio.Future[None] | None:
        found = [queue.pop(place, None) for queue in (self._first, self._others, self._last)]
        return next(filter(None, found), None)


class Place:
    """One copier's place: a context manager, which waits for it."""

    def __init__(self, places: Places) -> None:
        self.hurries = False
        self.has_failed = False  # when it had the place last
        self._places = places
        self._given_up: Exception | None = None

    def hurry(self) -> None:
        """There is something to do: go before those that have nothing, from now on."""
        self.hurries = True
        self._places.hurry(self)

    def give_up(self, why: Exception) -> None:
        """Wait no more, and never again: whoever waits gets `why`."""
        self._given_up = why
        self._places.give_up(self, why)

    async def __aenter__(self) -> None:
        if self._given_up:
            raise self._given_up
        await self._places.enter(self)

    async def __aexit__(self, error: type[BaseException] | None, *_: object) -> None:
        self.has_failed = error is not None
        self._places.leave()
