"""One connection to a broker: requests are sent one after the other without a wait, and answered in that order."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Self, TypeVar

from mirror.errors import Malformed, Unanswered, Unavailable, WireError
from mirror.wire.access import Access, Address
from mirror.wire.greeting import API_VERSIONS, Abilities, api_versions
from mirror.wire.incoming import Incoming
from mirror.wire.login import authenticate
from mirror.wire.requests import Api, Request
from mirror.wire.sent import Sent
from mirror.wire.stream import Stream, bare, failed

T = TypeVar("T")

TIMEOUT = 10.0  # seconds to connect, and for each answer after the one before it
THROTTLE_MAX = 60.0  # seconds; brokers throttle for a few
STILL = 1.0  # seconds by which a timer is late when the loop, or the machine, stood still
TAKEN = 2**14  # bytes of a request that, once the broker has them, give it more time; a very slow link can do that
LOOK = 1.0  # seconds after which we look how much of a larger request it has
RENEWED_AFTER = 0.85  # of the time for which a login lasts (KIP-368), as Java's client does it
READS = 64  # most reads, of 16 KiB with TLS, before others have their turn

_INT = struct.Struct(">i")


class Connection:
    """A connection to one broker, logged in. It belongs to one event loop.

    Any error closes it, because nobody knows where the next answer begins. Then whoever waits gets the error: Malformed
    for an answer that can't be read, Unanswered for other requests that were sent, Unavailable for those that were not.
    """

    def __init__(self, stream: Stream, address: Address, access: Access) -> None:
        self.name = access.name_of(address)
        self.abilities = Abilities({API_VERSIONS.key: (0, API_VERSIONS.last)})
        self.access = access  # also of the next login, on the same connection
        self._client = access.client.encode()
        self._loop = asyncio.get_running_loop()
        self.opened_at = self.used_at = self._loop.time()
        self.closed_at = float("inf")
        self.broken = False  # True if it failed while somebody waited
        self.retired = False  # True if it should get no more requests
        self._stream = stream
        self._closed: WireError | None = None
        self._correlation = 0
        self._out: deque[memoryview] = deque()
        self._flushing = False
        self._sent: deque[Sent[Any]] = deque()
        self._held: deque[Sent[Any]] = deque()  # they wait while we log in, or are throttled
        self.quiet_until = 0.0  # by the loop's clock: a quota holds requests back until then (KIP-219)
        self._due = 0.0  # when the next answer is overdue
        self._written = 0  # bytes of all requests
        self._to_go = 0  # of these, those of the request answered next that the broker did not have when we looked
        self._login_until = float("inf")
        self._logging_in: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._incoming = Incoming(self.name, stream, access.batch_max, self._expected, self._answered, self._extend)
        stream.on_readable, stream.on_writable = self._readable, self._flush
        stream.start()

    @classmethod
    async def open(cls, address: Address, access: Access) -> Self:
        """Connect and log in. Raises WireError."""
        with failed(access.name_of(address), "can't be reached"):
            stream = await Stream.open(address, access, TIMEOUT)
        found = cls(stream, address, access)
        try:
            await found._greet()
            await found._log_in()
        except BaseException as error:
            found.close()
            if isinstance(error, Unanswered):  # these requests are ours: what the caller asks for was not sent
                raise Unavailable(str(error)) from error
            raise
        return found

    @property
    def pending(self) -> int:
        """How many requests wait for an answer. Of those that were not sent, only who has not given up waits."""
        return len(self._sent) + sum(not each.future.cancelled() for each in self._held)

    @property
    def closed(self) -> WireError | None:
        """Why it is closed; None while it is open."""
        return self._closed

    def close(self, reason: WireError | None = None) -> None:
        """Close the connection. Whoever waits for an answer gets an error."""
        if self._closed:
            return
        self._closed = reason or Unavailable(f"the connection to {self.name} was closed")
        self.closed_at = self._loop.time()
        self._stream.close()
        self._incoming.drop()
        if self._timer:
            self._timer.cancel()
        if self._logging_in:
            self._logging_in.cancel()
        sent, held = list(self._sent), list(self._held)
        self.broken = bool(reason and (sent or held))
        self._sent.clear()
        self._held.clear()
        self._out.clear()
        if sent and isinstance(reason, Malformed):
            sent.pop(0).fail(Malformed(str(reason)))  # it is the answer to this one that can't be read
        for each in sent:
            each.fail(Unanswered(str(self._closed)))
        for each in held:
            each.fail(Unavailable(str(self._closed)))

    def retire(self) -> None:
        """Close the connection as soon as nobody waits for an answer. Who calls it has given up."""
        self.retired = True
        if all(each.future.done() for each in (*self._sent, *self._held)):
            self.close()

    def version(self, api: Api) -> int:
        """The version of a request that is used here. Raises Unsupported."""
        return api.version(self.abilities.versions)

    def send(self, request: Request[T]) -> asyncio.Future[T]:
        """Send a request after those before it. The answer comes later, and need not be waited for.

        Raises Unavailable if the connection is closed, and Unsupported. How many requests are under way is the
        caller's concern.
        """
        if self._closed:
            raise Unavailable(str(self._closed))
        sent: Sent[T] = Sent(request, self.version(request.api), self._loop.create_future())
        self.used_at = self._loop.time()
        self._held.append(sent)
        if self.used_at >= self.quiet_until:
            self._release()
        return sent.future

    async def ask(self, request: Request[T]) -> T:
        """Send a request and wait for its answer. Raises WireError."""
        return await self.send(request)

    async def _greet(self) -> None:
        self.abilities = await self.ask(api_versions())
        if not self.abilities.known:
            self.abilities = Abilities({API_VERSIONS.key: (0, 0)})
            self.abilities = await self.ask(api_versions())

    async def _log_in(self) -> None:
        if self.access.login:
            begun = self._loop.time()
            with failed(self.name, "can't be logged in to"):
                lasts = await authenticate(self._now, self.access.login, self.name, self.access.threads)
            self._login_until = begun + RENEWED_AFTER * lasts if lasts else float("inf")

    async def _now(self, request: Request[T]) -> T:
        """Ask before the requests that are held back. The broker takes no others while we log in."""
        if self._closed:  # while a message was made
            raise Unavailable(str(self._closed))
        sent: Sent[T] = Sent(request, self.version(request.api), self._loop.create_future())
        self._transmit(sent)
        return await sent.future

    async def _log_in_again(self) -> None:
        """Without another connection (KIP-368). Answers to what was sent before come meanwhile."""
        try:
            await self._log_in()
        except BaseException as error:  # whatever it is: nobody else would tell those who are held back
            self._logging_in = None
            self.close(error if isinstance(error, WireError) else None)
            if not isinstance(error, WireError):
                raise
        else:
            self._logging_in = None
            self._release(logged_in=True)

    def _transmit(self, sent: Sent[Any]) -> None:
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        self._out.append(memoryview(sent.header(self._correlation, self._client) + sent.parts[0]))
        self._out.extend(memoryview(part) for part in sent.parts[1:] if len(part))
        sent.parts.clear()
        self._written = sent.end = self._written + sent.size
        self._sent.append(sent)
        if len(self._sent) == 1:
            self._await_next()
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Send what requests of this turn of the loop have written, in one call."""
        self._flushing = False
        if not self._closed:
            self._guarded(lambda: self._stream.write(self._out))

    def _release(self, logged_in: bool = False) -> None:
        """Send what was held back, unless we have to wait longer, or to log in before it."""
        now = self._loop.time()
        if self._closed or self._logging_in or not self._held:
            return
        if now < self.quiet_until:
            self._loop.call_at(self.quiet_until, self._release)
            return
        if now >= self._login_until and not logged_in:  # however short it was: what waits is sent after one login
            self._logging_in = self._loop.create_task(self._log_in_again())
            return
        while self._held:
            held = self._held.popleft()
            if not held.future.cancelled():  # who has given up wants no effect any more
                self._transmit(held)

    def _await_next(self) -> None:
        """Give the next answer its time, which begins now: a broker answers one request after the other."""
        first = self._sent[0]
        begins = max(self._loop.time(), self.quiet_until)  # a broker that throttles reads none meanwhile (KIP-219)
        self._due = begins + TIMEOUT + first.request.wait
        self._to_go = first.size if first.size > TAKEN else 0
        self._look_later()

    def _look_later(self) -> None:
        at = min(self._due, self._loop.time() + LOOK) if self._to_go else self._due
        if self._timer and self._timer.when() > at:
            self._timer.cancel()
            self._timer = None
        if not self._timer:
            self._timer = self._loop.call_at(at, self._look_at_time, at)

    def _look_at_time(self, due: float) -> None:
        """Close the connection if an answer is overdue, else look again when the next one would be."""
        self._timer = None
        now = self._loop.time()
        if now - due > STILL or self._has_taken_more():
            self._extend()
        if self._sent and now >= self._due:
            self.close(Unavailable(f"{self.name} does not answer: timed out"))
        elif self._sent:
            self._look_later()

    def _has_taken_more(self) -> bool:
        """True if the broker has more of a large request than before: then the link is slow, but works."""
        if not (self._sent and self._to_go):
            return False
        left = max(0, self._sent[0].end - self._written + sum(map(len, self._out)) + self._stream.untaken())
        if left > max(0, self._to_go - TAKEN):
            return False
        self._to_go = left
        return True

    def _readable(self) -> None:
        self._guarded(self._read)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Close the connection after any error, for nobody else would tell those who wait."""
        try:
            with failed(self.name, "closes the connection or breaks off"):
                step()
        except WireError as error:
            self.close(bare(error))
        except BaseException as error:
            self.close(Malformed(f"{self.name}: {type(error).__name__} while an answer was read"))
            raise

    def _read(self) -> None:
        for _ in range(READS):
            if not self._incoming.read() or self._closed or not self._stream.reads_parts:
                break
        else:
            self._loop.call_soon(self._again)
        if self._out and not self._closed:
            self._stream.write(self._out)  # TLS may have waited until something was read

    def _again(self) -> None:
        if not self._closed:
            self._readable()

    def _expected(self) -> Request[Any] | None:
        return self._sent[0].request if self._sent else None

    def _extend(self) -> None:
        """Give the next answer more time: it or its request keeps moving, or we have not listened."""
        self._due = max(self._due, self._loop.time() + TIMEOUT)

    def _answered(self, frame: memoryview) -> None:
        (correlation,) = _INT.unpack_from(frame)
        if not self._sent or correlation != self._sent[0].correlation:
            raise Malformed(f"{self.name} answers a request that was not sent")
        sent = self._sent[0]
        found, throttled = sent.request.decode(sent.version, frame[_INT.size :])
        self._sent.popleft()
        if not sent.future.done():
            sent.future.set_result(found)
        if throttled > 0:
            self.access.on_throttled(throttled / 1000)
            self.quiet_until = self._loop.time() + min(throttled / 1000, THROTTLE_MAX)
            self._loop.call_at(self.quiet_until, self._release)
        if self.retired:
            self.retire()
        if self._sent:
            self._await_next()
