"""Keeps the batch copier of one partition going, and shows the plan follower how the partition stands."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable
from dataclasses import replace

from mirror.backoff import Backoff
from mirror.control.partition_state import TRANSITIONS, State
from mirror.control.reports import Counters
from mirror.errors import MirrorError
from mirror.model import Partition, Topic
from mirror.source.batch_feed import Key, LeaveBatchPath
from mirror.task.batch_copier import LET_GO, BatchCopier
from mirror.task.batch_services import BatchServices, Books, Route
from mirror.task.error_recovery import recovery
from mirror.task.events import Event, LetGo, ThrottleChanged
from mirror.task.known_positions import KnownPositions, StartPoint
from mirror.task.partition_snapshot import PartitionSnapshot
from mirror.task.rate_limits import Turns
from mirror.task.stop_log import StopLog
from mirror.text import BUG

log = logging.getLogger(__name__)

DEFECT = "defect"  # why it leaves the batch path, if the batch path has a bug

Call = Callable[[Callable[[], object]], object]


class SupervisedBatchCopier:
    """Copies one source partition in whole batches, until it is let go or leaves the batch path. Retries after errors.

    In the end it is RELEASED, and `left` says why. The event loop runs `run`; any thread may call what is above it.
    """

    hang_reason = ""  # nothing of the user's runs here

    def __init__(
        self, services: BatchServices, call: Call, partition: Partition, topic: Topic, start: StartPoint
    ) -> None:
        """`call` has something called by the event loop."""
        self.partition = partition
        self.topic = topic
        self.start = start
        self.incarnation = uuid.uuid4().hex[:16]
        self.left: LeaveBatchPath | None = None
        flow = services.flow(partition.topic)
        interval = services.plan.renew_interval
        known = KnownPositions(start, topic, flow.start == "earliest", interval, services.clock)
        self._services = services
        self._call = call
        self._books = Books(known, Counters(), Turns(services.clock))
        self._copier = BatchCopier(services, Route(partition, topic), self._books, self._copying)
        self._state = State.STARTING
        self._reason = ""
        self._backoff = Backoff()
        self._where = {"flow": flow.name, "topic": partition.topic, "partition": partition.partition}
        self._stops = StopLog(self._where)
        self._letting_go = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._seen = self._snapshot()

    @property
    def snapshot(self) -> PartitionSnapshot:
        """How the partition stands: as the last transaction or error has left it, and whether it waits for its turn."""
        turns = self._books.turns
        return replace(self._seen, throttled_until=turns.until, throttle=turns.reason)

    def post(self, event: Event) -> None:
        """Tell the copier. It keeps its position alive by itself, and what a person decides is none of its business."""
        if isinstance(event, LetGo):
            self.leave(LET_GO)
        elif isinstance(event, ThrottleChanged):
            self._call(self._copier.forget_turns)

    def leave(self, reason: str) -> None:
        """Stop after the running transaction."""
        self._call(lambda: self._leave(reason))

    def close_idle_producer(self) -> bool:
        """There is none of librdkafka's, which has threads: False."""
        return False

    @property
    def fetches(self) -> Key | None:
        """What it fetches; None while the partition is not taken over."""
        feed = self._copier.feed
        return feed.key if feed is not None else None

    @property
    def drained_to(self) -> int | None:
        """Everything that was fetched before this offset is committed; None while some waits, or nothing is fetched."""
        feed = self._copier.feed
        return feed.position if feed is not None and feed.drained else None

    @property
    def head_timestamp(self) -> int | None:
        """The timestamp of the first waiting record, ms since the Unix epoch; None if none waits, or it has none."""
        feed = self._copier.feed
        return feed.head_timestamp if feed is not None else None

    @property
    def since_progress(self) -> float:
        """Seconds since the transaction, or take-over, that is under way began; 0 if none is."""
        since = self._copier.working_since
        return 0.0 if since is None else self._services.clock.monotonic() - since

    @property
    def stack(self) -> str:
        """Where the coroutine waits, the innermost call first."""
        frames = self._task.get_stack() if self._task is not None else []
        return " < ".join(f"{each.f_code.co_name}:{each.f_lineno}" for each in reversed(frames))

    # What the event loop calls.

    async def run(self) -> None:
        """Copy until the partition is let go or leaves the batch path. It raises nothing: others must not suffer."""
        self._task = asyncio.current_task()
        try:
            while self.left is None:
                await self._attempt()
        finally:
            self._become(State.RELEASED)
            self._stops.over()

    async def _attempt(self) -> None:
        try:
            try:
                await self._copier.run()
            except MirrorError as error:
                await self._recover(error)
        except LeaveBatchPath as left:
            self.left = left
        except Exception:  # the record path does not have it
            log.exception(BUG, extra=self._where)
            self.left = LeaveBatchPath(DEFECT, self._books.known.offset)

    async def _recover(self, error: MirrorError) -> None:
        """Count and tell the error, as RecordCopier._recover does. Then wait, unless the partition is let go."""
        follows, counters = recovery(error, self._state), self._books.counters
        if follows.outcome and self._copier.in_transaction:  # a take-over that has failed is no transaction
            counters.transactions[follows.outcome] += 1
        counters.fenced += follows.fenced
        if follows.fenced and not await self._services.ownership.get(self.partition):
            log.info("the partition is not ours any more", extra=self._where)
            self._leave(LET_GO)
            return
        counters.retries += 1
        self._become(follows.becomes, str(error))
        self._stops.stopped(error, self._state)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._backoff.next() if follows.retry_after is None else follows.retry_after):
                await self._letting_go.wait()

    def _leave(self, reason: str) -> None:
        self._letting_go.set()
        self._copier.let_go(reason)

    def _copying(self) -> None:
        self._backoff.reset()
        self._stops.over()
        self._become(State.RUNNING)

    def _become(self, state: State, reason: str = "") -> None:
        if state is not self._state and state not in TRANSITIONS[self._state]:
            raise AssertionError(f"{self.partition} can't go from {self._state.value} to {state.value}")
        self._state, self._reason = state, reason
        self._seen = self._snapshot()

    def _snapshot(self) -> PartitionSnapshot:
        known = self._books.known
        return PartitionSnapshot(
            state=self._state,
            reason=self._reason,
            incident=None,
            position=known.to_report,
            last_commit=known.last_commit,
            renew_at=None,
            counters=self._books.counters.copy(),
            foreign=self._books.foreign,
            has_producer=False,  # none of librdkafka's: there is nothing to close
            last_used=0.0,
            throttled_until=0.0,
            throttle="",
        )
