"""The connections to one broker: never more than a bound, and never opened faster than a back-off."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping

from mirror.backoff import Backoff
from mirror.errors import Malformed, Unavailable, WireError
from mirror.wire.access import Access, Address
from mirror.wire.connection import Connection

RECONNECT, RECONNECT_MAX = 0.05, 2.0  # seconds between attempts to connect
LASTING = 5.0  # seconds; a connection that breaks off sooner is one more failure in a row
IDLE_MAX = 540.0  # seconds; brokers close a connection after 600, perhaps just when a request is on its way

OTHER_PURPOSE = "other"  # of requests that delay nothing if they wait
# The most connections to one broker, by purpose. Their sum is the hard bound.
MOST_CONNECTIONS: Mapping[str, int] = {
    OTHER_PURPOSE: 1,
    "fetch": 1,
    "look": 1,
    "first": 4,
    "produce": 4,
    "unreplicated": 2,
    "coordinator": 4,
}


class Connections:
    """The connections to a broker that serve one purpose, so that requests with another one do not wait for them.

    A broker looks at the next request of a connection only after it has answered the last one.
    """

    def __init__(self, pool: Pool, most: int) -> None:
        self._pool = pool
        self._most = most
        self._open: list[Connection] = []
        self._opening = deque[asyncio.Task[Connection]]()
        self._closed = False

    async def connection(self) -> Connection:
        """The connection with the fewest requests, or another one while all are busy. Raises WireError.

        One that was retired gets no more requests, unless the others would be too many.
        """
        if self._closed:  # who had begun to ask comes too late: nobody would close another connection
            raise Unavailable("the connections were closed")
        now = asyncio.get_running_loop().time()
        for each in self._open:
            if not each.pending and now - each.used_at > IDLE_MAX:
                each.close()
        self.notice()
        full = len(self) >= self._most
        usable = [each for each in self._open if not each.retired]
        if full and not usable and not self._opening:
            usable = self._open
        best = min(usable, key=lambda each: each.pending, default=None)
        if best and (not best.pending or full):
            return best
        if not full and not (best and self._pool.waits):
            self._pool.permit()
            task = asyncio.create_task(self._opened())
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # perhaps nobody waits for it
            self._opening.appendleft(task)
        if best:
            return best
        self._opening.rotate(-1)  # who waits takes turns, or one connection would get nearly all requests
        return await self._awaited(self._opening[-1])

    def notice(self) -> None:
        """Tell the pool of connections that have failed since, and forget all that are closed."""
        for each in self._open:
            if each.closed:
                self._note_end(each, each.closed)
        self._open = [each for each in self._open if not each.closed]

    def _note_end(self, ended: Connection, why: WireError) -> None:
        lasted = ended.closed_at - ended.opened_at
        if ended.broken or (lasted < LASTING and not ended.retired):
            # Malformed tells of the answer to a request. Who wants another connection has sent none.
            told = Unavailable(str(why)) if isinstance(why, Malformed) else why
            self._pool.failed(told, lasted, ended.closed_at)

    async def _awaited(self, opening: asyncio.Task[Connection]) -> Connection:
        """Whoever waits may be cancelled, but others still want the connection."""
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            waiting = asyncio.current_task()
            if opening.cancelled() and not (waiting and waiting.cancelling()):
                raise Unavailable("the connections were closed") from None
            raise

    async def _opened(self) -> Connection:
        task = asyncio.current_task()
        try:
            found = await self._pool.open()
            self._open.append(found)
            self.renew(self._pool.access)  # which may have changed meanwhile
            return found
        finally:
            self._opening = deque(each for each in self._opening if each is not task)

    @property
    def quiet_until(self) -> float:
        """Until when a quota holds requests back, by the loop's clock, on one of the connections at least."""
        return max((each.quiet_until for each in self._open if not each.closed), default=0.0)

    def renew(self, access: Access) -> None:
        """Log in so again where a login ends, but only as the same user: brokers refuse any other one (KIP-368)."""
        for each in self._open:
            if each.access.login and each.access.login.is_of_same_user(access.login):
                each.access = access

    def close(self, reason: WireError | None = None) -> None:
        """Close all connections, and open none any more, nor those that were being opened."""
        self._closed = True
        for task in self._opening:
            task.cancel()
        for each in self._open:
            each.close(reason)

    def __len__(self) -> int:
        return len(self._open) + len(self._opening)


class Pool:
    """All connections to the broker at one address, with a bound for each purpose."""

    def __init__(self, address: Address, access: Access) -> None:
        self.address = address
        self.access = access  # of the next connection
        self._by_purpose: dict[str, Connections] = {}
        self._backoff = Backoff(RECONNECT, RECONNECT_MAX)
        self._not_before = self._opened_at = 0.0
        self._failure: WireError | None = None
        self.silent = False  # True while an attempt to connect takes so long that others were asked
        self._has_failed = False  # has a connection, or an attempt, since one was opened?
        self._probing = False  # is a connection tried, after a failure?

    @property
    def failing(self) -> bool:
        """True after an attempt to connect has failed, until one succeeds."""
        return self._failure is not None

    def is_doubtful(self) -> bool:
        """True if others should be asked first: this broker is silent, or the last thing that we know is a failure."""
        for each in self._by_purpose.values():
            each.notice()
        return self._has_failed or self.silent

    @property
    def waits(self) -> bool:
        """True while no attempt to connect is permitted: it is too early for another one, or one is under way."""
        early = asyncio.get_running_loop().time() < self._not_before
        return self.failing and (self._probing or early)

    def connections(self, purpose: str, most: int) -> Connections:
        """The connections that serve one purpose."""
        if purpose not in self._by_purpose:
            self._by_purpose[purpose] = Connections(self, most)
        return self._by_purpose[purpose]

    def renew(self, access: Access) -> None:
        """Connect, and log in again on connections that are open, in this way from now on."""
        self.access = access
        for each in self._by_purpose.values():
            each.renew(access)

    def permit(self) -> None:
        """Raise the last failure again while no attempt is permitted."""
        if self._failure:
            if self.waits:
                raise self._failure.with_traceback(None)  # else it would grow each time
            self._probing = True

    async def open(self) -> Connection:
        """Open a connection. Raises WireError."""
        try:
            found = await Connection.open(self.address, self.access)
        except WireError as error:
            self.failed(error)
            raise
        except RuntimeError as error:  # the machine has no thread left for this one
            failure = Unavailable(f"{self.access.name_of(self.address)}: {error}")
            self.failed(failure)
            raise failure from error
        finally:
            self._probing = self.silent = False
        self._failure, self._has_failed = None, False
        self._opened_at = found.opened_at
        return found

    def failed(self, error: WireError, lasted: float = 0.0, at: float | None = None) -> None:
        """Wait before the next attempt to connect: the longer, the more have failed in a row.

        `at` is when that was, by the loop's clock, if not now: a connection is looked at only when it is needed next.
        """
        now = asyncio.get_running_loop().time()
        at, lasting = now if at is None else at, lasted > LASTING
        self._has_failed = self._has_failed or at >= self._opened_at
        if at < self._not_before or (lasting and at < self._opened_at):  # all connections break off at once
            return
        if lasting:
            self._backoff.reset()
        self._not_before = at + self._backoff.next()
        if now < self._not_before:
            self._failure = error

    def close(self) -> None:
        """Close all connections."""
        for each in self._by_purpose.values():
            each.close()
        self._by_purpose.clear()

    def __len__(self) -> int:
        return sum(map(len, self._by_purpose.values()))
