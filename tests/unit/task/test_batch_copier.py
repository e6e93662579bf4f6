"""One partition in whole batches: what is committed when, what leaves the batch path, that each record comes once."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.batches.headers import TRANSACTIONAL, RecordBatch, walk
from mirror.batches.merging import MERGED_MAX
from mirror.batches.records import Content, encode
from mirror.clock import Clock
from mirror.control.reports import NOWHERE, Counters
from mirror.control.throttle_shares import OF_FLOW, Share
from mirror.errors import Interleaved, OutcomeUnknown, PartitionError, Unanswered, Unavailable, Unsupported, WireError
from mirror.model import BATCH_BYTES, MapEnd, Partition, Position, Topic
from mirror.settings import Flow
from mirror.source.batch_feed import Feed, Held, Largest, LeaveBatchPath, Span
from mirror.source.batch_fetcher import BatchFetcher
from mirror.target import batch_take_over, batch_transaction, coordination
from mirror.target.loading import Tokens
from mirror.target.position_metadata import decoded, encoded
from mirror.target.take_over_places import Place, Places
from mirror.target.unconfirmed import UnconfirmedTransactions
from mirror.task import batch_copier
from mirror.task.batch_copier import BatchCopier
from mirror.task.batch_services import BatchServices, Books, Route
from mirror.task.known_positions import KnownPositions, StartPoint
from mirror.task.look_budget import LookBudget
from mirror.task.ownership import Ownership
from mirror.task.rate_limits import AT_ONCE, RateLimits, Turns
from mirror.wire.cluster import Cluster
from mirror.wire.error_codes import CODES
from mirror.wire.fetch import TopicKey
from mirror.wire.metadata import id_of
from mirror.wire.offsets import Offset
from mirror.wire.requests import Request
from tests.harness import batches
from tests.harness.batch_requests import MAP, SYNCS
from tests.harness.batch_target import PRODUCER, REMOTE_ID, Connected, Fault, Lost, Target, made
from tests.harness.constant_plan import ConstantPlan
from tests.unit.target.test_batch_session import entries, syncs
from tests.unit.task.test_batch_path_obstacles import flow

PARTITION = Partition("t", 0)
TOPIC_ID = "c291cmNlLXNvdXJjZS1zbw"
TOPIC = Topic("remote", TOPIC_ID, 1, 1, REMOTE_ID)
AT = Position(5, TOPIC_ID, 2, remote_id=REMOTE_ID, map_end=MapEnd())
COMMITTED = Offset(AT.offset, encoded(AT), AT.epoch)


@dataclass
class Source:
    """Stands in for a fetcher: each feed begins with what is there, and gets what is added."""

    answers: list[Callable[[], tuple[int, list[RecordBatch]]]] = field(default_factory=list)  # end, and batches
    feeds: list[Feed] = field(default_factory=list)
    size_held: int = 0

    def add(self, end: int, batches: Callable[[], list[RecordBatch]] = list) -> None:
        self.answers.append(lambda: (end, batches()))
        for feed in self.feeds:
            self._give(feed, len(self.answers) - 1)

    def open(
        self, topic: TopicKey, partition: int, position: int, epoch: int, largest: Largest, merged: Largest
    ) -> Feed:
        feed = Feed(topic, partition, position, epoch, largest, merged)
        self.feeds.append(feed)
        for number in range(len(self.answers)):
            self._give(feed, number)
        return feed

    def close(self, feed: Feed) -> None:
        feed.end(None, drop=True)
        self.feeds.remove(feed)

    def _give(self, feed: Feed, number: int) -> None:
        end, batches = self.answers[number]()
        rest = [each for each in batches if each.first >= feed.position]
        if end > feed.position and not feed.ended:
            size = sum(len(each.data) for each in rest)
            feed.add(Span(feed.position, end, tuple(rest), 3, size, Held(size, self._count)))

    def _count(self, size: int) -> None:
        self.size_held += size


@dataclass
class World:
    """A source, a target, and a copier between them."""

    of: Flow = field(default_factory=flow)
    target: Target = field(default_factory=lambda: Target(position=COMMITTED))
    source: Source = field(default_factory=Source)
    topic: Topic = TOPIC
    start: StartPoint = field(default_factory=lambda: StartPoint(5, AT))
    early: bool = True
    limits: RateLimits = field(default_factory=lambda: RateLimits(Clock()))
    renew_interval: float = 3600.0

    def __post_init__(self) -> None:
        self.known = KnownPositions(self.start, self.topic, self.early, self.renew_interval, Clock())
        self.books = Books(self.known, Counters(), Turns(Clock()))
        fetcher, target = cast(BatchFetcher, self.source), cast(Cluster, self.target)
        plan = ConstantPlan(self.of, self.renew_interval)
        self.looks = LookBudget()
        self.unconfirmed = UnconfirmedTransactions()
        services = BatchServices(
            plan,
            fetcher,
            target,
            Tokens(),
            self.limits,
            Clock(),
            Ownership(plan),
            looks=self.looks,
            unconfirmed=self.unconfirmed,
        )
        self.copier = BatchCopier(services, Route(PARTITION, self.topic), self.books)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Run the copier until it is so, once."""
        running = asyncio.create_task(self.copier.run())
        try:
            async with asyncio.timeout(20):
                while not condition():
                    if running.done():
                        await running
                    await asyncio.sleep(0.001)
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError, LeaveBatchPath, PartitionError, WireError):
                await running

    @property
    def position(self) -> Position | None:
        return decoded(self.target.position.offset, self.target.position.epoch, self.target.position.metadata)


def committed(world: World) -> list[bytes]:
    return [content for _, content in sorted(world.target.committed["remote"].items())]


def contents(offsets: Sequence[int]) -> list[bytes]:
    return [encode(Content(b"%d" % offset, None, ())) for offset in offsets]


def test_what_comes_is_copied_and_counted() -> None:
    async def run() -> None:
        world = World()
        world.source.add(10, lambda: made(3, 2, at=5))
        world.source.add(14, lambda: made(4, at=10))
        await world.until(lambda: world.target.position.offset == 14)
        assert committed(world) == contents(range(5, 14)) and world.source.size_held == 0
        assert world.position == world.known.position == Position(14, TOPIC_ID, 3, -1, REMOTE_ID, 0, MapEnd(100, 0))
        counters = world.books.counters
        assert (counters.records, counters.transactions["committed"]) == (9, 1)
        assert sum(counters.latency_buckets) == 9 and counters.bytes > 0 and world.source.feeds == []
        assert not world.target.count("Fetch"), "nobody else writes"

    asyncio.run(run())


def test_a_position_after_markers_is_committed_when_the_partition_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is committed together with the sync of the last record, and not for each marker."""
    monkeypatch.setattr(batch_copier, "SETTLE_DELAY", 0.05)

    async def run() -> None:
        world = World()
        world.source.add(8, lambda: made(3, at=5))
        world.source.add(9)
        await world.until(lambda: world.target.position.offset == 9 and world.target.commits == 2)
        copied, settled = world.target.committed_at
        assert settled - copied > 0.04
        assert [(each.upstream, each.downstream) for each in syncs(world.target)] == [(5, 100), (7, 102)]
        assert world.position == replace(AT, offset=9, epoch=3, map_end=MapEnd(100, 0))
        ended = world.target.commits
        world.source.add(20)
        world.source.add(21)
        await world.until(lambda: world.target.position.offset == 21)
        assert world.target.commits == ended + 1

    asyncio.run(run())


def test_a_start_that_would_move_is_committed_before_any_record_comes() -> None:
    async def run() -> None:
        world = World(target=Target(ends={"remote": 0}), start=StartPoint(7), early=False)
        await world.until(lambda: world.target.commits == 1)
        assert world.position == Position(7, TOPIC_ID, remote_id=REMOTE_ID, map_end=MapEnd())
        assert not world.known.must_commit_start and [each.kind for each in world.target.requests].count("Produce") == 0

    asyncio.run(run())


def test_a_position_is_committed_again() -> None:
    async def run() -> None:
        world = World()
        world.known.renew_again(0.0)
        await world.until(lambda: world.target.commits == 1)
        assert world.position == AT and not world.known.is_old

    asyncio.run(run())


def test_the_throttle_is_kept() -> None:
    async def run() -> None:
        limits = RateLimits(Clock())
        limits.follow({OF_FLOW: Share(600, 600)})  # bytes per second; there are some 800
        world = World(limits=limits)
        for at in range(5, 25, 2):
            world.source.add(at + 2, lambda at=at: made(2, at=at))  # type: ignore[misc]
        begun = asyncio.get_running_loop().time()
        await world.until(lambda: world.target.position.offset == 25)
        took = asyncio.get_running_loop().time() - begun
        assert took > 0.3 and world.books.counters.throttled > 0.3, "what was saved up before counts, too"
        assert committed(world) == contents(range(5, 25)) and world.target.commits > 1

    asyncio.run(run())


def test_what_is_due_does_not_wait_for_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn may be far away, and a position that is not committed again expires. The turn stays as it was."""
    monkeypatch.setattr(batch_copier, "SETTLE_DELAY", 0.02)

    async def run() -> None:
        limits = RateLimits(Clock())
        limits.follow({OF_FLOW: Share(1, 1)})
        world = World(limits=limits, renew_interval=0.1)
        world.source.add(8, lambda: made(3, at=5))
        world.source.add(11, lambda: made(3, at=8))
        turns, commits = set[float](), list[int]()

        def settled() -> bool:
            if world.target.position.offset == 8:
                commits.append(world.target.commits)
                turns.update({world.books.turns.until} if world.books.turns.waiting else ())
            return bool(commits) and commits[-1] - commits[0] > 5 and len(syncs(world.target)) == 2

        await world.until(settled)
        (turn,) = turns
        assert turn > Clock().monotonic() + 60 and committed(world) == contents(range(5, 8))
        assert [each.upstream for each in syncs(world.target)] == [5, 7], "the sync of the last record was due, too"

    asyncio.run(run())


def test_a_transaction_begins_only_when_no_quota_holds_it_back() -> None:
    """Its time would pass before it may send anything. What needs no leader does not wait."""

    async def run() -> None:
        world = World(renew_interval=0.1)
        world.target.quiet = Clock().monotonic() + 3_600
        world.source.add(8, lambda: made(3, at=5))
        before = list[int]()

        def copied() -> bool:
            if not committed(world):
                before.append(world.target.commits)
            if world.target.commits == 2:  # each renewal looks again
                world.target.quiet = min(world.target.quiet, Clock().monotonic())
            return world.target.position.offset == 8

        await world.until(copied)
        assert world.target.committed_at[before[-1]] >= world.target.quiet and before[-1] > 1, "positions are renewed"
        assert committed(world) == contents(range(5, 8)) and world.copier.working_since is None

    asyncio.run(run())


@pytest.mark.parametrize("waits", [False, True])
def test_an_idle_partition_settles_only_when_no_quota_holds_it_back(
    waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if more `waits` to be copied."""
    monkeypatch.setattr(batch_copier, "SETTLE_DELAY", 0.02)

    async def run() -> None:
        world = World()
        world.source.add(8, lambda: made(3, at=5))

        def settled() -> bool:
            if world.target.commits and not world.target.quiet:
                world.target.quiet = Clock().monotonic() + 0.5
                if waits:
                    world.source.add(11, lambda: made(3, at=8))
            return len(syncs(world.target)) > 1

        await world.until(settled)
        assert world.target.committed_at[1] >= world.target.quiet

    asyncio.run(run())


def test_what_has_no_records_to_copy_does_not_wait_for_a_quota() -> None:
    """It would only fill the memory of what is fetched."""

    async def run() -> None:
        world = World()
        world.target.quiet = Clock().monotonic() + 60
        for end in range(6, 10):
            world.source.add(end)
        await world.until(lambda: bool(world.source.feeds) and world.source.feeds[0].drained)
        assert not world.target.commits

    asyncio.run(run())


def test_who_is_let_go_does_not_wait_for_a_quota() -> None:
    async def run() -> None:
        world = World()
        world.target.quiet = Clock().monotonic() + 60
        world.source.add(8, lambda: made(3, at=5))
        running = asyncio.create_task(world.copier.run())
        async with asyncio.timeout(20):
            while not (world.source.feeds and world.copier.feed):
                await asyncio.sleep(0.001)
            world.copier.let_go()
            with pytest.raises(LeaveBatchPath):
                await running
        assert not committed(world)

    asyncio.run(run())


@pytest.mark.parametrize("turns", range(5))
def test_who_is_cancelled_just_when_its_wait_ends_ends(turns: int) -> None:
    """`turns` of the event loop after that."""

    async def run() -> None:
        limits = RateLimits(Clock())
        limits.follow({OF_FLOW: Share(1, 1)})
        world = World(limits=limits)
        world.source.add(8, lambda: made(3, at=5))
        world.source.add(11, lambda: made(3, at=8))
        running = asyncio.create_task(world.copier.run())
        async with asyncio.timeout(20):
            while not world.books.turns.waiting:
                await asyncio.sleep(0.001)
            world.copier.forget_turns()
            for _ in range(turns):
                await asyncio.sleep(0)
            running.cancel()
            await asyncio.wait([running])
        assert running.cancelled()

    asyncio.run(run())


def test_what_is_merged_follows_the_throttle() -> None:
    async def run() -> None:
        limits = RateLimits(Clock())
        world = World(limits=limits)
        world.source.add(7, lambda: made(2, at=5))
        running = asyncio.create_task(world.copier.run())
        while not world.source.feeds:
            await asyncio.sleep(0)
        (feed,) = world.source.feeds
        assert feed.largest_merged() == MERGED_MAX
        limits.follow({OF_FLOW: Share(8_000, 8_000)})
        assert feed.largest_merged() == 8_000 * AT_ONCE
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


def test_a_throttled_partition_that_leaves_the_batch_path_waits_for_its_turns() -> None:
    """It must not keep the loop busy meanwhile, which others need."""

    async def run() -> None:
        limits = RateLimits(Clock())
        limits.follow({OF_FLOW: Share(150, 150)})
        world = World(limits=limits)
        for at in range(5, 11, 2):
            world.source.add(at + 2, lambda at=at: made(2, at=at))  # type: ignore[misc]
        running = asyncio.create_task(world.copier.run())
        while not world.source.feeds:
            await asyncio.sleep(0)
        world.source.feeds[0].end(LeaveBatchPath("compacted", 11))
        waits = 0
        while not running.done():
            await asyncio.sleep(0.01)
            waits += 1
        with pytest.raises(LeaveBatchPath, match="compacted at offset 11"):
            await running
        assert committed(world) == contents(range(5, 11)) and 5 < waits < 1_000

    asyncio.run(run())


def test_a_batch_that_is_larger_than_its_turn_delays_the_next_ones() -> None:
    async def run() -> None:
        limits = RateLimits(Clock())
        limits.follow({OF_FLOW: Share(20, 20)})
        world, begun = World(limits=limits), Clock().monotonic()
        world.source.add(7, lambda: made(2, at=5))
        await world.until(lambda: world.target.commits == 1)
        (bucket,) = limits.of(PARTITION.topic)
        assert bucket.turn(1).at - begun > world.books.counters.bytes / 20 - 0.6

    asyncio.run(run())


def test_less_goes_into_a_transaction_that_was_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """It failed after as much time as a request may take, so perhaps one has timed out."""
    monkeypatch.setattr(batch_copier, "PRODUCE_TIMEOUT", 0.02)

    async def run() -> None:
        world = World()
        world.source.add(45, lambda: made(*[2] * 20, at=5))
        world.target.delay, world.target.kinds = 0.01, {"EndTxn": [CODES["UNKNOWN_SERVER_ERROR"]]}
        with pytest.raises(PartitionError):
            await world.until(lambda: False)
        assert sum(topic == "remote" for sent in world.target.produced for topic, *_ in sent.batches) == 20
        world.target.delay = 0.0
        await world.until(lambda: world.target.position.offset == 45)
        assert world.target.commits > 1

    asyncio.run(run())


class Mute(Target):
    """It answers no Produce."""

    async def connection(self, node: int, purpose: str = "other") -> Connected:
        return (Silent if purpose == batch_transaction.FIRST_PURPOSE else Connected)(self, node, purpose)


class Silent(Connected):
    async def ask(self, request: Request[Any]) -> Any:
        await asyncio.get_running_loop().create_future()


def test_a_single_batch_that_takes_too_long_leaves_the_batch_path() -> None:
    """The record path can make smaller ones of its records."""

    async def run() -> None:
        world = World(replace(flow(), transaction_timeout=0.3), Mute(position=COMMITTED))
        world.source.add(13, lambda: made(2, 2, 2, 2, at=5))
        for _ in range(2):
            with pytest.raises(OutcomeUnknown, match="takes too long"):
                await world.until(lambda: False)
        with pytest.raises(LeaveBatchPath, match="too_slow at offset 5"):
            await world.until(lambda: False)
        assert world.source.size_held == 0

    asyncio.run(run())


@pytest.mark.parametrize(
    ("fault", "slow"),
    [(Unanswered("timed out"), True), (Unavailable("away"), False), (CODES["REQUEST_TIMED_OUT"], False)],
)
def test_who_gets_no_answer_to_a_single_batch_leaves_the_batch_path(
    fault: Fault, slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The take-over before it was answered, so the broker is not away."""
    monkeypatch.setattr(batch_copier, "PRODUCE_TIMEOUT", 0.0)

    async def run() -> None:
        world = World()
        world.source.add(7, lambda: made(2, at=5))
        for attempt in range(4):
            world.target.faults = {len(world.target.requests) + 5: fault}
            left = LeaveBatchPath if slow and attempt else OutcomeUnknown
            with pytest.raises(left):
                await world.until(lambda: False)
            assert world.target.requests[-1].kind == "Produce"

    asyncio.run(run())


@pytest.mark.parametrize("when", ["before", "taking over", "idle", "copying", "throttled"])
def test_it_is_let_go_after_the_running_transaction(when: str) -> None:
    async def run() -> None:
        limits = RateLimits(Clock())
        limits.follow({OF_FLOW: Share(10, 10)} if when == "throttled" else {})
        world = World(limits=limits)
        if when not in ("idle", "before"):
            world.source.add(8, lambda: made(3, at=5))
            world.source.add(11, lambda: made(3, at=8))
        world.target.delay = 0.01 if when == "copying" else 0.0
        begun: dict[str, Callable[[], bool]] = {
            "before": lambda: True,
            "taking over": lambda: bool(world.target.requests),
            "idle": lambda: bool(world.source.feeds),
            "copying": lambda: bool(world.target.produced),
            "throttled": lambda: world.target.commits == 1 and world.books.turns.waiting,
        }
        running = asyncio.create_task(world.copier.run())
        async with asyncio.timeout(5):
            while not begun[when]():
                await asyncio.sleep(0)
            world.copier.let_go()
            with pytest.raises(LeaveBatchPath, match="let_go"):
                await running
        copied = {"copying": 6, "throttled": 3}.get(when, 0)
        assert committed(world) == contents(range(5, 5 + copied)) and world.source.size_held == 0
        assert world.known.offset == (5 + copied) and not world.source.feeds
        # Whoever is throttled for more than a second, on a busy machine, commits what it owes meanwhile.
        assert bool(world.target.count("EndTxn")) == bool(copied), "no transaction is left open"

    asyncio.run(run())


FOREIGN, HANDED_BACK = Offset(5, "by another tool", 2), Offset(5, encoded(AT.handed_back(REMOTE_ID)), 2)


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        pytest.param("doubted", {"target": Target(position=FOREIGN)}, id="foreign"),
        pytest.param("doubted", {"target": Target(position=HANDED_BACK)}, id="handed back"),
        pytest.param("doubted", {"start": StartPoint(9, replace(AT, offset=9))}, id="went back"),
        pytest.param("doubted", {"target": Target()}, id="gone"),
        pytest.param("doubted", {"target": Target(), "start": StartPoint(0)}, id="records without a position"),
        pytest.param("remote_topic", {"topic": replace(TOPIC, remote_lost=True)}, id="remote topic lost"),
        pytest.param("transform", {"of": flow(transform="shop.change")}, id="a transform"),
        pytest.param("unsupported", {"target": Target(position=COMMITTED, level=1)}, id="transactions version 1"),
    ],
)
def test_what_only_the_record_path_can_judge(reason: str, change: dict[str, Any]) -> None:
    async def run() -> None:
        world = World(**change)
        with pytest.raises(LeaveBatchPath, match=reason):
            await world.until(lambda: False)
        assert not world.target.count("Produce") and world.target.commits == 0

    asyncio.run(run())


def test_another_remote_topic_than_the_plans_waits_for_the_plan() -> None:
    """The record path could not tell it from the one that the plan names, and would write to it."""

    async def run() -> None:
        world = World()
        world.source.add(8, lambda: made(3, at=5))
        known, world.target.topic_id = world.target.topic_id, lambda topic: id_of(TOPIC_ID)  # type: ignore[method-assign]
        for _ in range(2):
            with pytest.raises(OutcomeUnknown, match="remote is another topic than the one that the plan names"):
                await world.until(lambda: False)
            assert not world.target.count("Produce") and not world.copier.in_transaction
        world.target.topic_id = known  # type: ignore[method-assign]
        await world.until(lambda: world.target.position.offset == 8)
        assert committed(world) == contents(range(5, 8)), "only what was known of it was old"

    asyncio.run(run())


def test_who_leaves_before_the_end_of_a_transaction_remembers_none() -> None:
    """The record path would look what has become of it."""

    async def run() -> None:
        world = World(target=Target(position=COMMITTED, append_time=5))
        world.source.add(8, lambda: made(3, at=5))
        with pytest.raises(LeaveBatchPath, match="target_refuses"):
            await world.until(lambda: False)
        assert not world.unconfirmed and not world.target.count("EndTxn")

    asyncio.run(run())


def test_a_position_of_a_topic_that_was_deleted() -> None:
    async def run() -> None:
        old = replace(AT, topic_id=REMOTE_ID)
        world = World(target=Target(position=Offset(5, encoded(old), 2)), start=StartPoint(5, old))
        with pytest.raises(LeaveBatchPath, match="recreated at offset 5"):
            await world.until(lambda: False)

    asyncio.run(run())


def test_what_was_read_is_copied_before_it_leaves_the_batch_path() -> None:
    async def run() -> None:
        world = World()
        world.source.add(8, lambda: made(3, at=5))
        running = asyncio.create_task(world.copier.run())
        while not world.source.feeds:
            await asyncio.sleep(0)
        world.source.feeds[0].end(LeaveBatchPath("compacted", 8))
        with pytest.raises(LeaveBatchPath, match="compacted at offset 8"):
            await running
        assert committed(world) == contents(range(5, 8))

    asyncio.run(run())


async def begun(worlds: list[World], places: Places) -> list[asyncio.Task[None]]:
    """The copiers of these worlds, which share the places of one task and ask for them in this order."""
    running: list[asyncio.Task[None]] = []
    for each in worlds:
        services = replace(each.copier._services, taking_over=places)
        running.append(asyncio.create_task(BatchCopier(services, Route(PARTITION, TOPIC), each.books).run()))
        await asyncio.sleep(0)
    return running


def test_who_has_something_to_copy_is_taken_over_first() -> None:
    """An idle partition waits longer, but is taken over, too."""

    async def run() -> None:
        places = Places(1)
        holder = Place(places)
        await holder.__aenter__()
        worlds = [World(), World(), World()]
        worlds[1].source.add(8, lambda: made(3, at=5))
        running = await begun(worlds, places)
        worlds[2].source.add(8, lambda: made(3, at=5))  # something comes while it waits
        seen = list[list[bool]]()
        await holder.__aexit__(None)
        async with asyncio.timeout(10):
            while not worlds[0].target.requests:
                await asyncio.sleep(0)
                seen.append([bool(each.target.requests) for each in worlds])
        assert [False, True, False] in seen and [False, True, True] in seen, "one after the other, the idle one last"
        assert all(len(each.source.feeds) == 1 for each in worlds), "what was fetched meanwhile is used"
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        assert not any(each.source.feeds for each in worlds)

    asyncio.run(run())


@pytest.mark.parametrize("unread", [False, True])
def test_a_start_that_would_move_is_taken_over_before_idle_partitions(unread: bool) -> None:
    """Who waits for long may not get the start that it had when the flow began.

    If its position could not be read, it most likely has one, which a transaction holds: its take-over may take long.
    """

    async def run() -> None:
        places = Places(1)
        holder = Place(places)
        await holder.__aenter__()
        begins = World(target=Target(ends={"remote": 0}), start=StartPoint(7, unread=unread), early=False)
        worlds = [World(), begins]
        running = await begun(worlds, places)
        await holder.__aexit__(None)
        async with asyncio.timeout(10):
            while not any(each.target.requests for each in worlds):
                await asyncio.sleep(0)
        assert [bool(each.target.requests) for each in worlds] == [unread, not unread]
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    asyncio.run(run())


def test_who_could_not_be_taken_over_waits_for_all_others() -> None:
    async def run() -> None:
        world = World()
        world.source.add(8, lambda: made(3, at=5))
        world.target.faults = {0: CODES["UNKNOWN_SERVER_ERROR"]}
        with pytest.raises(PartitionError):
            await world.until(lambda: False)
        assert world.copier._place.has_failed
        world.target.kinds = {"EndTxn": [CODES["UNKNOWN_SERVER_ERROR"]]}
        with pytest.raises(PartitionError):
            await world.until(lambda: False)
        assert not world.copier._place.has_failed, "it was taken over"

    asyncio.run(run())


@pytest.mark.parametrize("hint", [3, 7])
def test_what_was_fetched_before_the_position_was_loaded_counts_only_if_it_begins_there(hint: int) -> None:
    """The hint may be an old position, or, after another owner's commits, any other one."""

    async def run() -> None:
        world = World(start=StartPoint(hint, None))
        world.source.add(8, lambda: made(2, 3, at=3))
        world.source.add(10, lambda: made(2, at=8))
        await world.until(lambda: world.target.position.offset == 10)
        assert committed(world) == contents(range(5, 10)) and world.source.size_held == 0

    asyncio.run(run())


def test_who_tries_again_fetches_nothing_before_it_is_taken_over() -> None:
    """While the target is away, it would fetch the same again and again."""

    async def run() -> None:
        world = World()
        world.source.add(8, lambda: made(3, at=5))
        world.target.faults = {0: Unavailable("away"), 1: Unavailable("away"), 2: Unavailable("away")}
        opened = list[int]()
        original = world.source.open

        def counted(
            topic: TopicKey, partition: int, position: int, epoch: int, largest: Largest, merged: Largest
        ) -> Feed:
            opened.append(position)
            return original(topic, partition, position, epoch, largest, merged)

        world.source.open = counted  # type: ignore[method-assign]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(coordination, "PATIENCE", 0.0)
            for attempt in range(2):
                with pytest.raises(PartitionError):
                    await world.until(lambda: False)
                assert opened == [5] and world.source.size_held == 0, attempt
        await world.until(lambda: world.target.position.offset == 8)
        assert opened == [5, 5] and committed(world) == contents(range(5, 8))

    asyncio.run(run())


@pytest.mark.parametrize("when", ["before", "while it waits", "as its turn comes"])
def test_who_is_let_go_does_not_wait_for_the_take_overs_of_others(when: str) -> None:
    """These may take as long as a transaction. The places are free for others afterwards."""

    async def run() -> None:
        world = World()
        places = Places(1)
        await Place(places).__aenter__()
        services = replace(world.copier._services, taking_over=places)
        copier = BatchCopier(services, Route(PARTITION, TOPIC), world.books)
        if when == "before":
            copier.let_go()
        running = asyncio.create_task(copier.run())
        await asyncio.sleep(0)
        if when == "as its turn comes":
            places.leave()
        if when != "before":
            copier.let_go()
        async with asyncio.timeout(10):
            with pytest.raises(LeaveBatchPath, match="let_go at offset 5"):
                await running
        if when != "as its turn comes":
            places.leave()
        assert places.free == 1 and not world.target.requests

    asyncio.run(run())


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(CODES["MESSAGE_TOO_LARGE"], "target_refuses"), (Unsupported("too old"), "unsupported")],
)
def test_what_the_target_does_not_take(fault: Fault, reason: str) -> None:
    async def run() -> None:
        world = World()
        world.source.add(8, lambda: made(3, at=5))
        world.target.faults = {5: fault}
        with pytest.raises(LeaveBatchPath, match=f"{reason} at offset 5"):
            await world.until(lambda: False)
        assert world.target.requests[5].kind == "Produce" and world.source.size_held == 0

    asyncio.run(run())


@pytest.mark.parametrize("fault", [Unanswered("closed"), Lost(Unanswered("timed out"))])
def test_a_large_batch_that_is_not_answered_goes_by_records(fault: Fault) -> None:
    """A broker closes the connection if a request is too large. If a small batch is not answered, it is tried again."""

    async def run() -> None:
        for size, stays in ((BATCH_BYTES - 200, True), (BATCH_BYTES, False)):
            world = World()
            record = 5, 1000, Content(None, b"v" * size, ())
            world.source.add(6, lambda record=record: walk(memoryview(bytearray(batches.batch([record])))))  # type: ignore[misc]
            world.target.faults = {5: fault}
            with pytest.raises(
                OutcomeUnknown if stays else LeaveBatchPath, match=None if stays else "too_large at offset 5"
            ):
                await world.until(lambda: False)
            assert world.target.requests[5].kind == "Produce" and world.source.size_held == 0

    asyncio.run(run())


def test_an_election_is_no_reason_to_divide_a_large_batch() -> None:
    """The leader, or another one, takes it the next time."""

    async def run() -> None:
        world = World()
        record = 5, 1000, Content(None, b"v" * BATCH_BYTES, ())
        world.source.add(6, lambda: walk(memoryview(bytearray(batches.batch([record])))))
        world.target.faults = {5: CODES["NOT_LEADER_OR_FOLLOWER"]}
        with pytest.raises(OutcomeUnknown):
            await world.until(lambda: False)
        await world.until(lambda: world.target.position.offset == 6)

    asyncio.run(run())


def test_who_meets_others_is_careful_and_then_leaves_the_batch_path() -> None:
    async def run() -> None:
        world = World(target=Target(position=COMMITTED, others=[0, 3, 0, 0, 0, 3]))
        world.source.add(10, lambda: made(3, 2, at=5))
        with pytest.raises(Interleaved):
            await world.until(lambda: False)
        await world.until(lambda: world.target.position.offset == 10)
        assert all(each.acks == -1 for each in world.target.produced[2:])
        world.source.add(15, lambda: made(3, 2, at=10))
        with pytest.raises(LeaveBatchPath, match="interleaved at offset 10"):
            await world.until(lambda: False)
        assert committed(world) == contents(range(5, 10))
        assert (world.books.counters.foreign, world.books.foreign) == (0, NOWHERE), "what is there can't be read"

    asyncio.run(run())


class Memory(bytearray):
    """The memory of an answer. Weak references can tell when it is free."""


class Answers:
    """Answers of the source, which nothing keeps but what is read of them."""

    def __init__(self) -> None:
        self._seen: list[weakref.ref[Memory]] = []

    def __call__(self) -> list[RecordBatch]:
        data = Memory(b"".join(each.data for each in made(3, 2, 1, at=5)))
        self._seen.append(weakref.ref(data))
        return walk(memoryview(data))

    @property
    def kept(self) -> int:
        return sum(each() is not None for each in self._seen)


@pytest.fixture
def no_garbage_collection() -> Iterator[None]:
    """Only what nothing refers to is freed: no circle of references."""
    gc.disable()
    yield
    gc.enable()


UNKNOWN_ERROR = CODES["UNKNOWN_SERVER_ERROR"]


@pytest.mark.parametrize(
    "target",
    [
        pytest.param({"kinds": {"Produce": [UNKNOWN_ERROR]}}, id="the first batch"),
        pytest.param({"kinds": {"Produce": [0, 0, 0, UNKNOWN_ERROR]}}, id="the last batch"),
        pytest.param({"kinds": {"TxnOffsetCommit": [UNKNOWN_ERROR]}}, id="the position"),
        pytest.param({"kinds": {"EndTxn": [UNKNOWN_ERROR]}}, id="the end"),
        pytest.param({"faults": {5: Unanswered("no answer")}}, id="the first batch is not answered"),
        pytest.param({"faults": {8: Unanswered("no answer")}}, id="the last batch is not answered"),
        pytest.param({"faults": {8: Lost(Unavailable("away"))}}, id="the last answer is lost"),
        pytest.param({"kinds": {"Produce": [CODES["MESSAGE_TOO_LARGE"]]}}, id="refused"),
        pytest.param({"others": [0, 0, 3], "log": lambda _: (b"", ())}, id="interleaved"),
        pytest.param({"delay": 0.2}, id="takes too long"),
    ],
)
@pytest.mark.usefixtures("no_garbage_collection")
def test_no_error_of_a_transaction_keeps_its_batches(target: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is kept while the partition waits for its next try, or for the record path. Their memory counts as free."""

    async def run() -> None:
        world = World(replace(flow(), transaction_timeout=0.5), Target(position=COMMITTED, **target))
        answers, kept = Answers(), list[int]()

        async def taken_over(*args: Any) -> Any:
            delay, world.target.delay = world.target.delay, 0.0
            try:
                return await take_over(*args)
            finally:
                world.target.delay = delay

        async def look(*_: object) -> None:
            kept.append(answers.kept)

        monkeypatch.setattr(batch_copier, "take_over", taken_over)
        monkeypatch.setattr(batch_copier, "count_between", look)
        world.source.add(11, answers)
        try:
            async with asyncio.timeout(10):
                await world.copier.run()
        except (PartitionError, LeaveBatchPath):
            kept.append(answers.kept)
        assert kept == ([0, 0] if "others" in target else [0])
        assert world.source.size_held == 0 and not world.target.commits

    take_over = batch_take_over.take_over
    asyncio.run(run())


@pytest.mark.parametrize(("torn", "leaves"), [("", False), ("records", True), ("position", True)])
def test_who_finds_a_transaction_torn_apart_has_the_record_path_decide(torn: str, leaves: bool) -> None:
    """Nobody knows whether it took effect. The target tells by the position and by the first record together."""

    async def run() -> None:
        world = World(target=Target(position=COMMITTED, torn=torn))
        batch = batches.batch([(100, 1_000, Content(b"x", None, ()))], attributes=TRANSACTIONAL, producer=PRODUCER)
        world.target.log = lambda at: (batch if at == 100 else b"", [(PRODUCER, 100)] if torn == "position" else [])
        world.target.faults = {8: Lost(Unanswered("closed"))}
        world.source.add(8, lambda: made(3, at=5))
        with pytest.raises(OutcomeUnknown):
            await world.until(lambda: False)
        assert world.target.requests[8].kind == "EndTxn"
        assert world.unconfirmed[("remote", 0)].first == 100
        if leaves:
            with pytest.raises(LeaveBatchPath, match="doubted"):
                await world.until(lambda: False)
            assert world.unconfirmed, "the record path looks again"
        else:
            world.source.add(11, lambda: made(3, at=8))
            await world.until(lambda: world.target.position.offset == 11)
            assert committed(world) == contents(range(5, 11)) and not world.unconfirmed

    asyncio.run(run())


def log_of(records: int) -> Callable[[int], tuple[bytes, Sequence[tuple[int, int]]]]:
    """What the target says of any offset: so many records begin there."""
    return lambda at: (batches.batch([(at + n, 1_000, Content(b"x", None, ())) for n in range(records)]), ())


def test_others_between_our_batches_are_counted_although_the_transaction_is_aborted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        world = World(target=Target(position=COMMITTED, others=[0, 3, 0, 0, 0, 4], log=log_of(8)))
        world.source.add(10, lambda: made(3, 2, at=5))
        with pytest.raises(Interleaved):
            await world.until(lambda: False)
        assert (world.books.counters.foreign, world.books.foreign) == (3, (100, 107))
        await world.until(lambda: world.target.position.offset == 10)
        assert world.books.counters.foreign == 3, "after an abort nobody knows whose the next offsets are"
        world.source.add(15, lambda: made(3, 2, at=10))
        with pytest.raises(LeaveBatchPath, match="interleaved"):
            await world.until(lambda: False)
        assert world.books.counters.foreign == 7 and world.target.count("Fetch") == 1, "it looks once a minute"

    asyncio.run(run())
    (said,) = [record for record in caplog.records if record.message == "somebody else writes to the remote topic"]
    fields = ("flow", "topic", "partition", "remote_topic", "first_offset", "last_offset", "offsets")
    assert [getattr(said, name) for name in fields] == ["primary->backup", "t", 0, "remote", 100, 107, 3]


@pytest.mark.parametrize("records", [0, 2])
def test_offsets_before_our_batches_are_looked_at_although_the_transaction_is_committed(records: int) -> None:
    """What has no records may be a marker that a coordinator has written once more."""

    async def run() -> None:
        log = log_of(records) if records else lambda at: (batches.marker(at + 1, 8, commit=True), ())
        world = World(target=Target(position=COMMITTED, others=[0, 2], nodes={SYNCS: 6, MAP: 6}, log=log))
        world.source.add(8, lambda: made(3, at=5))

        def copied() -> bool:
            if world.target.commits == len(world.source.answers) == 1:
                world.source.add(10, lambda: made(2, at=8))
            return world.target.count("Fetch") == 1 and world.copier.working_since is None

        await world.until(copied)
        assert world.target.position.offset == 10 and world.target.isolations == [0]
        expected = (records, (104, 105)) if records else (0, NOWHERE)
        assert (world.books.counters.foreign, world.books.foreign) == expected

    asyncio.run(run())


def test_a_look_that_is_broken_off_lets_other_partitions_look(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        world, asked = World(target=Target(position=COMMITTED, others=[0, 3])), asyncio.Event()

        async def lasts(*_: object) -> None:
            asked.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(batch_copier, "count_between", lasts)
        world.source.add(10, lambda: made(3, 2, at=5))
        await world.until(asked.is_set)
        assert world.looks.begin(1e12)

    asyncio.run(run())


ERRORS = st.one_of(st.builds(Unanswered, st.just("no answer")), st.builds(Unavailable, st.just("away")))
FAULTS = st.dictionaries(
    st.integers(0, 60),
    st.one_of(st.sampled_from([*CODES.values()]), ERRORS, st.builds(Lost, ERRORS)),
    max_size=12,
)


@settings(max_examples=150)
@given(FAULTS, st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(1, 7), st.sampled_from([1, 6]))
def test_each_record_comes_once_whatever_happens(
    faults: dict[int, Fault], counts: list[int], lag: int, node: int
) -> None:
    """The copier is run again after each error, as its owner does; and each sync and entry names a record's copy."""

    async def run() -> None:
        world = World(of=flow(offset_lag_max=lag, transaction_linger_max=0.0))
        world.target.faults, world.target.nodes = dict(faults), {"mm2-offset-syncs.primary.internal": node}
        at = 5
        for number, count in enumerate(counts):
            first = at + number % 2  # a marker, or an aborted transaction, before every other one
            world.source.add(first + count, lambda first=first, count=count: made(count, at=first))  # type: ignore[misc]
            at = first + count
        for _ in range(100):
            try:
                await world.until(lambda: world.target.position.offset == at)
                break
            except (PartitionError, WireError, LeaveBatchPath):
                continue
        batches = [batch for answer in world.source.answers for batch in answer()[1]]
        wanted = [offset for batch in batches for offset in range(batch.first, batch.last + 1)]
        assert committed(world) == contents(wanted) and world.source.size_held == 0
        where = dict(zip(wanted, sorted(world.target.committed["remote"]), strict=True))
        assert all(where[each.upstream] == each.downstream for each in syncs(world.target))
        for entry in entries(world.target):
            assert [where[entry.to_upstream(entry.downstream + n)] for n in range(entry.records)] == [
                entry.downstream + n for n in range(entry.records)
            ]

    with pytest.MonkeyPatch.context() as patch:
        for module in (coordination, batch_transaction, batch_take_over):
            patch.setattr(module, "PATIENCE", 0.02)
        asyncio.run(run())
