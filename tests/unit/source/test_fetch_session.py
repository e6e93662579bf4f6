"""What a session asks for is what has room, whatever has happened, though most of it is never looked at."""

from __future__ import annotations

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.strategies import booleans, integers, sampled_from

from mirror.source.batch_feed import Feed, Held, Key, Span
from mirror.source.fetch_memory import Room
from mirror.source.fetch_session import Ends, SessionFeeds
from mirror.wire.fetch import PartitionAnswer, TopicKey

TOPIC = TopicKey("t", b"t" * 16)
CLASSES: list[frozenset[bool | None]] = [frozenset({True}), frozenset({True, None}), frozenset({True, None, False})]
PARTITIONS = integers(0, 2)


class Sessions(RuleBasedStateMachine):
    """Feeds that come, fill, drain and end, beside a broker that does as it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.session = SessionFeeds()
        self.feeds: dict[int, Feed] = {}
        self.broker: dict[Key, tuple[int, int]] = {}  # what it has been asked for: position, and epoch
        self.epoch = 0  # of all leaders
        self.asked_with: dict[int, int] = {}  # by partition, the epoch when the feed was taken last
        self.under_way: dict[Key, Feed] | None = None  # what the request asks for that the broker has not answered yet
        self.ends = [Ends(100, 100)] * 3  # by partition, as they are
        self.answered = self.ends  # as they were when the broker answered last
        self.told: dict[Key, int] = {}  # the high watermarks that the broker has told since it was asked anew

    @rule(partition=PARTITIONS, position=integers(0, 1))
    def take(self, partition: int, position: int) -> None:
        """A copier opens a feed, in place of one that has ended."""
        if partition in self.feeds:
            self.feeds[partition].end(None, drop=True)
        feed = Feed(TOPIC, partition, position, -1, lambda: 1)
        feed.on_change = self.session.changed
        self._placed(partition, feed)

    @rule(partition=PARTITIONS)
    @precondition(lambda self: self.under_way is None)
    def comes_back(self, partition: int) -> None:
        """It was dropped, and its leader, which has another epoch, is here again."""
        if partition in self.feeds and not self.feeds[partition].ended:
            self.session.drop(self.feeds[partition])
            self._placed(partition, self.feeds[partition])

    def _placed(self, partition: int, feed: Feed) -> None:
        self.epoch += 1
        self.feeds[partition], self.asked_with[partition] = feed, self.epoch
        self.session.take(feed)

    @rule(partition=PARTITIONS)
    @precondition(lambda self: self.under_way is None)
    def drop(self, partition: int) -> None:
        if feed := self.feeds.pop(partition, None):
            self.session.drop(feed)

    @rule(partition=PARTITIONS)
    def end(self, partition: int) -> None:
        if partition in self.feeds:
            self.feeds[partition].end(None, drop=True)

    @rule(partition=PARTITIONS, size=integers(0, 10))
    def fill(self, partition: int, size: int) -> None:
        """An answer comes. The session's broker tells of it."""
        feed = self.feeds.get(partition)
        if feed is not None and not feed.ended:
            feed.add(Span(feed.position, feed.position + 1, (), 0, size, Held(size, lambda _: None)))
            self.session.changed(feed)

    @rule(partition=PARTITIONS, quick=booleans())
    def drain(self, partition: int, quick: bool) -> None:
        if partition in self.feeds:
            feed = self.feeds[partition]
            for span in feed.take(2**30, 2**30):
                feed.is_quick = quick
                feed.done(span)

    @rule(partition=PARTITIONS, stable=integers(0, 1))
    def grow(self, partition: int, stable: int) -> None:
        """A record comes, perhaps within an open transaction, or its marker does."""
        before = self.ends[partition]
        self.ends[partition] = Ends(before.high + 1 if stable else before.stable, before.high + 1)

    @rule()
    @precondition(lambda self: self.under_way is not None)
    def answer(self) -> None:
        """The broker tells of the partitions whose high watermarks it has not told (FetchSession.CachedPartition)."""
        assert self.under_way is not None
        for key, feed in self.under_way.items():
            stable, high = self.ends[key[1]].stable, self.ends[key[1]].high
            if self.told.get(key) != high:
                self.session.told(feed, PartitionAnswer(key[1], 0, stable, (), memoryview(b""), None, None, -1, high))
                self.told[key] = high
        self.under_way, self.answered = None, list(self.ends)
        self.session.answered(throttled=False, moved=False)

    @rule(most=sampled_from([1, 15]), quick=sampled_from(CLASSES))
    @precondition(lambda self: self.under_way is None)
    def ask(self, most: int, quick: frozenset[bool | None]) -> None:
        """The broker is asked, and then has exactly the partitions that have room, where and as they are now."""
        room = Room(most, 0, quick)
        request = self.session.next(room)
        expected = {
            feed.key: (feed.position, self.asked_with[number])
            for number, feed in self.feeds.items()
            if not feed.ended and room.has(feed)
        }
        if request is None:
            assert not expected
            return
        assert not {feed.key for feed in request.asked} & {*request.forgotten}, "a broker would forget it"
        for key in request.forgotten:
            del self.broker[key]
            self.told.pop(key, None)
        self.under_way = dict(request.wanted)
        for feed in request.asked:
            self.broker[feed.key] = feed.position, self.asked_with[feed.partition]
        assert self.broker == expected and request.wanted.keys() == expected.keys()

    @rule()
    def begin_again(self) -> None:
        self.session.begin_again()
        self.broker.clear()
        self.told.clear()
        self.under_way = None

    @invariant()
    def has_what_was_taken(self) -> None:
        assert all(self.session.has(each) or each.ended for each in self.feeds.values())

    @invariant()
    def knows_where_they_end(self) -> None:
        """As of the last answer, though it leaves most of them out."""
        ends = self.session.ends
        assert all(self.answered[number] == each for (_, number), each in ends.items())
        assert ends.keys() <= self.broker.keys()


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)


def test_without_a_session_each_partition_comes_first_now_and_then() -> None:
    """A broker fills its answers in the order of the request: the last ones would get nothing for a long time."""
    session = SessionFeeds()
    for partition in range(3):
        session.take(Feed(TOPIC, partition, 0, -1, lambda: 1))
    first = set()
    for _ in range(200):
        session.begin_again()
        found = session.next(Room(1, 0, CLASSES[-1]))
        assert found is not None and len(found.asked) == 3
        first.add(found.asked[0].partition)
    assert first == {0, 1, 2}
