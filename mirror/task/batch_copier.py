"""Copies one partition in whole batches: one coroutine that reads as the story."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import NoReturn

from mirror.control.decisions import doubt
from mirror.errors import Interleaved, PartitionError, RecordsRefused, Unanswered, Unsupported, WireError
from mirror.model import Position
from mirror.settings import Flow
from mirror.source.batch_feed import Feed, LeaveBatchPath, Span
from mirror.target.batch_session import BatchSession
from mirror.target.batch_take_over import Owner, take_over
from mirror.target.take_over_places import Place
from mirror.target.visible_records import count_between
from mirror.target.written import AppendedOffsets, Written
from mirror.task.batch_path_obstacles import obstacle
from mirror.task.batch_services import BatchServices, Books, Route
from mirror.task.batch_size import BatchSize, too_much
from mirror.task.events import SETTLE_DELAY
from mirror.task.foreign_writes import ForeignWrites, Gap
from mirror.task.known_positions import UPGRADED
from mirror.wire.fetch import TopicKey
from mirror.wire.metadata import id_of
from mirror.wire.produce import TIMEOUT as PRODUCE_TIMEOUT

log = logging.getLogger(__name__)

TRANSACTION_MAX = 4 * 2**20  # bytes
BATCHES_MAX = 500  # in a transaction: each is a request under way
LET_GO = "let_go"  # why it leaves the batch path, if another owner or the record path shall have it
INTERLEAVED_WITHIN = 60.0  # seconds; who writes to the remote partition twice in that time goes on doing so


class BatchCopier:
    """Copies until it leaves the batch path, or an error ends it. Then it can run again."""

    def __init__(
        self, services: BatchServices, route: Route, books: Books, copying: Callable[[], None] = lambda: None
    ) -> None:
        """`copying` is called when something was committed, and when there is nothing to copy."""
        self._services = services
        self._route = route
        self._books = books
        self._owner = Owner.of(self._flow, route.topic, route.partition.partition)
        self._size = BatchSize(BATCHES_MAX, self._flow.transaction_timeout, PRODUCE_TIMEOUT)
        self._drained = Position(-1, "")  # after what was read and has no records to copy
        where = {"flow": self._flow.name, **route.partition._asdict(), "remote_topic": route.topic.remote}
        self._foreign = ForeignWrites(books, where, services.clock, services.looks)
        self._interleaved: float | None = None  # when, monotonic
        self._careful = False
        self.feed: Feed | None = None  # None until the partition is taken over
        self.working_since: float | None = None  # monotonic; None while it waits for records, or for its turn
        self._copying = copying
        self._idle = False  # no records have come since it was taken over, and some time has passed
        self._against = ""  # why it stops after the running transaction; "": it does not
        self._woken = asyncio.Event()
        self._place = Place(services.taking_over)
        self._has_begun = False
        self._session: BatchSession | None = None  # the last one; None while the partition is not taken over

    def let_go(self, reason: str = LET_GO) -> None:
        """Stop after the running transaction: `run` raises LeaveBatchPath, for good."""
        self._against = reason
        self._woken.set()
        self._place.give_up(self._left(reason))
        if self.feed:
            self.feed.end(self._left(reason), drop=True)

    def forget_turns(self) -> None:
        """The throttle has changed: its turns are void, and it asks again."""
        turns = self._books.turns
        self._books.counters.throttled += turns.waited()
        turns.forget()
        self._woken.set()

    @property
    def in_transaction(self) -> bool:
        """True if a transaction was begun, and is not known to be committed."""
        return self._session is not None and self._session.in_transaction

    @property
    def _flow(self) -> Flow:
        return self._services.flow(self._route.partition.topic)

    async def run(self) -> NoReturn:
        """Take the partition over, and copy. Raises LeaveBatchPath, PartitionError, WireError."""
        feed = self._session = None
        try:
            if not self._has_begun:  # fetch already, so that who has something to copy is taken over first
                self._has_begun, feed = True, self._open()
            known = self._books.known
            at = known.resume_from
            if known.must_commit_start and not known.start.unread:  # if it is, a transaction may hold the position
                self._place.hurry()
            async with self._place:
                with self._working():
                    session = self._session = await self._take_over()
            if self._against:
                raise self._left(self._against)
            feed = self._sought(feed, at)
            self.feed, self._idle = feed, False
            while True:
                await self._step(session, feed)
        except Interleaved as error:
            if error.appended and (gap := self._foreign.noted(AppendedOffsets(*error.appended))):
                await self._look(gap)
            self._note_interleaved(error)
            raise
        except (RecordsRefused, Unsupported) as error:
            raise self._left("unsupported" if isinstance(error, Unsupported) else "target_refuses") from error
        finally:
            self.feed = None
            if feed:
                self._services.fetcher.close(feed)

    def _open(self) -> Feed:
        """Begin to fetch at the position that is known now."""
        at, partition = self._books.known.resume_from, self._route.partition
        topic = TopicKey(partition.topic, id_of(self._route.topic.topic_id))
        largest = partial(self._services.plan.largest, partition.topic)
        merged = partial(self._services.limits.at_once, partition.topic)
        feed = self._services.fetcher.open(topic, partition.partition, at.offset, at.epoch, largest, merged)
        feed.when_filled(self._place.hurry)
        return feed

    def _sought(self, feed: Feed | None, begun: Position) -> Feed:
        """A feed that begins at the position that was loaded: this one, if it has begun there."""
        at = self._books.known.resume_from
        if feed and (at.offset, at.epoch) == (begun.offset, begun.epoch):
            return feed
        if feed:
            self._services.fetcher.close(feed)
        return self._open()

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        """Something is under way that ends by itself: each request has a time-out."""
        self._progressed()
        try:
            yield
        finally:
            self.working_since = None

    def _progressed(self) -> None:
        self.working_since = self._services.clock.monotonic()

    def _left(self, reason: str) -> LeaveBatchPath:
        return LeaveBatchPath(reason, self._books.known.offset)

    def _note_interleaved(self, error: Interleaved) -> None:
        """Be careful in the next transaction. Raises LeaveBatchPath if that is needed often."""
        now, before = self._services.clock.monotonic(), self._interleaved
        if before is not None and now - before < INTERLEAVED_WITHIN:
            raise self._left("interleaved") from error
        self._interleaved, self._careful = now, True

    async def _take_over(self) -> BatchSession:
        """Fence, then load. The feed then begins at the position, which is to seek."""
        services, route, known = self._services, self._route, self._books.known
        if against := self._against or obstacle(self._flow, route.partition.topic, route.topic):
            raise self._left(against)
        last = services.unconfirmed.of(route.topic, route.partition.partition)
        taken = await take_over(services.target, self._owner, services.tokens, self._progressed, last)
        if taken.torn or doubt(taken.position, known.newest, route.topic, lambda: taken.has_records):
            raise self._left("doubted")
        services.unconfirmed.pop(self._owner.where, None)
        if taken.position is None:
            known.nothing_committed()
        elif known.loaded(taken.position):
            log.info(UPGRADED, extra={"topic": route.partition.topic, "partition": route.partition.partition})
        if not known.position.belongs_to(route.topic.topic_id):
            raise self._left("recreated")
        self._drained = Position(-1, "")
        return BatchSession(
            services.target, self._flow, route.partition, route.topic, taken, services.clock, self._careful
        )

    async def _step(self, session: BatchSession, feed: Feed) -> None:
        """Copy what comes, or commit what is due without records."""
        left = self._due_in(session)
        if left is not None and left <= 0:
            with self._working():
                await self._commit_alone(session)
            return
        if not self._idle:  # not known yet: an error must not look as if it had passed
            left = SETTLE_DELAY if left is None else min(left, SETTLE_DELAY)
        if await feed.wait(left):
            await self._copy(session, feed)
        elif not self._idle:
            self._idle = True
            self._copying()

    def _due_in(self, session: BatchSession) -> float | None:
        """Seconds until a position has to be committed without records; None if there is none."""
        known, due = self._books.known, []
        if known.must_commit_start:
            return 0.0
        if known.renew_at is not None:
            due.append(known.renew_at)
        if session.unsynced_tail or self._drained.offset > known.offset:
            due.append(max(session.ended + SETTLE_DELAY, session.quiet_until))
        return min(due) - self._services.clock.monotonic() if due else None

    async def _commit_alone(self, session: BatchSession) -> None:
        """Commit the position again as it is, or what an idle partition owes: see PartitionFacts.settle."""
        known = self._books.known
        if known.is_old and not known.must_commit_start:
            await session.commit_position(known.position)
            known.renewed(self._services.plan.renew_interval)
            self._copying()
            return
        at = max(known.position, self._drained, key=lambda each: each.offset)
        position = known.next(at.offset, at.epoch, known.position.newest_epoch)
        await session.settle(position)
        self._committed(session, position, 0)

    async def _copy(self, session: BatchSession, feed: Feed) -> None:
        """Make one transaction of what waits, unless it is not our turn yet."""
        flow, turns = self._flow, self._books.turns
        most = min(TRANSACTION_MAX, flow.batch_max_bytes)
        pause = session.ended + min(flow.transaction_linger_max, session.duration) - self._services.clock.monotonic()
        if pause > 0:  # a busy partition waits as long as its last transaction took, or until it has a full one
            await feed.wait(pause, least=most)
        if feed.size and session.quiet_until > self._services.clock.monotonic():
            await self._wait_until(session.quiet_until, session)
            return
        buckets = self._services.limits.of(self._route.partition.topic)
        if buckets and feed.size:
            most = min(most, turns.take(buckets, min(most, feed.size)))
            if not most:
                await self._wait_until(turns.until, session)
                return
            self._books.counters.throttled += turns.waited()
        with feed.taken(most, self._size.limit) as spans, self._working():
            await self._take(session, spans)

    async def _wait_until(self, turn: float, session: BatchSession) -> None:
        """Until our turn has come, something else is due, the throttle has changed, or the partition is let go."""
        self._woken.clear()
        if self._against:
            return
        left, due = turn - self._services.clock.monotonic(), self._due_in(session)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left if due is None else min(left, due)):
                await self._woken.wait()

    async def _take(self, session: BatchSession, spans: list[Span]) -> None:
        batches = [batch for span in spans for batch in span.batches]
        known, last = self._books.known, spans[-1]
        if not batches:
            self._drained = Position(last.end, "", last.epoch)
            self._books.turns.copied(0)
            return
        stamps = [(each.max_timestamp, each.records) for each in batches]
        begun = self._services.clock.monotonic()
        try:
            written = await session.copy(batches, known.next(last.end, last.epoch))
        except (PartitionError, WireError) as error:
            asked = session.commit_asked
            self._services.unconfirmed.note(self._owner.where, known.position, asked, is_first=known.newest is None)
            unanswered = isinstance(error.__cause__, TimeoutError | Unanswered)
            if why := too_much(self._size, batches, self._services.clock.monotonic() - begun, unanswered):
                raise self._left(why) from error
            raise
        self._careful = False
        self._size.committed(len(batches), session.duration)
        gap = self._foreign.noted(written.appended)
        self._counted(session, written, stamps)
        if gap is not None:
            await self._look(gap)
            self._copying()  # others see what was found

    async def _look(self, gap: Gap) -> None:
        """Find out whether somebody else has written there."""
        found = None
        try:
            with self._working():
                found = await count_between(self._services.target, self._owner.where, gap.begin, gap.end, gap.ours + 1)
        finally:
            self._foreign.judge(found)

    def _counted(self, session: BatchSession, written: Written, stamps: list[tuple[int, int]]) -> None:
        now = int(self._services.clock.now() * 1000)
        self._books.turns.copied(written.size)
        self._books.counters.copied_whole(stamps, written.size, now, session.duration)
        self._committed(session, written.position, sum(records for _, records in stamps))

    def _committed(self, session: BatchSession, position: Position, records: int) -> None:
        self._books.known.committed(position, self._services.plan.renew_interval)
        self._books.counters.committed(records, session.duration)
        self._idle = True
        self._copying()
