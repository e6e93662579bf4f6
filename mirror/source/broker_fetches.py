"""Fetches whole record batches from one broker."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import replace

from mirror.backoff import Backoff
from mirror.errors import Malformed, Refused, Unsupported, WireError
from mirror.source.batch_feed import Feed, Key, LeaveBatchPath
from mirror.source.fetch_session import Next, SessionFeeds
from mirror.source.fetched_partitions import RETRY, FeedPlacer, FetchedPartitions
from mirror.wire.connection import Connection
from mirror.wire.error_codes import CODES, failure
from mirror.wire.fetch import FETCH, FetchAnswer, Limits, Session, TopicKey, Wanted, fetch

log = logging.getLogger(__name__)

PURPOSE = "fetch"
UNREADABLE_MAX = 5  # answers in a row that can't be read, before the record path gets what they may be about
# Partitions of an answer, and bytes of records, before others have their turn: so many bytes may be a thousand batches.
AT_ONCE, BYTES_AT_ONCE = 100, 2**16
QUIET_LOOK = 0.5  # seconds
_EPOCH_MAX = 2**31 - 1  # after it a session's epoch begins again with 1
_FINAL = -1  # a session's epoch in the request that ends it
_TOPIC_IDS = 13  # the first version of Fetch that has them

# Errors that end a session, and nothing else.
_SESSION_LOST = {CODES[name] for name in ("FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH")}
_SESSION_LOST.add(CODES["FETCH_SESSION_TOPIC_ID_ERROR"])


class BrokerFetches:
    """The fetch session with one broker (KIP-227), and the feeds of the partitions that it leads."""

    def __init__(self, fetcher: FeedPlacer, node: int) -> None:
        self._fetcher = fetcher
        self._node = node
        self.feeds = SessionFeeds()
        self._partitions = FetchedPartitions(fetcher, node, self.feeds)
        self._session = Session(0, 0)
        self._connection: Connection | None = None  # that had the last request
        self._compares = False  # leaders, before the next request
        self._share = 1.0  # of the memory that the last batches took, their own bytes
        self.room = asyncio.Event()
        self.task = asyncio.create_task(self._run())

    def take(self, feed: Feed) -> None:
        """Fetch this partition, too, unless its copier has closed the feed meanwhile."""
        if not feed.ended:
            feed.on_change = self._changed
            self.feeds.take(feed)
            self.room.set()

    def _changed(self, feed: Feed) -> None:
        self.feeds.changed(feed)
        self.room.set()

    def end(self) -> None:
        """Fetch no more, and tell the broker that it may forget the session. Nobody waits for its answer."""
        self.task.cancel()
        if self._session.id and self._connection and not self._connection.closed:
            with contextlib.suppress(WireError):
                end = fetch({}, Limits(0.0, 1), Session(self._session.id, _FINAL))
                self._connection.send(end).add_done_callback(lambda each: each.cancelled() or each.exception())

    async def _run(self) -> None:
        backoff, unreadable = Backoff(RETRY, 2.0), 0
        while True:
            wanted: Mapping[Key, Feed] = {}
            try:
                request = await self._next()
                wanted = request.wanted
                until = asyncio.get_running_loop().time() + request.wait
                if not await self._fetch(request):
                    # A broker that has nothing waits; if this one does not, we do. But not for as long: it answers at
                    # once while any position is beyond what it may show, and others have live records.
                    await asyncio.sleep(min(RETRY, until - asyncio.get_running_loop().time()))
                backoff.reset()
                unreadable = 0
            except Unsupported:
                self._hand_over(wanted, "source_too_old")
            except Refused:
                self._begin_again()
                self._hand_over(wanted, "refused")
            except WireError as error:
                log.debug("fetch from broker %d failed: %s", self._node, error)
                self._begin_again()
                unreadable += isinstance(error, Malformed)  # only an answer that can be read ends the row
                if unreadable >= UNREADABLE_MAX:
                    log.warning("answers to Fetch can't be read: %s", error)
                    self._hand_over(wanted, "unreadable")
                for feed in wanted.values():
                    self._partitions.fail(feed)  # perhaps only its leader can reach this broker
                await asyncio.sleep(backoff.next())
            except Exception:  # a defect of ours: the record path does not have it, and nobody waits for ever
                log.exception("fetch from broker %d failed", self._node)
                self._begin_again()
                self._hand_over(wanted or self.feeds.feeds, "defect")
                await asyncio.sleep(backoff.next())

    async def _next(self) -> Next:
        """The next request, as soon as a feed has room, and no quota holds it back: it says what is wanted by then."""
        loop = asyncio.get_running_loop()
        while True:
            while (known := self._connection) and not known.closed and (left := known.quiet_until - loop.time()) > 0:
                await asyncio.sleep(min(left, QUIET_LOOK))  # it may be closed meanwhile
            if self._compares:
                self._leave_to_others()
            room = self._fetcher.memory.room(self._fetcher.answer_max)
            if room is not None and (request := self.feeds.next(room)):
                return request
            self.room.clear()
            await self.room.wait()

    @staticmethod
    def _hand_over(feeds: Mapping[Key, Feed], reason: str) -> None:
        for feed in feeds.values():
            feed.end(LeaveBatchPath(reason, feed.position))

    def still(self) -> list[Feed]:
        """The feeds that have not moved since this was asked last."""
        feeds = self.feeds.feeds.values()
        found = [each for each in feeds if each.looked_at == each.position]
        for each in feeds:
            each.looked_at = each.position
        return found

    @property
    def is_idle(self) -> bool:
        """True if nothing is fetched from this broker."""
        return all(each.ended for each in self.feeds.feeds.values())

    def compare_leaders(self) -> None:
        """Leave partitions to their newer leaders, as far as is known, once no request is under way.

        And leave those to their leaders that were fetched from here, as from a nearer replica, for long enough.
        """
        self._compares = True

    def _leave_to_others(self) -> None:
        self._compares = False
        known, now = self._fetcher.cluster.known_leader, asyncio.get_running_loop().time()
        for feed in list(self.feeds.feeds.values()):
            if feed.follows_until:
                leaves = feed.follows_until < now
            else:
                leader = known(feed.topic.name, feed.partition)
                leaves = leader is not None and leader.node != self._node
            if leaves:
                self._partitions.leave(feed)

    async def _fetch(self, request: Next) -> bool:
        """Ask once. False if the answer has brought nothing."""
        fetcher, memory, most = self._fetcher, self._fetcher.memory, self._fetcher.answer_max
        with memory.reserve(most):  # before anything is awaited: there was room just now
            connection = self._connection = await fetcher.cluster.connection(self._node, PURPOSE)
            check_source(connection)
            asked: dict[TopicKey, list[Wanted]] = {}
            for feed in request.asked:
                leader = fetcher.cluster.known_leader(feed.topic.name, feed.partition)
                epoch = leader.epoch if leader else -1
                ask = Wanted(feed.partition, feed.position, memory.bounds.partition_answer, epoch, feed.epoch)
                asked.setdefault(feed.topic, []).append(ask)
            forgotten: dict[TopicKey, list[int]] = {}
            for topic_id, partition in request.forgotten:
                forgotten.setdefault(TopicKey("", topic_id), []).append(partition)
            limits = Limits(request.wait, max(1, int(most * self._share)), partitions=len(request.wanted))
            answer = await connection.ask(fetch(asked, limits, self._session, forgotten, rack=fetcher.rack))
        if answer.error in _SESSION_LOST and self._session.epoch:
            self._begin_again()
            return True
        if answer.error:
            raise failure(answer.error, FETCH.name)
        if answer.session:
            self._session = Session(answer.session, self._session.epoch % _EPOCH_MAX + 1)
        else:  # the broker has no room for another session: each request asks for everything
            self._session = Session(0, 0)
            self.feeds.begin_again()
        moved = await self._receive(answer, request.wanted)
        self.feeds.answered(answer.throttled, moved)
        return moved

    def _begin_again(self) -> None:
        """Begin another session in place of this one: the broker would keep it for minutes, among a thousand."""
        self._session = Session(self._session.id, 0)
        self.feeds.begin_again()

    async def _receive(self, answer: FetchAnswer, wanted: Mapping[Key, Feed]) -> bool:
        """Give the feeds what was asked for. False if that is nothing.

        A partition that comes twice counts once: its end may be left out.

        The records after very many small batches are left out, too, and asked for again. The next request is for less.
        """
        memory, size, objects, moved, seen = self._fetcher.memory, 0, 0, False, set[Key]()
        scarce = memory.is_scarce and len(answer.partitions) > 1
        with memory.hold(0 if scarce else answer.size) as whole:
            given = 0  # bytes since others had their turn
            for number, (topic, fetched) in enumerate(answer.partitions, 1):
                if number % AT_ONCE == 0 or given >= BYTES_AT_ONCE:
                    given = 0
                    await asyncio.sleep(0)
                given += len(fetched.records)
                feed = wanted.get((topic, fetched.partition)) if isinstance(topic, bytes) else None
                if feed is None or feed.key in seen:
                    continue
                seen.add(feed.key)
                self.feeds.told(feed, fetched)
                if feed.ended or objects > memory.bounds.answer:
                    continue
                before = feed.size, feed.batches, feed.position
                if scarce:  # copied, so that a slow partition does not hold all of the answer
                    own = replace(fetched, records=memoryview(bytearray(fetched.records)))
                    with memory.hold(len(own.records)) as held:
                        self._partitions.give(feed, own, answer.addresses, held)
                else:
                    self._partitions.give(feed, fetched, answer.addresses, whole)
                self.feeds.changed(feed)
                moved = moved or feed.position != before[2] or feed.ended or not self.feeds.has(feed)
                size += feed.size - before[0]
                objects += (feed.batches - before[1]) * memory.bounds.batch
        if size:
            self._share = size / (size + objects)
        return moved


def check_source(connection: Connection) -> None:
    """Raise Unsupported if the broker is too old."""
    if connection.version(FETCH) < _TOPIC_IDS:
        raise Unsupported("fetching by topic id needs Kafka 3.1")
