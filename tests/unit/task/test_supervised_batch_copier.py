"""A batch copier that is kept going: what follows its errors, and what others see of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Set
from dataclasses import replace
from typing import cast

import pytest

from mirror.clock import Clock
from mirror.control.partition_state import State
from mirror.control.throttle_shares import OF_FLOW, Share
from mirror.model import Partition
from mirror.source.batch_feed import LeaveBatchPath
from mirror.source.batch_fetcher import BatchFetcher
from mirror.target.loading import Tokens
from mirror.task import batch_copier, supervised_batch_copier
from mirror.task.batch_services import BatchServices
from mirror.task.events import LetGo, RenewalDue, ThrottleChanged
from mirror.task.known_positions import StartPoint
from mirror.task.ownership import Ownership
from mirror.task.rate_limits import RateLimits
from mirror.task.supervised_batch_copier import DEFECT, SupervisedBatchCopier
from mirror.text import BUG
from mirror.wire.cluster import Cluster
from mirror.wire.error_codes import CODES
from mirror.wire.metadata import id_of
from tests.harness.batch_requests import MAP, SYNCS
from tests.harness.batch_target import Target, made
from tests.harness.constant_plan import ConstantPlan
from tests.unit.task.test_batch_copier import AT, COMMITTED, PARTITION, TOPIC, Source, log_of
from tests.unit.task.test_batch_path_obstacles import flow


class Plan(ConstantPlan):
    """One that may give the partition to another task."""

    ours = True

    def still_ours(self, partitions: Collection[Partition]) -> Set[Partition]:
        return frozenset(partitions if self.ours else ())


class World:
    """A source, a target and a copier between them, in the running event loop."""

    def __init__(self, limits: RateLimits | None = None) -> None:
        self.source, self.target, self.plan = Source(), Target(position=COMMITTED), Plan(flow())
        fetcher, target = cast(BatchFetcher, self.source), cast(Cluster, self.target)
        limits = limits or RateLimits(Clock())
        services = BatchServices(self.plan, fetcher, target, Tokens(), limits, Clock(), Ownership(self.plan))
        call = asyncio.get_running_loop().call_soon_threadsafe
        self.copier = SupervisedBatchCopier(services, call, PARTITION, TOPIC, StartPoint(5, AT))
        self.running = asyncio.create_task(self.copier.run())

    @property
    def state(self) -> State:
        return self.copier.snapshot.state

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.001)


def test_it_shows_how_the_partition_stands() -> None:
    async def run() -> None:
        world = World()
        copier = world.copier
        assert (world.state, copier.drained_to, copier.head_timestamp) == (State.STARTING, None, None)
        assert copier.fetches is None
        world.source.add(8, lambda: made(3, at=5))
        await world.until(lambda: world.state is State.RUNNING)
        seen = copier.snapshot
        assert (seen.position.offset, seen.counters.records, seen.position.topic_id) == (8, 3, TOPIC.topic_id)
        assert (copier.drained_to, copier.since_progress, seen.position_is_old(1e12)) == (8, 0.0, False)
        assert copier.fetches == (id_of(TOPIC.topic_id), PARTITION.partition)
        copier.post(RenewalDue())  # it sees to that itself
        copier.post(LetGo(State.RELEASED))
        await world.running
        assert world.state is State.RELEASED and copier.left is not None and copier.left.reason == "let_go"
        assert copier.fetches is None
        assert copier.snapshot.position.offset == 8 and not world.source.feeds

    asyncio.run(run())


def test_it_shows_that_somebody_else_has_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and not with the next transaction."""
    monkeypatch.setattr(batch_copier, "SETTLE_DELAY", 60.0)

    async def run() -> None:
        world = World()
        world.target.others, world.target.nodes, world.target.log = [0, 8], {SYNCS: 6, MAP: 6}, log_of(8)
        world.source.add(8, lambda: made(3, at=5))
        await world.until(lambda: world.copier.snapshot.position.offset == 8)
        world.source.add(10, lambda: made(2, at=8))
        await world.until(lambda: world.copier.snapshot.counters.foreign == 8)
        assert world.copier.snapshot.foreign == (104, 111) and world.copier.snapshot.position.offset == 10
        world.running.cancel()

    asyncio.run(run())


def test_an_idle_partition_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_copier, "SETTLE_DELAY", 0.01)

    async def run() -> None:
        world = World()
        await world.until(lambda: world.state is State.RUNNING)
        assert world.target.commits == 0
        world.copier.leave("transform")
        await world.running
        assert world.copier.left is not None and world.copier.left.reason == "transform"

    asyncio.run(run())


def test_it_tries_again_after_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """It is retrying until something is committed: a take-over alone is no recovery."""

    async def run() -> None:
        world = World()
        world.target.kinds = {"EndTxn": [CODES["UNKNOWN_SERVER_ERROR"]] * 3}
        world.source.add(8, lambda: made(3, at=5))
        seen = set[tuple[State, str]]()

        def copied() -> bool:
            there = world.target.position.offset == 8
            if not there:
                seen.add((world.state, world.copier.snapshot.reason))
            return there

        await world.until(copied)
        assert {state for state, _ in seen} == {State.STARTING, State.RETRYING}
        assert any("UNKNOWN_SERVER_ERROR" in reason for _, reason in seen)
        await world.until(lambda: world.state is State.RUNNING)
        counters = world.copier.snapshot.counters
        assert (counters.retries, counters.transactions) == (3, {"committed": 1, "aborted": 0, "unknown": 3})
        world.copier.post(LetGo(State.RELEASED))
        await world.running

    asyncio.run(run())
    assert [each.message for each in caplog.records] == ["partition is retrying"], "once"


@pytest.mark.parametrize(("kind", "asked"), [("InitProducerId", 1), ("ListOffsets", 2), ("OffsetFetch", 1)])
def test_a_take_over_that_fails_is_no_transaction(kind: str, asked: int) -> None:
    """Also after a transaction of which nobody knows the outcome. A take-over that succeeds has `asked` so often."""

    async def run() -> None:
        world, error = World(), CODES["UNKNOWN_SERVER_ERROR"]
        world.target.kinds = {kind: [error, error, *[0] * asked, error, error], "EndTxn": [error]}
        world.source.add(8, lambda: made(3, at=5))
        await world.until(lambda: world.target.position.offset == 8 and world.state is State.RUNNING)
        counters = world.copier.snapshot.counters
        assert (counters.retries, counters.transactions) == (5, {"committed": 1, "aborted": 0, "unknown": 1})
        world.copier.post(LetGo(State.RELEASED))
        await world.running

    asyncio.run(run())


@pytest.mark.parametrize("ours", [True, False])
def test_who_is_fenced_looks_whose_the_partition_is(ours: bool) -> None:
    async def run() -> None:
        world = World()
        world.plan.ours = ours
        world.target.kinds = {"EndTxn": [CODES["PRODUCER_FENCED"]]}
        world.source.add(8, lambda: made(3, at=5))
        if ours:
            await world.until(lambda: world.target.position.offset == 8 and world.state is State.RUNNING)
            world.copier.post(LetGo(State.RELEASED))
        await world.running
        assert world.copier.snapshot.counters.fenced == 1 and world.state is State.RELEASED
        assert world.target.commits == ours

    asyncio.run(run())


def test_all_that_are_fenced_at_once_share_a_look() -> None:
    """Who asks while one is under way waits for the next one: what it finds may be older than the fence."""

    class Slow(Plan):
        looks = 0
        under_way, goes_on = threading.Event(), threading.Event()

        def still_ours(self, partitions: Collection[Partition]) -> Set[Partition]:
            self.looks += 1
            ours = self.ours
            self.under_way.set()
            assert self.goes_on.wait(20)
            return frozenset(partitions if ours else ())

    async def run() -> None:
        plan = Slow(flow())
        ownership = Ownership(plan)
        asked = [asyncio.create_task(ownership.get(Partition("t", number))) for number in range(100)]
        assert await asyncio.to_thread(plan.under_way.wait, 20)
        plan.ours = False
        later = asyncio.create_task(ownership.get(Partition("t", 0)))
        await asyncio.sleep(0)
        plan.goes_on.set()
        assert await asyncio.gather(*asked) == [True] * 100
        assert not await later and plan.looks == 2

    asyncio.run(run())


def test_who_waits_after_an_error_is_let_go_at_once() -> None:
    async def run() -> None:
        world = World()
        world.target.kinds = {"InitProducerId": [CODES["UNKNOWN_SERVER_ERROR"]] * 100}
        await world.until(lambda: world.copier.snapshot.counters.retries == 6)  # the next one is seconds away
        world.copier.post(LetGo(State.RELEASED))
        await world.running
        assert world.copier.snapshot.counters.retries == 6

    asyncio.run(run())


def test_it_leaves_the_batch_path_and_says_why() -> None:
    async def run() -> None:
        world = World()
        world.source.add(8, lambda: made(3, at=5))
        await world.until(lambda: bool(world.source.feeds))
        world.source.feeds[0].end(LeaveBatchPath("position_within_batch", 8, 12))
        await world.running
        left = world.copier.left
        assert left is not None and (left.reason, left.at, left.until) == ("position_within_batch", 8, 12)
        assert world.state is State.RELEASED and world.copier.snapshot.position.offset == 8

    asyncio.run(run())


def test_a_defect_leaves_the_partition_to_the_record_path(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_copier.BatchCopier, "_copy", lambda *_: 1 / 0)

    async def run() -> None:
        world = World()
        world.source.add(8, lambda: made(3, at=5))
        await world.running
        assert world.copier.left is not None and world.copier.left.reason == DEFECT
        assert world.state is State.RELEASED and world.target.commits == 0

    asyncio.run(run())
    assert [each.message for each in caplog.records] == [BUG]


def test_a_defect_in_what_follows_an_error_leaves_the_partition_to_the_record_path(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If nothing said why it has ended, it would begin again at once, and without end."""
    monkeypatch.setattr(supervised_batch_copier, "recovery", lambda *_: 1 / 0)

    async def run() -> None:
        world = World()
        world.target.kinds = {"EndTxn": [CODES["UNKNOWN_SERVER_ERROR"]]}
        world.source.add(8, lambda: made(3, at=5))
        await world.running
        assert world.copier.left is not None and world.copier.left.reason == DEFECT
        assert world.state is State.RELEASED

    asyncio.run(run())
    assert [each.message for each in caplog.records] == [BUG]


def test_who_waits_for_its_turn_learns_of_another_throttle() -> None:
    async def run() -> None:
        limits = RateLimits(Clock())
        limits.follow({OF_FLOW: Share(1, 1)})
        world = World(limits)
        world.source.add(8, lambda: made(3, at=5))
        world.source.add(11, lambda: made(3, at=8))
        await world.until(lambda: world.copier.snapshot.throttled_until > Clock().monotonic() + 60)
        assert world.copier.snapshot.throttle and world.copier.head_timestamp == 1_008
        limits.follow({})
        world.copier.post(ThrottleChanged())
        await world.until(lambda: world.target.position.offset == 11)
        world.copier.post(LetGo(State.RELEASED))
        await world.running

    asyncio.run(run())


def test_a_request_that_never_ends_would_be_seen() -> None:
    async def run() -> None:
        world = World()
        world.target.delay = 3600.0
        await world.until(lambda: world.copier.since_progress > 0.05)
        assert "_take_over" in world.copier.stack or "run" in world.copier.stack
        world.running.cancel()
        await asyncio.gather(world.running, return_exceptions=True)
        assert world.state is State.RELEASED and world.copier.since_progress == 0.0

    asyncio.run(run())


def test_another_path_changes_nothing_of_what_a_position_is() -> None:
    """What a snapshot says is where the other path begins."""

    async def run() -> None:
        world = World()
        world.source.add(8, lambda: made(3, at=5))
        await world.until(lambda: world.state is State.RUNNING)
        assert world.copier.snapshot.position == replace(
            AT, offset=8, epoch=3, map_end=world.copier.snapshot.position.map_end
        )
        world.copier.post(LetGo(State.RELEASED))
        await world.running

    asyncio.run(run())
