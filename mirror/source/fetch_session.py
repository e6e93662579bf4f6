"""What the fetch session with one broker asks for (KIP-227), and what the next request has to change of that."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass

from mirror.source.batch_feed import Feed, Key
from mirror.source.fetch_memory import Room
from mirror.wire.fetch import PartitionAnswer

WAIT = 0.5  # seconds that a broker may wait for records
# The same while a partition has no room: it is asked for only after the answer. While nothing moves, each wait is
# LONGER than the one before, and about half of the time that has passed so. A partition has room again once half of
# what it may have is copied: the next answer comes before the other half is copied, too.
WAIT_BESIDE_FULL, LONGER = 0.02, 1.5
ENDS_KEPT = 2.0  # seconds; a broker that has nothing answers after a half
_OUTDATED = -1  # in place of a position: no feed has it


@dataclass(frozen=True, slots=True)
class Next:
    """The next request: all feeds of the session that have room, and what the request has to say of them."""

    wanted: Mapping[Key, Feed]
    asked: list[Feed]
    forgotten: list[Key]
    wait: float  # seconds that the broker may wait for records


@dataclass(frozen=True, slots=True)
class Ends:
    """Where a partition ends: its last stable offset, and its high watermark."""

    stable: int
    high: int


class SessionFeeds:
    """The feeds of one session, which are asked for while they have room.

    There may be thousands of them, and few have records. So each request costs only what may have changed since the
    last one: the feeds that `take`, `drop` and `changed` were told of, and those in which something waits, because the
    memory limits how much may wait.
    """

    def __init__(self) -> None:
        self.feeds: dict[Key, Feed] = {}
        self._wanted: dict[Key, Feed] = {}  # those that had room for the last request
        self._known: dict[Key, int] = {}  # the positions that the session asks for
        self._look: set[Key] = set()  # what may have changed
        self._quick: frozenset[bool | None] | None = None  # see Room
        self._ends: dict[Key, Ends] = {}  # of partitions that the session asks for
        self._answered = 0.0  # when a broker last answered, monotonic
        self._moved = False  # has the last answer brought something?
        self._had_room = 0  # how many had room for the last request
        self._beside_full = WAIT_BESIDE_FULL  # how long the broker may wait for records while a feed has no room

    def has(self, feed: Feed) -> bool:
        """True unless the feed was dropped, or a later copier of the partition has a feed of its own."""
        return self.feeds.get(feed.key) is feed

    def take(self, feed: Feed) -> None:
        """Ask for this partition, too. If the session knows it already, ask anew, with the epochs of now."""
        self.feeds[feed.key] = feed
        if feed.key in self._known:
            self._known[feed.key] = _OUTDATED
        self._look.add(feed.key)

    def drop(self, feed: Feed) -> None:
        """Ask for the partition no more."""
        if self.has(feed):
            del self.feeds[feed.key]
            self._look.add(feed.key)

    def changed(self, feed: Feed) -> None:
        """Something has come, there is more room, or the feed has ended."""
        if self.has(feed):
            self._look.add(feed.key)

    def begin_again(self) -> None:
        """Another session begins, which asks for nothing yet."""
        self._wanted, self._known, self._ends, self._look = {}, {}, {}, set(self.feeds)

    def told(self, feed: Feed, fetched: PartitionAnswer) -> None:
        """Note where a partition ends. A replica that does not lead, or was elected just now, may not know it.

        With an error there is no offset (-1). The session's broker says it again when the high watermark has changed,
        or when there are records. If only the last stable offset has moved, there are records.
        """
        if feed.follows_until or fetched.stable < feed.position:
            self._ends.pop(feed.key, None)
        else:
            self._ends[feed.key] = Ends(fetched.stable, fetched.high)

    def answered(self, throttled: bool, moved: bool) -> None:
        """The broker has told what has changed. If it throttles, it has told nothing. `moved`: records have come."""
        self._moved = moved
        if not throttled:
            self._answered = time.monotonic()

    @property
    def ends(self) -> Mapping[Key, Ends]:
        """Where partitions end, if the broker has answered within ENDS_KEPT seconds. Any thread may ask."""
        return self._ends.copy() if time.monotonic() - self._answered < ENDS_KEPT else {}

    def next(self, room: Room) -> Next | None:
        """The next request, which the session is taken to know from now on; None if no feed has room."""
        if self._quick != room.quick:  # so others may have more, also where nothing waits
            self._quick = room.quick
            self._look.update(self.feeds)
        for key in self._look:
            feed = self.feeds.get(key)
            if feed is not None and feed.ended:
                del self.feeds[key]
            if feed is not None and not feed.ended and room.has(feed):
                self._wanted[key] = feed
            else:
                self._wanted.pop(key, None)
        return self._changes() if self._wanted else None

    def _changes(self) -> Next:
        asked, forgotten, waiting = list[Feed](), list[Key](), set[Key]()
        begins = not self._known
        for key in self._look:
            feed = self._wanted.get(key)
            if feed is None and self._known.pop(key, None) is not None:
                forgotten.append(key)
                self._ends.pop(key, None)
            elif feed is not None and self._known.get(key) != feed.position:
                asked.append(feed)
                self._known[key] = feed.position
            if key in self.feeds and self.feeds[key].size:
                waiting.add(key)
        self._look = waiting
        if begins:  # brokers fill their answers in this order, and change it only from request to request of a session
            random.shuffle(asked)
        return Next(self._wanted, asked, forgotten, self._wait())

    def _wait(self) -> float:
        """How long the broker may wait. A feed that gets room meanwhile is asked for only by the next request."""
        full = len(self._wanted) < len(self.feeds)
        moves = self._moved or len(self._wanted) > self._had_room or not full
        self._beside_full = WAIT_BESIDE_FULL if moves else min(WAIT, LONGER * self._beside_full)
        self._moved, self._had_room = False, len(self._wanted)
        return self._beside_full if full else WAIT
