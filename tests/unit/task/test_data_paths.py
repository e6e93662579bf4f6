"""Partitions go from one data path to the other: who makes which copier, and when."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirror.control.data_path import BATCHES, RECORDS
from mirror.control.partition_state import State
from mirror.errors import MirrorError, TaskHung, Unavailable
from mirror.kafka import credentials
from mirror.kafka.throttling import Throttles
from mirror.model import BATCH_BYTES, Partition, Position, Topic
from mirror.settings import Cluster, Flow
from mirror.source.batch_feed import Largest, LeaveBatchPath
from mirror.source.batch_fetcher import BatchFetcher
from mirror.source.fetch_moves import StartFetching, StopFetching
from mirror.source.fetch_session import Ends
from mirror.target import coordination
from mirror.target.loading import Tokens
from mirror.task import batch_loop, cluster_releases, data_paths, partition_take_over
from mirror.task.batch_copier import LET_GO
from mirror.task.batch_loop import BatchLoop
from mirror.task.cluster_releases import ASK_AGAIN, SOURCE, TARGET
from mirror.task.copier import RecordCopier
from mirror.task.data_paths import Copier, DataPaths
from mirror.task.events import LetGo
from mirror.task.known_positions import StartPoint
from mirror.task.path_memory import FIRST_STAY, SOON, WITHIN_BATCH
from mirror.task.producer_budget import ProducerBudget
from mirror.task.supervised_batch_copier import SupervisedBatchCopier
from mirror.task.task_services import TaskServices
from mirror.text import BUG
from mirror.wire.access import Access
from mirror.wire.connection import Connection
from mirror.wire.metadata import id_of
from tests.harness.certificates import self_signed
from tests.harness.waiting import until
from tests.unit.task.test_batch_path_obstacles import flow
from tests.unit.task.test_copier import Producer, World, arrive

HERE = Partition("t", 0)
TOPIC = Topic("primary.t", "c291cmNlLXNvdXJjZS1zbw", 1, 1, "cmVtb3RlLXJlbW90ZS1yZQ")
NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


def away(**changes: Any) -> Flow:
    """A flow between clusters that do not answer."""
    ends = {"source": Cluster("primary", NOWHERE, {}, {}), "target": Cluster("backup", NOWHERE, {}, {})}
    return flow(**{**ends, **changes})


class Task(World):
    """What a task has for its data paths."""

    def __init__(self, of: Flow) -> None:
        super().__init__(of)
        self.tokens = Tokens()
        any_: Any = self
        self.throttles = Throttles(of)
        services = TaskServices(
            any_, any_, any_, self.throttles, b"", self.moves, any_, ProducerBudget(1), any_, self.limits
        )
        self.paths = DataPaths(services, self.moves)

    def joins(self, paused: bool = False) -> Copier:
        """Have a partition join the task, like the plan follower."""
        copier = self.paths.copier(HERE, TOPIC, StartPoint(0), paused)
        if not paused:
            self.paths.begin(copier)
        return copier

    def ends(self, copier: Copier, goes_on: bool = True) -> None:
        """Let a copier go, like the plan follower."""
        copier.post(LetGo(State.RELEASED))
        until("released", lambda: copier.snapshot.state is State.RELEASED)
        self.paths.end(copier, goes_on)

    def leaves(self, why: LeaveBatchPath) -> None:
        """Have a partition join the task, and leave the batch path."""
        copier = batches(self.joins())
        self.ends(copier)
        copier.left = why
        self.paths.end(copier, True)

    @property
    def path(self) -> tuple[str, str]:
        found = self.paths.of(HERE)
        return found.name, found.reason


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Flow], Task]]:
    monkeypatch.setattr(coordination, "PATIENCE", 0.5)  # with brokers that never answer
    monkeypatch.setattr(partition_take_over, "TransactionalProducer", lambda *_: Producer(made[-1]))
    made: list[Task] = []

    def task(of: Flow) -> Task:
        made.append(Task(of))
        return made[-1]

    yield task
    for each in made:
        each.paths.close(10.0)
    assert not [each for each in threading.enumerate() if each.name == "batches"]


def batches(copier: Copier) -> SupervisedBatchCopier:
    assert isinstance(copier, SupervisedBatchCopier)
    return copier


def records(copier: Copier) -> RecordCopier:
    assert isinstance(copier, RecordCopier)
    return copier


def test_by_default_nothing_of_the_batch_path_exists(make: Callable[[Flow], Task]) -> None:
    task = make(away(data_path="records"))
    copier = records(task.joins())
    assert task.moves.get() == StartFetching(copier) and task.path == (RECORDS, "") and task.paths.copiers == []
    for _ in range(3):
        task.time += 100
        task.paths.keep([copier])
    task.paths.end(copier, True)
    assert task.moves.get() == StopFetching(copier)
    assert not [each for each in threading.enumerate() if each.name == "batches"]


def test_a_partition_whose_batches_fit_takes_the_batch_path(make: Callable[[Flow], Task]) -> None:
    """It belongs to the task until it is let go, and the consumer never hears of it."""
    task = make(away())
    copier = batches(task.joins())
    assert task.path == (BATCHES, "") and task.paths.copiers == [copier]
    until("it tries to reach the target", lambda: copier.since_progress > 0 or copier.snapshot.counters.retries > 0)
    task.ends(copier)
    assert task.paths.copiers == [] and task.moves.empty() and copier.left is not None
    assert batches(task.joins()) is not copier, "to be let go is no reason to stay away"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"transform": "shop.change"}, "transform"),
        ({"source": Cluster("primary", {**NOWHERE, "security.protocol": "sasl_ssl"}, {}, {})}, "client"),
    ],
)
def test_who_needs_the_record_path_has_it(make: Callable[[Flow], Task], changes: dict[str, Any], reason: str) -> None:
    task = make(away(**changes))
    records(task.joins())
    assert task.path == (RECORDS, reason)


@pytest.mark.parametrize("reason", [SOURCE, TARGET])
def test_a_cluster_that_is_too_old_is_asked_once_an_hour(
    make: Callable[[Flow], Task], monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """Before anything is taken over, and for all partitions together. Once it is upgraded, the batch path is taken."""
    answers: list[str | Exception] = [reason, Unavailable("away"), reason, ""]
    asked = len(answers)

    async def too_old(_: object) -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def boundary(_: Any, topic: Any, partition: int, at: int, largest: int) -> int:
        return at

    monkeypatch.setattr(cluster_releases, "too_old", too_old)
    monkeypatch.setattr(BatchLoop, "silent_for", 0.0)  # it does not know that the clock is moved
    monkeypatch.setattr(data_paths, "boundary", boundary)
    task = make(away())
    copier = records(task.joins())
    assert task.path == (RECORDS, reason)
    for hour in range(2, asked + 1):
        for _ in range(10):
            task.paths.keep([copier])
        assert len(answers) == asked - hour + 1, "not before the hour is over"
        task.time += ASK_AGAIN

        def kept(left: int = asked - hour) -> bool:
            task.paths.keep([copier])
            return len(answers) == left and not task.paths._releases._asked

        until("asked", kept)
        assert (task.paths._releases.too_old == "") == (hour == asked)

    def released() -> bool:
        task.paths.keep([copier])
        task.run(1)
        return copier.snapshot.state is State.RELEASED

    until("it goes on in batches", released)
    task.paths.end(copier, True)
    batches(task.joins())


def test_what_a_batch_copier_finds_too_old_is_so_for_the_task(
    make: Callable[[Flow], Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target did not answer when it was asked first."""
    task = make(away())
    task.leaves(LeaveBatchPath(TARGET, 0))
    other = task.paths.copier(Partition("t", 1), TOPIC, StartPoint(0), False)
    assert isinstance(other, RecordCopier) and task.paths.of(Partition("t", 1)).reason == TARGET
    again, begun = records(task.joins()), task.time
    monkeypatch.setattr(data_paths, "boundary", None)
    monkeypatch.setattr(BatchLoop, "silent_for", 0.0)  # it does not know that the clock is moved
    while task.time < begun + ASK_AGAIN:
        task.paths.keep([again])
        task.time += 10
    assert task.path == (RECORDS, TARGET) and not task.paths._looks


@pytest.mark.parametrize(
    ("why", "goes_on", "kept"), [("doubted", True, 100), (LET_GO, True, 100), (LET_GO, False, 130)]
)
def test_a_partition_that_changes_its_path_before_it_has_begun_begins_where_it_was_to(
    make: Callable[[Flow], Task], why: str, goes_on: bool, kept: int
) -> None:
    """Asked for again, `start: latest` is a later offset. The records in between would be passed over."""
    task = make(away(start="latest"))
    copier = batches(task.paths.copier(HERE, TOPIC, StartPoint(100), False))
    task.paths.begin(copier)
    task.ends(copier, goes_on)
    copier.left = LeaveBatchPath(why, -1)
    task.paths.end(copier, goes_on)
    assert task.paths.copier(HERE, TOPIC, StartPoint(130), False).start.offset == kept
    assert task.paths.copier(HERE, TOPIC, StartPoint(150), False).start.offset == 150, "it was told once"
    copier.left = LeaveBatchPath("doubted", -1)
    task.paths.end(copier, True)
    hint = Position(140, TOPIC.topic_id)
    assert task.paths.copier(HERE, TOPIC, StartPoint(140, hint), False).start.offset == 140, "there is a position"


def test_a_paused_partition_is_on_the_record_path(make: Callable[[Flow], Task]) -> None:
    """The record path keeps the position of a paused partition alive. After the pause it goes on as before."""
    task = make(away())
    records(task.joins(paused=True))
    assert task.path == (RECORDS, "")
    batches(task.joins())


def test_quotas_are_told_as_on_the_record_path(make: Callable[[Flow], Task]) -> None:
    task = make(away())
    batches(task.joins())
    loop = task.paths._loop
    assert loop is not None and task.throttles.active == []
    loop.services.target._access.on_throttled(0.5)
    assert task.throttles.active == ["target"]
    loop.fetcher.cluster._access.on_throttled(0.5)
    assert task.throttles.active == ["source", "target"]


def test_partitions_end_where_their_fetches_say(make: Callable[[Flow], Task], monkeypatch: pytest.MonkeyPatch) -> None:
    task, key = make(away()), (id_of(TOPIC.topic_id), HERE.partition)
    assert task.paths.ends == {}
    monkeypatch.setattr(BatchFetcher, "ends", {key: Ends(5, 7), (key[0], 1): Ends(8, 8)})
    copier = batches(task.joins())
    assert task.paths.ends == {}, "it is not taken over"
    monkeypatch.setattr(SupervisedBatchCopier, "fetches", key)
    assert task.paths.ends == {HERE: Ends(5, 7)}
    task.ends(copier)
    assert task.paths.ends == {}


def test_what_does_not_fit_is_copied_by_records_for_a_while(
    make: Callable[[Flow], Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record path is told where a batch begins, as soon as that is found, and ends there."""
    found: list[int | None] = [None, 12]
    asked: list[int] = []

    async def boundary(_: Any, topic: Any, partition: int, at: int, largest: Largest) -> int | None:
        asked.append(at)
        assert largest() == BATCH_BYTES
        return found.pop(0)

    monkeypatch.setattr(data_paths, "boundary", boundary)
    task = make(away())
    task.leaves(LeaveBatchPath("log_append_time", 7, 9))
    again = records(task.joins())
    assert task.path == (RECORDS, "log_append_time") and task.moves.get() == StartFetching(again)
    task.paths.keep([again])
    task.time += FIRST_STAY
    task.paths.keep([again])
    assert asked == [], "its stay has doubled"
    for looks in (1, 2):
        task.time += 2 * FIRST_STAY
        task.paths.keep([again])
        until("it was looked", lambda looks=looks: len(asked) == looks)  # type: ignore[misc]
        assert again.snapshot.state is not State.RELEASED
    until("it knows its end", lambda: task._due)
    again.buffer.reached(20)
    task.run(10)
    assert again.snapshot.state is State.RELEASED and again.buffer.read_to == 12
    task.paths.end(again, True)
    assert batches(task.joins()) and task.path == (BATCHES, "")


def test_an_end_that_comes_too_late_is_looked_for_again_soon(
    make: Callable[[Flow], Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the record path has ended, the partition is kept off the batch path."""
    found = [0, 0, 3]

    async def boundary(_: Any, topic: Any, partition: int, at: int, largest: int) -> int:
        return found.pop(0)

    monkeypatch.setattr(data_paths, "boundary", boundary)
    task = make(away())
    task.leaves(LeaveBatchPath("log_append_time", 0, 1))
    again = records(task.joins())
    arrive(again, 0, 3)
    task.run(1)
    assert task.copied == [0, 1, 2]
    for left in (2, 1, 0):
        task.time += SOON if left < 2 else 2 * FIRST_STAY
        task.paths.keep([again])
        until("it was looked", lambda: all(each.done() for each in task.paths._looks.values()))
        task.paths.keep([again])
        assert len(found) == left and again.snapshot.state is State.RUNNING
        assert task.paths._known[HERE].memory.keeps_off == "log_append_time"
        task.run(0.1)
    assert again.snapshot.state is State.RELEASED
    task.paths.end(again, True)
    batches(task.joins())


def test_a_look_without_an_answer_is_no_bug_and_another_follows_soon(
    make: Callable[[Flow], Task], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks: list[float] = []

    async def boundary(_: Any, topic: Any, partition: int, at: int, largest: int) -> int:
        looks.append(task.time)
        raise Unavailable("it does not answer")

    monkeypatch.setattr(data_paths, "boundary", boundary)
    task = make(away())
    task.leaves(LeaveBatchPath("log_append_time", 7, 9))
    again = records(task.joins())
    task.time += 2 * FIRST_STAY
    for number in (1, 2, 3):
        task.paths.keep([again])
        until("it was looked", lambda: all(each.done() for each in task.paths._looks.values()))
        task.paths.keep([again])
        assert len(looks) == number
        task.time += FIRST_STAY
    assert BUG not in [each.message for each in caplog.records]


@pytest.mark.parametrize("begun", [True, False])
def test_a_look_that_is_cancelled_is_no_bug(
    make: Callable[[Flow], Task], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, begun: bool
) -> None:
    """When a task ends, its event loop ends first. The plan follower may still begin a look, or ask for its result."""
    asked = threading.Event()

    async def boundary(_: Any, topic: Any, partition: int, at: int, largest: int) -> int:
        asked.set()
        await asyncio.Event().wait()
        return at

    monkeypatch.setattr(data_paths, "boundary", boundary)
    task = make(away())
    task.leaves(LeaveBatchPath("log_append_time", 7, 9))
    again = records(task.joins())
    task.time += 2 * FIRST_STAY
    if begun:
        task.paths.keep([again])
        assert asked.wait(10)
    task.paths.close(10.0)
    task.paths.keep([again])
    task.paths.keep([again])
    assert not task.paths._looks and asked.is_set() == begun
    assert BUG not in [each.message for each in caplog.records]


def test_who_is_let_go_before_its_end_is_still_kept_off_the_batch_path(
    make: Callable[[Flow], Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def boundary(_: Any, topic: Any, partition: int, at: int, largest: int) -> int:
        return 12

    monkeypatch.setattr(data_paths, "boundary", boundary)
    task = make(away())
    task.leaves(LeaveBatchPath("log_append_time", 7, 9))
    again = records(task.joins())
    task.time += 2 * FIRST_STAY
    task.paths.keep([again])
    until("it was looked", lambda: all(each.done() for each in task.paths._looks.values()))
    task.run(1)
    assert again.buffer.has_end
    again.post(LetGo(State.RELEASED))
    task.run(1)
    assert again.snapshot.state is State.RELEASED
    task.paths.end(again, True)
    records(task.joins())
    assert task.path == (RECORDS, "log_append_time")


def test_a_position_within_a_batch_is_copied_to_the_batchs_end_only(make: Callable[[Flow], Task]) -> None:
    task = make(away())
    task.leaves(LeaveBatchPath(WITHIN_BATCH, 7, 9))
    again = records(task.joins())
    assert task.path == (RECORDS, WITHIN_BATCH)
    again.buffer.reached(20)
    task.run(10)
    assert again.snapshot.state is State.RELEASED and again.buffer.read_to == 9
    task.paths.end(again, True)
    batches(task.joins())


def test_changed_settings_end_the_batch_path(make: Callable[[Flow], Task]) -> None:
    task = make(away())
    copier = batches(task.joins())
    task.paths.keep([copier])
    assert copier.left is None
    task.flow = replace(task.flow, data_path="records")
    task.paths.keep([copier])
    until("released", lambda: copier.snapshot.state is State.RELEASED)
    assert copier.left is not None and copier.left.reason == "data_path"
    task.paths.end(copier, True)
    records(task.joins())
    assert task.path == (RECORDS, "")


def test_a_topic_that_is_another_one_begins_anew(make: Callable[[Flow], Task]) -> None:
    task = make(away())
    task.leaves(LeaveBatchPath("recreated", 7))
    records(task.joins())
    other = replace(TOPIC, topic_id="b3RoZXItb3RoZXItb3RoZQ")
    assert isinstance(task.paths.copier(HERE, other, StartPoint(0), False), SupervisedBatchCopier)


def test_an_event_loop_that_hangs_ends_the_task(make: Callable[[Flow], Task], caplog: pytest.LogCaptureFixture) -> None:
    task, begun, over = make(away()), threading.Event(), threading.Event()
    task.joins()
    loop = task.paths._loop
    assert loop is not None

    def hang() -> None:
        begun.set()
        over.wait(30)

    loop.call(hang)
    assert begun.wait(10)
    task.time += 30
    task.paths.keep([])
    task.time += 60
    try:
        with pytest.raises(TaskHung):
            task.paths.keep([])
    finally:
        over.set()
    (said,) = [each for each in caplog.records if each.message == "the event loop hangs"]
    assert "wait" in vars(said)["stack"]


def test_an_event_loop_that_has_died_ends_the_task(
    make: Callable[[Flow], Task], caplog: pytest.LogCaptureFixture
) -> None:
    """It does not matter what has ended the loop. Partitions would wait for ever: a new copier would never begin."""
    task = make(away())
    copier = batches(task.joins())
    until("it runs", lambda: copier.since_progress > 0 or copier.snapshot.counters.retries > 0)
    task.paths.keep([copier])
    loop = task.paths._loop
    assert loop is not None and not loop.has_died

    def die() -> None:
        raise SystemExit(3)

    loop.call(die)
    until("it has ended", lambda: not [each for each in threading.enumerate() if each.name == "batches"])
    with pytest.raises(MirrorError, match="has ended by a defect; the task starts again"):
        task.paths.keep([copier])
    assert "SystemExit" in caplog.text, "what has ended it is told"
    assert copier.snapshot.state is State.RELEASED, "the task need not wait for it when it ends"
    task.paths.close(10.0)
    task.paths.keep([copier])  # a loop that was closed has not died


def test_the_next_connections_log_in_with_what_the_files_hold(
    make: Callable[[Flow], Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The old connections go on while the new certificate can't be used."""
    monkeypatch.setattr(credentials, "LOOK_INTERVAL", 0.0)
    monkeypatch.setattr(credentials, "_known", {})
    monkeypatch.setattr(batch_loop, "BEAT", 0.05)
    used: list[Access] = []

    async def refused(_: object, access: Access) -> Connection:
        used.append(access)
        raise Unavailable("refused")

    monkeypatch.setattr(Connection, "open", refused)
    password, believed = tmp_path / "password", tmp_path / "ca.pem"
    password.write_text("first")
    believed.write_bytes(self_signed(tmp_path, "server").certificate.read_bytes())
    properties = {**NOWHERE, "security.protocol": "sasl_ssl", "sasl.mechanisms": "PLAIN", "sasl.password": "shipped"}
    properties["ssl.ca.location"] = str(believed)
    target = Cluster("backup", properties, {}, {}, {"sasl.password": str(password)})
    task = make(away(target=target))
    copier = batches(task.joins())
    until("the first password", lambda: passwords(used) == {"first"})
    password.write_text("second")
    until("the second password", lambda: "second" in passwords(used))
    good = believed.read_bytes()
    believed.write_text("no certificate")
    until("it can't be used", lambda: "can't be made anew" in caplog.text)
    password.write_text("third")
    used.clear()
    until("another attempt", lambda: used)
    assert passwords(used) == {"second"}
    believed.write_bytes(good)
    until("the third password", lambda: "third" in passwords(used))
    task.ends(copier)


def passwords(used: list[Access]) -> set[str]:
    """The passwords of those that log in, which are the target's connections."""
    return {access.login.password for access in used if access.login}


def test_a_certificate_that_can_not_be_used_yet_keeps_the_batch_path_away_only_until_it_changes(
    make: Callable[[Flow], Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "LOOK_INTERVAL", 0.0)
    monkeypatch.setattr(credentials, "_known", {})
    believed = tmp_path / "ca.pem"
    believed.write_text("no certificate")
    properties = {**NOWHERE, "security.protocol": "ssl", "ssl.ca.location": str(believed)}
    task = make(away(target=Cluster("backup", properties, {}, {})))
    first = task.joins()
    assert task.path == (RECORDS, "client")
    task.paths.end(first, True)
    believed.write_bytes(self_signed(tmp_path, "server").certificate.read_bytes())

    def takes_batches() -> bool:
        copier = task.joins()
        if isinstance(copier, SupervisedBatchCopier):
            task.ends(copier)
            return True
        task.paths.end(copier, True)
        return False

    until("the batch path", takes_batches)
