"""One partition's step, on a target, a source and a clock that the test moves."""

from __future__ import annotations

import heapq
import itertools
import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, Message, TopicPartition

from mirror.clock import Clock
from mirror.control.partition_state import State
from mirror.control.throttle_shares import OF_FLOW, Share
from mirror.errors import OutcomeUnknown, PartitionError, ProducerFenced, TransactionAborted
from mirror.model import BATCH_BYTES, MapEnd, Partition, Position, Topic
from mirror.settings import Flow
from mirror.source.fetch_events import EndReached, ReadingBegan, ReadingLost, RecordsArrived, SourceRefused
from mirror.target.position_reader import from_committed
from mirror.target.unconfirmed import Unconfirmed, UnconfirmedTransactions
from mirror.task import copy_action, partition_take_over
from mirror.task.copier import RecordCopier
from mirror.task.events import EndAt, LetGo, RenewalDue, ThrottleChanged
from mirror.task.foreign_writes import LOOK_INTERVAL
from mirror.task.known_positions import StartPoint
from mirror.task.producer_budget import ProducerBudget
from mirror.task.rate_limits import RateLimits
from mirror.task.task_services import TaskServices
from mirror.text import BUG
from tests.unit.test_naming import flow

TOPIC = Topic("primary.t", "id", 1, 1, "remote-id")


class World(Clock):
    """The target, its group, the source, the plan, the scheduler and the clock of one copier."""

    renew_interval = 1e6
    clusters = ("id-a", "id-b")

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.time = 1_000.0
        self.calls: list[str] = []
        self.copied: list[int] = []  # the values on the target
        self.headers: list[Any] = []  # of these records
        self.position: Position | None = None
        self.owner: object = None
        self.fails: dict[str, BaseException] = {}  # the next call of this name
        self.meanwhile: Callable[[str], None] | None = None  # what happens at each call
        self.torn = ""  # the next commit takes effect for the records alone, or for the position alone
        self.visible: set[int] = set()  # downstream offsets
        self.unconfirmed = UnconfirmedTransactions()
        self.suspect = False
        self.tells_offsets = True  # to the producer that a record was delivered
        self.grows = 1  # the end of the remote partition
        self.high = 0  # what is said of that end when a producer has fenced the others
        self.ours = True
        self.first = 0  # offset that the source still has
        self.limits = RateLimits(self)
        self.moves: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._due: list[tuple[float, int, Any]] = []
        self._order = itertools.count()

    def monotonic(self) -> float:
        return self.time

    def now(self) -> float:
        return self.time

    def called(self, name: str) -> None:
        if self.meanwhile:
            self.meanwhile(name)
        self.calls.append(name)
        if name in self.fails:
            raise self.fails.pop(name)

    def schedule(self, item: Any, delay: float) -> None:
        heapq.heappush(self._due, (self.time + delay, next(self._order), item))

    def run(self, seconds: float) -> None:
        """Make the steps that are due within so many seconds."""
        end = self.time + seconds
        for _ in range(1_000):
            if not self._due or self._due[0][0] > end:
                self.time = max(self.time, end)  # a step may take longer
                return
            due, _, item = heapq.heappop(self._due)
            self.time = max(self.time, due)
            item.step()
        raise AssertionError("steps without end")

    # The plan, the positions and the source's admin client, as a step asks them.

    def decision(self, _: Partition) -> None:
        return None

    def still_ours(self, partitions: list[Partition]) -> list[Partition]:
        return partitions if self.ours else []

    def largest(self, _: str) -> int:
        return BATCH_BYTES

    def await_no_open_transaction(self, *_: object) -> int:
        self.called("settled")
        return self.high

    def load(self, *_: object) -> Position | None:
        self.called("load")
        return self.position

    def end(self, *where: object) -> Any:
        return (100, 0) if isinstance(where[0], Partition) else 0

    def topic_ids(self, names: list[str]) -> dict[str, str]:
        self.called("topic ids")
        return dict.fromkeys(names, "id")

    def offsets(self, asked: dict[Partition, object], stable: bool = True) -> dict[Partition, int]:
        return dict.fromkeys(asked, self.first)

    def copier(self, start: StartPoint | None = None) -> RecordCopier:
        """A copier that the fetcher has just begun to read for."""
        copier = self._copier(start)
        copier.post(ReadingBegan())
        self.run(0)
        return copier

    def paused(self, start: StartPoint) -> RecordCopier:
        """A copier of a partition that is paused already: nobody reads for it."""
        copier = self._copier(start)
        copier.post(LetGo(State.PAUSED))
        self.run(0)
        return copier

    def _copier(self, start: StartPoint | None) -> RecordCopier:
        any_: Any = self
        throttles: Any = SimpleNamespace(target=None)
        services = TaskServices(
            any_, any_, any_, throttles, b"", self.moves, any_, ProducerBudget(1), any_, self.limits
        )
        services = replace(services, unconfirmed=self.unconfirmed)
        return RecordCopier(services, Partition("t", 0), TOPIC, start or StartPoint(0))


class Producer:
    """A producer on the world's target, in the shape of TransactionalProducer."""

    delivered = 0

    def __init__(self, world: World) -> None:
        self._world = world
        self._open: list[tuple[str, Any, Any]] = []
        self._position: Position | None = None

    @property
    def suspect(self) -> bool:
        return self._world.suspect

    def fence(self) -> None:
        self._world.called("fence")
        self._world.owner = self

    def begin(self) -> None:
        self._open, self._position = [], None

    def produce(self, topic: str, value: Any = None, *more: Any, callback: Any = None, **_: Any) -> None:
        callback = callback or (more[2] if len(more) > 2 else None)
        self._open.append((topic, value, more[5] if len(more) > 5 else None))
        if callback:
            offset = self._world.grows + len(self._open) - 1
            known = offset if self._world.tells_offsets else OFFSET_INVALID
            callback(None, Message(topic, 0, known, None, value, timestamp=(1, 1)))

    def limit_undelivered(self, _: int) -> None:
        """All is delivered."""

    def flush(self) -> None:
        """All is delivered."""

    def send_position(self, position: TopicPartition) -> None:
        self._world.called("position")
        self._position = from_committed(position)

    def commit(self) -> None:
        assert self._world.owner is self, "it is fenced"
        only, self._world.torn = self._world.torn, ""
        records = sum(topic == TOPIC.remote for topic, *_ in self._open)
        if only != "position":
            self._world.copied += [int(value) for topic, value, _ in self._open if topic == TOPIC.remote]
            self._world.headers += [headers for topic, _, headers in self._open if topic == TOPIC.remote]
            self._world.visible.update(range(self._world.grows, self._world.grows + records))
        if only != "records":
            self._world.position = self._position
        if records:
            self._world.grows += records + 1
        self._world.called("commit")  # a failure of it tells nobody that it took effect

    def failed(self, error: KafkaError) -> PartitionError:
        if error.txn_requires_abort():
            return TransactionAborted("x")
        return ProducerFenced("x") if error.code() == KafkaError._FENCED else OutcomeUnknown(error.str())

    def discard(self) -> None:
        self._world.called("discard")


def enter(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have take-overs find the world's target in place of a cluster."""
    monkeypatch.setattr(partition_take_over, "TransactionalProducer", lambda *_: Producer(world))
    monkeypatch.setattr(partition_take_over, "is_visible", lambda flow, where, offset: offset in world.visible)


class AtLeastOnce(Producer):
    """The same in the shape of IdempotentProducer. The target takes each record at once, and `refuses` positions."""

    refuses = True

    def begin(self) -> None:
        super().begin()
        self.delivered = 0

    def commit(self) -> None:
        self.delivered = len(self._open)
        if not AtLeastOnce.refuses:
            return super().commit()
        self._world.copied += [int(value) for topic, value, _ in self._open if topic == TOPIC.remote]
        raise PartitionError("position of primary.t-0: Broker: Topic authorization failed", blocked=True)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(flow())
    enter(world, monkeypatch)
    return world


def state(copier: RecordCopier) -> State:
    return copier.snapshot.state


def arrive(copier: RecordCopier, first: int, last: int, headers: Any = None) -> None:
    """Put records into the copier's buffer and tell it, like the fetcher."""
    messages = [Message("t", 0, n, None, b"%d" % n, headers, timestamp=(1, 1_000)) for n in range(first, last)]
    copier.buffer.append(messages)
    copier.post(RecordsArrived())


def sought(copier: RecordCopier, world: World) -> int:
    """Make the last seek, like the fetcher; returns its offset."""
    assert not world.moves.empty()
    while not world.moves.empty():
        move = world.moves.get()
    copier.buffer.sought(move.seek_id)
    return int(move.position.offset)


TAKE_OVER = ["fence", "settled", "load"]
COPY = ["position", "commit"]


def test_no_producer_before_the_first_record(world: World) -> None:
    copier = world.copier()
    copier.post(EndReached())
    world.run(10)
    assert (world.calls, copier.snapshot.state, copier.has_producer) == ([], State.STARTING, False)


def test_fence_then_load_then_copy(world: World) -> None:
    copier = world.copier()
    arrive(copier, 0, 3)
    world.run(0.1)
    assert world.calls == TAKE_OVER + COPY
    assert world.copied == [0, 1, 2]
    assert world.position == Position(3, "id", remote_id="remote-id", map_end=MapEnd(1))
    seen = copier.snapshot
    assert (seen.state, seen.position, seen.counters.records) == (State.RUNNING, world.position, 3)
    assert seen.has_producer and seen.position.topic_id == "id" and seen.last_commit


def test_a_partition_that_was_copied_before_goes_on_at_its_loaded_position(world: World) -> None:
    """The hint is older: what lies between the two is on the target."""
    world.position = Position(5, "id", remote_id="remote-id")
    copier = world.copier(StartPoint(2, Position(2, "id", remote_id="remote-id")))
    arrive(copier, 2, 4)
    world.run(0.1)
    assert sought(copier, world) == 5 and world.copied == []
    arrive(copier, 5, 7)
    world.run(0.1)
    assert world.copied == [5, 6]


def test_an_idle_partition_settles_after_a_second(world: World) -> None:
    copier = world.copier()
    arrive(copier, 0, 3)
    world.run(0.1)
    copier.buffer.reached(5)  # two markers
    copier.post(EndReached())
    world.run(0.8)
    assert copier.snapshot.position.offset == 3
    world.run(0.5)
    assert copier.snapshot.position.offset == 5
    world.run(60)
    assert world.calls == TAKE_OVER + COPY + COPY, "then it rests"


@pytest.mark.parametrize("ours, ends", [(True, State.RUNNING), (False, State.RELEASED)])
def test_a_fenced_producer(world: World, ours: bool, ends: State) -> None:
    copier = world.copier()
    world.ours = ours
    world.fails["position"] = KafkaException(KafkaError(KafkaError._FENCED))
    arrive(copier, 0, 3)
    world.run(10)
    assert (copier.snapshot.state, copier.snapshot.counters.fenced) == (ends, 1)
    assert world.copied == ([0, 1, 2] if ours else [])
    assert world.calls[:5] == [*TAKE_OVER, "position", "discard"]


def test_a_commit_of_unknown_outcome_is_not_made_again(world: World) -> None:
    copier = world.copier()
    world.fails["commit"] = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    arrive(copier, 0, 3)
    world.run(10)
    assert world.copied == [0, 1, 2] and copier.snapshot.position.offset == 3
    assert world.calls == [*TAKE_OVER, *COPY, "discard", *TAKE_OVER]
    assert copier.snapshot.counters.transactions["unknown"] == 1


@pytest.mark.parametrize("only", ["records", "position"])
def test_a_transaction_that_the_target_has_torn_apart(
    world: World, only: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of its records and its position it has committed one. The position is set to what belongs to the records."""
    copier = world.copier()
    arrive(copier, 0, 3)
    world.run(0.1)
    world.torn, world.fails["commit"] = only, KafkaException(KafkaError(KafkaError._TIMED_OUT))
    arrive(copier, 3, 5)
    world.run(10)
    assert world.copied == [0, 1, 2, 3, 4] and world.position == copier.snapshot.position
    assert (world.position.offset, world.position.resets) == (5, 1)
    (said,) = [record for record in caplog.records if record.message.startswith("position decided")]
    assert vars(said)["offset"] == (5 if only == "records" else 3) and "torn" in vars(said)["reason"]
    arrive(copier, 5, 6)
    world.run(10)
    assert world.copied == [0, 1, 2, 3, 4, 5] and world.calls.count("discard") == 1


@pytest.mark.parametrize("only", ["records", "position"])
def test_the_first_transaction_of_a_partition_may_be_torn_apart(world: World, only: str) -> None:
    world.torn, world.fails["commit"] = only, KafkaException(KafkaError(KafkaError._TIMED_OUT))
    copier = world.copier()
    arrive(copier, 0, 3)
    world.run(10)
    assert world.copied == [0, 1, 2] and not world.unconfirmed
    assert world.position is not None and (world.position.offset, world.position.resets) == (3, 1)


def test_nothing_has_to_come_before_a_torn_transaction_is_found(world: World) -> None:
    """As after the batch path, which leaves that to the record path."""
    before = Position(3, "id", remote_id="remote-id", map_end=MapEnd())
    world.position = replace(before, offset=5)
    world.unconfirmed[TOPIC.remote, 0] = Unconfirmed(before, world.position, 4)
    copier = world.copier(StartPoint(5, world.position))
    world.run(10)
    assert copier.snapshot.position == world.position == replace(before, resets=1, map_end=None)
    assert not world.unconfirmed and state(copier) is State.RUNNING


def test_a_take_over_whose_own_transaction_is_aborted_begins_again(world: World) -> None:
    """Its producer may go on, but nobody knows yet from where."""
    copier = world.copier()
    arrive(copier, 0, 3)
    world.run(0.1)

    def meanwhile(name: str) -> None:
        if name == "load":
            world.meanwhile = None
            aborted = KafkaError(KafkaError._TIMED_OUT, "x", False, False, True)
            world.fails["position"] = KafkaException(aborted)

    world.meanwhile = meanwhile
    world.torn, world.fails["commit"] = "records", KafkaException(KafkaError(KafkaError._TIMED_OUT))
    arrive(copier, 3, 5)
    world.run(10)
    assert world.copied == [0, 1, 2, 3, 4] and copier.snapshot.position.offset == 5
    assert world.calls.count("fence") == 3 and not world.unconfirmed


def test_a_loss_blocks_until_somebody_decides(world: World) -> None:
    world.position = Position(2, "id", remote_id="remote-id")
    copier = world.copier(StartPoint(2, world.position))
    world.first = 7
    copier.buffer.seal()
    copier.post(ReadingLost("out of range"))
    world.run(5)
    seen = copier.snapshot
    assert seen.state is State.BLOCKED and seen.incident is not None and seen.incident.kind == "deleted"
    assert "offsets 2 to 6 were deleted" in seen.reason and not seen.has_producer
    world.first = 0  # the source has them again
    world.run(60)
    assert state(copier) is State.RUNNING and copier.snapshot.incident is None
    assert sought(copier, world) == 2


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> World:
    """A target without transactions that takes records of partition 0, which has a position, but commits none."""
    world = World(flow(exactly_once=False, batch_max_records=10))
    monkeypatch.setattr(partition_take_over, "IdempotentProducer", lambda *_: AtLeastOnce(world))
    monkeypatch.setattr(AtLeastOnce, "refuses", True)
    world.position = Position(0, "id", remote_id="remote-id")
    return world


def test_without_transactions_nothing_is_written_before_the_last_position_is_committed(
    refusing: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise all that is written while positions are refused would be doubled by a crash."""
    copier = refusing.copier(StartPoint(0, refusing.position))
    arrive(copier, 0, 30)
    refusing.run(300)
    assert refusing.copied == [*range(10)] and state(copier) is State.BLOCKED
    assert copier.snapshot.counters.retries > 5 and "authorization failed" in copier.snapshot.reason
    monkeypatch.setattr(AtLeastOnce, "refuses", False)
    refusing.run(60)
    assert refusing.copied == [*range(30)] and state(copier) is State.RUNNING
    assert refusing.position is not None and refusing.position.offset == 30


def test_what_is_on_the_target_is_no_loss_although_its_position_is_not_committed(
    refusing: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    copier = refusing.copier(StartPoint(0, refusing.position))
    arrive(copier, 0, 10)
    refusing.run(5)
    assert refusing.copied == [*range(10)] and refusing.position == Position(0, "id", remote_id="remote-id")
    refusing.first = 12  # retention has overtaken the position
    copier.buffer.seal()
    copier.post(ReadingLost("out of range"))
    monkeypatch.setattr(AtLeastOnce, "refuses", False)
    refusing.run(60)
    assert "offsets 10 to 11 were deleted" in copier.snapshot.reason and refusing.position.offset == 10


def test_a_source_that_refuses_is_asked_again(world: World) -> None:
    copier = world.copier()
    copier.post(SourceRefused("no permission", lasting=True))
    world.run(1)
    assert state(copier) is State.BLOCKED and copier.snapshot.reason.endswith("no permission")
    assert world.calls == [] and sought(copier, world) == 0
    arrive(copier, 0, 2)
    world.run(20)
    assert state(copier) is State.RUNNING and world.copied == [0, 1]


def test_a_paused_partition_keeps_its_position_and_has_no_producer(world: World) -> None:
    copier = world.copier()
    arrive(copier, 0, 3)
    world.run(0.1)
    copier.post(LetGo(State.PAUSED))
    arrive(copier, 3, 6)
    world.run(0.1)
    assert state(copier) is State.PAUSED and not copier.snapshot.has_producer
    world.time += world.renew_interval
    assert copier.snapshot.position_is_old(world.time)
    world.calls.clear()
    copier.post(RenewalDue())
    world.run(1)
    assert world.calls == [*TAKE_OVER, *COPY, "discard"] and world.copied == [0, 1, 2]
    assert not copier.snapshot.position_is_old(world.time) and state(copier) is State.PAUSED
    copier.post(LetGo(State.RELEASED))
    world.run(0)
    assert state(copier) is State.RELEASED


def throttle(world: World, copier: RecordCopier, rate: float) -> None:
    """The plan has another throttle, or with 0 none; as the plan follower follows it."""
    if world.limits.follow({OF_FLOW: Share(int(rate), rate)} if rate else {}):
        copier.post(ThrottleChanged())


def test_a_throttled_partition_copies_in_its_turn_and_runs(world: World) -> None:
    """A full batch does not wait for pacing, but for the throttle. Each of the records has one byte or two."""
    world.flow = replace(world.flow, batch_max_records=4)
    copier = world.copier()
    throttle(world, copier, 2.0)
    arrive(copier, 0, 10)
    world.run(0.1)
    assert world.copied == [0, 1] and state(copier) is State.RUNNING
    world.calls.clear()
    arrive(copier, 10, 40)  # what arrives is no reason for a step
    world.run(4)
    assert len(world.copied) == pytest.approx(10, abs=1)
    seen = copier.snapshot
    assert state(copier) is State.RUNNING and seen.throttled_until > world.time
    assert seen.throttle == "slowed down by the flow's throttle of 2 B/s"
    assert copier.drains_slowly
    assert 3 < seen.counters.throttled <= 4.1
    assert len(world.calls) == 2 * seen.counters.transactions["committed"] - len(COPY)
    world.run(60)
    assert world.copied == list(range(40)) and world.calls.count("fence") == 0


def test_a_throttle_that_is_lifted_has_a_partition_go_on_at_once(world: World) -> None:
    copier = world.copier()
    throttle(world, copier, 0.01)
    arrive(copier, 0, 10)
    world.run(20)
    assert world.copied == [0]
    throttle(world, copier, 0.0)
    world.run(0.1)
    assert world.copied == list(range(10))
    assert copier.snapshot.throttled_until == 0.0 and not copier.drains_slowly
    assert copier.snapshot.counters.throttled == pytest.approx(20)
    throttle(world, copier, 0.01)
    world.run(1_000)
    arrive(copier, 10, 12)
    world.run(1)
    assert copier.snapshot.counters.throttled == pytest.approx(20), "only what it has waited counts"


def test_who_waits_for_its_turn_needs_no_producer(world: World) -> None:
    """With more partitions than producers, each would open one twice for a batch."""
    copier = world.copier()
    throttle(world, copier, 0.1)
    arrive(copier, 0, 10)
    world.run(1)
    assert world.copied == [0] and copier.close_idle_producer()
    arrive(copier, 10, 20)
    world.run(5)
    assert not copier.has_producer and state(copier) is State.STARTING
    world.run(5)
    assert world.copied == [0, 1] and world.calls.count("fence") == 2


def test_what_arrives_after_a_throttle_was_lifted_does_not_wait_for_a_void_turn(world: World) -> None:
    copier = world.copier()
    throttle(world, copier, 0.001)
    arrive(copier, 0, 10)
    world.run(1)
    number = copier.buffer.resume_at(50)  # the consumer has to seek, and nothing is buffered
    throttle(world, copier, 0.0)
    world.run(1)
    assert number is not None
    copier.buffer.sought(number)
    arrive(copier, 50, 60)
    world.run(1)
    assert world.copied == [0, *range(50, 60)]


def test_a_retry_does_not_wait_for_a_void_turn(world: World) -> None:
    copier = world.copier()
    throttle(world, copier, 0.001)
    world.fails["position"] = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    arrive(copier, 0, 10)
    world.run(30)
    assert state(copier) is State.RETRYING and world.copied == []
    throttle(world, copier, 0.0)
    world.run(0.1)
    assert state(copier) is State.RUNNING and world.copied == list(range(10))


def test_a_lower_throttle_voids_what_was_promised(world: World) -> None:
    copier = world.copier()
    throttle(world, copier, 1.0)
    arrive(copier, 0, 10)
    world.run(0.1)
    throttle(world, copier, 0.01)
    world.run(80)
    assert world.copied == [0]
    world.run(100)
    assert world.copied == [0, 1]


def test_a_throttled_partition_is_let_go_and_renewed_without_delay(world: World) -> None:
    copier = world.copier()
    throttle(world, copier, 0.001)
    arrive(copier, 0, 10)
    world.run(1)
    copier.post(LetGo(State.RELEASED))
    world.run(0)
    assert state(copier) is State.RELEASED and world.copied == [0]


def test_a_partition_that_waits_for_its_turn_has_not_recovered(world: World) -> None:
    """What stopped it may still be there: only a transaction can tell."""
    copier = world.copier()
    throttle(world, copier, 0.1)
    world.fails["position"] = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    arrive(copier, 0, 10)
    world.run(5)
    assert state(copier) is State.RETRYING and world.copied == [], "its first turn is used up"
    world.run(10)
    assert state(copier) is State.RUNNING and world.copied == [0]


def test_each_new_producer_is_good_for_one_transaction(world: World) -> None:
    """While one of the target's brokers is down, every producer is disturbed as soon as it is open."""
    world.flow = replace(world.flow, batch_max_records=2)
    copier = world.copier()
    world.suspect = True
    arrive(copier, 0, 4)
    world.run(0.5)
    assert world.copied == [0, 1, 2, 3]
    assert world.calls == [*TAKE_OVER, *COPY, "discard", *TAKE_OVER, *COPY]


def test_a_disturbed_producer_that_has_committed_a_decided_position_copies_nothing(world: World) -> None:
    """A late request to end that transaction could end the next one: with half of its records."""
    world.position = Position(2, "id", remote_id="another")
    world.flow = replace(world.flow, on_data_loss="skip")
    copier = world.copier(StartPoint(2))
    world.suspect = True
    arrive(copier, 2, 4)
    world.run(0.5)
    assert world.copied == [2, 3] and world.calls == [*TAKE_OVER, *COPY, "discard", *TAKE_OVER, *COPY]
    assert copier.snapshot.counters.lost["remote_topic"] == 1


def test_after_a_defect_of_the_recovery_the_producer_is_not_used_again(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    copier = world.copier()
    recover = copier._recover

    def fails(_: object) -> None:
        monkeypatch.setattr(copier, "_recover", recover)
        raise RuntimeError("a defect")

    monkeypatch.setattr(copier, "_recover", fails)
    world.fails["position"] = RuntimeError("x")
    arrive(copier, 0, 3)
    with caplog.at_level(logging.ERROR):
        world.run(0.5)
    assert [record.getMessage() for record in caplog.records] == [BUG]
    assert world.copied == [0, 1, 2] and world.calls == [*TAKE_OVER, "position", "discard", *TAKE_OVER, *COPY]


def test_an_idle_producer_is_closed_unless_a_step_runs(world: World) -> None:
    copier = world.copier()
    closed: list[bool] = []
    world.meanwhile = lambda _: closed.append(copier.close_idle_producer())
    arrive(copier, 0, 1)
    world.run(0.1)
    assert closed and not any(closed)
    world.meanwhile = None
    assert copier.close_idle_producer() and not copier.close_idle_producer()
    assert state(copier) is State.STARTING and not copier.snapshot.has_producer
    arrive(copier, 1, 2)
    world.run(0.1)
    assert world.copied == [0, 1]


def test_what_arrives_while_a_step_runs_is_not_forgotten(world: World) -> None:
    copier = world.copier()

    def meanwhile(name: str) -> None:
        if name == "commit":
            copier.post(LetGo(State.RELEASED))

    world.meanwhile = meanwhile
    arrive(copier, 0, 3)
    world.run(0.1)
    assert world.copied == [0, 1, 2] and state(copier) is State.RELEASED


def test_a_hanging_step_tells_where(world: World) -> None:
    copier = world.copier()
    reached, goes_on = threading.Event(), threading.Event()

    def hang(_: str) -> None:
        reached.set()
        goes_on.wait(30)

    assert copier.stack == ""
    world.meanwhile = hang
    arrive(copier, 0, 1)
    thread = threading.Thread(target=world.run, args=(0.1,))
    thread.start()
    assert reached.wait(30)
    world.time += 100
    assert copier.since_progress >= 100
    assert "hang (" in copier.stack and "fence (" in copier.stack and "step (" in copier.stack
    goes_on.set()
    thread.join(30)
    assert copier.stack == "" and copier.since_progress == 0


def test_who_is_let_go_during_a_take_over_copies_nothing_more(world: World) -> None:
    copier = world.copier()
    world.meanwhile = lambda name: copier.post(LetGo(State.RELEASED)) if name == "load" else None
    arrive(copier, 0, 3)
    world.run(0)
    assert world.calls == [*TAKE_OVER, "discard"] and state(copier) is State.RELEASED


def test_a_loss_that_is_told_again_during_the_take_over_is_faced_once(world: World) -> None:
    world.position = Position(2, "id", remote_id="remote-id")
    copier = world.copier(StartPoint(2, world.position))
    looks = []
    world.meanwhile = lambda name: copier.post(ReadingLost("again")) if name == "load" else looks.append(name)
    copier.buffer.seal()
    copier.post(ReadingLost("out of range"))
    world.run(5)
    assert state(copier) is State.RUNNING and looks.count("topic ids") == 1


def foreign(copier: RecordCopier, world: World, first: int) -> int:
    """Copy three more records, and say how many offsets of somebody else are counted by then."""
    arrive(copier, first, first + 3)
    world.run(0.1)
    assert copier.snapshot.position.offset == first + 3
    return copier.snapshot.counters.foreign


def test_somebody_elses_records_are_noticed_also_after_the_producer_was_idle(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[tuple[str, int], int, int, int]] = []

    def count(_: Flow, where: tuple[str, int], first: int, end: int, most: int) -> int:
        asked.append((where, first, end, most))
        return end - first

    world.grows = 40
    copier = world.copier()
    monkeypatch.setattr(copy_action, "count_between", count)
    assert foreign(copier, world, 0) == 0, "what was there before is not known"
    assert foreign(copier, world, 3) == 0
    world.grows += 2
    assert foreign(copier, world, 6) == 2
    assert copier.snapshot.foreign == (48, 49)
    assert copier.close_idle_producer()
    assert foreign(copier, world, 9) == 2, "nobody wrote meanwhile"
    assert copier.close_idle_producer()
    world.grows += 5
    assert foreign(copier, world, 12) == 7
    assert asked == [(("primary.t", 0), 48, 50, 1)], "the target is asked once a minute, and one record is enough"


@pytest.mark.parametrize("error", [KafkaException(KafkaError(KafkaError._TRANSPORT)), ValueError("a defect")])
def test_a_look_for_somebody_elses_records_that_fails_stops_nothing(
    error: Exception, world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def count(_: Flow, __: tuple[str, int], first: int, end: int, ___: int) -> int:
        world.called("count")
        return end - first

    world.grows, world.fails["count"] = 40, error
    copier = world.copier()
    monkeypatch.setattr(copy_action, "count_between", count)
    assert foreign(copier, world, 0) == 0
    world.grows += 2
    assert foreign(copier, world, 3) == 0 and state(copier) is State.RUNNING
    assert (BUG in caplog.text) == isinstance(error, ValueError)
    world.run(LOOK_INTERVAL)
    assert foreign(copier, world, 6) == 2, "it looks again"


def test_after_a_failed_transaction_nobody_knows_whose_the_next_offsets_are(world: World) -> None:
    world.grows = 40
    copier = world.copier()
    assert foreign(copier, world, 0) == 0
    world.fails["position"] = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    arrive(copier, 3, 6)
    world.run(0.1)
    world.grows += 7  # the records of the failed transaction
    world.run(60)
    assert copier.snapshot.position.offset == 6
    assert copier.snapshot.counters.foreign == 0


def test_nothing_is_committed_where_the_remote_partition_begins_anew(world: World) -> None:
    """Another topic has the name, and librdkafka does not notice: positions and map entries would name the old one."""
    world.grows = world.high = 40
    copier = world.copier()
    arrive(copier, 0, 3)
    world.run(0.1)
    assert world.copied == [0, 1, 2]
    world.grows, world.high, world.position = 0, 0, None  # a broker removes the positions of a deleted topic
    arrive(copier, 3, 5)
    world.run(5)
    assert world.copied == [0, 1, 2] and world.position is None
    assert state(copier) is State.BLOCKED and copier.snapshot.reason.startswith("the position in group")


def test_where_a_log_was_cut_a_new_producer_goes_on(world: World) -> None:
    """After an unclean election the remote partition ends earlier, and its position is still there."""
    world.grows = world.high = 40
    copier = world.copier()
    arrive(copier, 0, 3)
    world.run(0.1)
    world.grows = world.high = 42
    arrive(copier, 3, 5)
    world.run(5)
    assert world.copied == [0, 1, 2, 3, 4] and state(copier) is State.RUNNING
    assert world.calls.count("fence") == 2, "a transaction was given up between"


def test_a_record_whose_offset_is_not_told_hinders_nothing(world: World) -> None:
    """The broker had it already, and does not know its offset any more."""
    world.grows = 40
    copier = world.copier()
    assert foreign(copier, world, 0) == 0
    world.tells_offsets = False
    assert foreign(copier, world, 3) == 0
    world.tells_offsets = True
    world.grows += 2
    assert foreign(copier, world, 6) == 0, "where our records have ended is not known"
    assert state(copier) is State.RUNNING
    assert (copier.snapshot.counters.retries, world.copied) == (0, list(range(9)))


def test_it_ends_where_it_is_told_and_lets_the_partition_go(world: World) -> None:
    """A record batch begins there, and the batch path goes on."""
    copier = world.copier()
    arrive(copier, 0, 3)
    copier.post(EndAt(5))
    world.run(0.1)
    assert world.copied == [0, 1, 2] and state(copier) is State.RUNNING
    arrive(copier, 3, 9)
    world.run(0.1)
    assert world.copied == [0, 1, 2, 3, 4] and state(copier) is State.RELEASED
    assert world.position is not None and world.position.offset == 5 and not copier.has_producer
    world.run(100)
    assert world.copied == [0, 1, 2, 3, 4]
    copier.post(LetGo(State.RELEASED))  # the plan follower has seen it
    world.run(0.1)
    assert copier.buffer.ended, "the partition returns to the batch path"


def test_an_end_after_records_that_compaction_has_removed_is_committed(world: World) -> None:
    """If it were not, the batch path would begin before it, within a batch, and give the partition back for ever."""
    copier = world.copier()
    arrive(copier, 0, 3)
    copier.post(EndAt(5))
    arrive(copier, 7, 9)
    world.run(10)
    assert world.copied == [0, 1, 2] and state(copier) is State.RELEASED
    assert world.position is not None and world.position.offset == 5


def test_a_start_is_committed_before_the_batch_path_asks_for_it_again(world: World) -> None:
    """`latest` would be a later offset then, and the records in between would be passed over."""
    world.flow = flow(start="latest")
    world.fails = {"fence": OutcomeUnknown("the target is slow")}
    copier = world.copier(StartPoint(7))
    assert state(copier) is State.RETRYING
    copier.post(EndAt(7))
    world.run(30)
    assert state(copier) is State.RELEASED
    assert world.position is not None and world.position.offset == 7


@pytest.mark.parametrize("late", [False, True], ids=["at once", "once the target answers"])
def test_a_start_is_committed_before_a_pause(world: World, late: bool) -> None:
    """Whoever goes on after it would ask for `latest` again, and pass over what has come meanwhile."""
    world.flow = flow(start="latest")
    world.fails = {"fence": OutcomeUnknown("the target is slow")} if late else {}
    copier = world.paused(StartPoint(7))
    assert (state(copier) is State.RETRYING) == late
    world.run(30)
    assert state(copier) is State.PAUSED and not copier.snapshot.has_producer
    assert world.position is not None and world.position.offset == 7


def test_an_end_before_which_there_is_no_record_at_all_is_committed(world: World) -> None:
    """Without a position, the batch path would begin where this copier did."""
    copier = world.copier()
    copier.post(EndAt(5))
    copier.buffer.reached(9)
    copier.post(EndReached())
    world.run(10)
    assert state(copier) is State.RELEASED
    assert world.position is not None and world.position.offset == 5


def test_an_idle_partition_ends_at_once(world: World) -> None:
    copier = world.copier()
    arrive(copier, 0, 3)
    world.run(0.1)
    copier.post(EndAt(3))
    world.run(0.1)
    assert state(copier) is State.RELEASED and world.copied == [0, 1, 2]


def test_an_end_that_comes_too_late_or_before_a_seek_changes_nothing(world: World) -> None:
    copier = world.copier()
    arrive(copier, 0, 3)
    world.run(0.1)
    copier.post(EndAt(2))
    arrive(copier, 3, 5)
    world.run(0.1)
    assert world.copied == [0, 1, 2, 3, 4] and state(copier) is State.RUNNING
    copier.post(EndAt(7))
    world.run(0.1)
    copier.post(ReadingLost("the log was cut"))
    world.first = 6
    world.run(100)
    assert state(copier) is not State.RELEASED


def test_a_failure_on_the_way_to_its_end_loses_nothing(world: World) -> None:
    copier = world.copier()
    arrive(copier, 0, 3)
    world.run(0.1)
    world.fails = {"position": OutcomeUnknown("who knows")}
    copier.post(EndAt(5))
    arrive(copier, 3, 9)
    world.run(30)
    assert world.copied == [0, 1, 2, 3, 4] and state(copier) is State.RELEASED
