"""When a flow's query is started, found ended, and ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from mirror.control.slices import Capacity
from mirror.errors import FlowError, MirrorError
from mirror.service import flow_query, shortage
from mirror.service.flow_query import FlowQuery
from mirror.spark.running_epoch import RunningEpoch
from mirror.status.flow_status import FlowStatus
from tests.harness.waiting import PATIENCE
from tests.unit.test_naming import flow


class Query:
    """A streaming query of Spark."""

    def __init__(self) -> None:
        self.isActive = True
        self.error: Exception | None = None
        self.refuses: Exception | None = None  # to end

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.isActive = False


class Spark:
    """A SparkDriver that has started."""

    def __init__(self) -> None:
        self.cores = 4
        self.epoch: RunningEpoch | None = None
        self.another_waits = False
        self.waiting = False
        self.queries: list[Query] = []
        self.sink: Callable[[Any, int], None] = lambda receipts, epoch: None

    def slots(self) -> int:
        return self.cores

    def running_epoch(self, _: Query) -> RunningEpoch | None:
        return self.epoch

    def a_query_waits(self) -> bool:
        return self.another_waits

    def waits(self, _: Query) -> bool:
        return self.waiting

    def start(self, _: object, sink: Callable[[Any, int], None]) -> Query:
        self.sink = sink
        self.queries.append(Query())
        return self.queries[-1]


@pytest.fixture
def spark() -> Spark:
    return Spark()


@pytest.fixture
def status() -> FlowStatus:
    status = FlowStatus("primary", "backup", "us")
    status.active = True
    return status


@pytest.fixture
def query(spark: Spark, status: FlowStatus) -> FlowQuery:
    future: Future[Any] = Future()
    future.set_result(spark)
    return FlowQuery(flow(), status, future, flow_count=3)


def test_a_flow_has_its_share_of_the_slots_and_at_least_one(spark: Spark, query: FlowQuery) -> None:
    for spark.cores, share in ((7, 2), (3, 1), (0, 1)):
        assert query.capacity({}, 2) == Capacity(share)
    assert not query.can_run()


@pytest.mark.parametrize(
    ("tasks", "another_waits", "gives_way"), [(2, True, True), (1, True, False), (2, False, False)]
)
def test_a_flow_with_more_than_its_share_gives_way_to_one_that_has_nothing(
    spark: Spark, query: FlowQuery, monkeypatch: pytest.MonkeyPatch, tasks: int, another_waits: bool, gives_way: bool
) -> None:
    monkeypatch.setattr(shortage, "WAITS_AFTER", 0.0)
    query.keep()
    spark.epoch, spark.another_waits = RunningEpoch(1, tasks, frozenset()), another_waits
    assert query.capacity({}, 2) == Capacity(1, gives_way=gives_way)


def test_a_flow_for_which_there_is_no_slot_does_not_hang(spark: Spark, query: FlowQuery) -> None:
    """To start its query again would not help."""
    query.keep()
    for spark.cores, spark.waiting, can_run in ((2, True, False), (2, False, True), (3, True, True), (0, False, False)):
        assert query.can_run() is can_run
    spark.cores, spark.waiting = 2, True
    assert query.failure_reason() == "Spark has no free slot for it (2 slots, 3 flows)"


def test_it_is_said_that_a_slice_has_no_task(
    spark: Spark, query: FlowQuery, status: FlowStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shortage, "VACANT_AFTER", 0.0)
    query.keep()
    spark.epoch = RunningEpoch(1, 1, frozenset({1}))
    assert query.capacity({1: "lost"}, 2).vacant == query.capacity({1: "lost"}, 2).vacant == {1}
    assert [event.reason for event in status.events()] == [
        "Spark runs no task for slice 1: the others take its partitions"
    ]
    assert not query.capacity({1: "lost"}, 3).vacant, "the next Spark epoch, for which there is a plan, has all tasks"


def test_there_is_one_query_and_another_one_after_it_has_ended(
    spark: Spark, query: FlowQuery, status: FlowStatus
) -> None:
    query.keep()
    query.keep()
    (first,) = spark.queries
    first.isActive, first.error = False, RuntimeError("no space left\n  at org.apache.spark")
    with pytest.raises(FlowError, match=r"^Spark query ended: no space left$"):
        query.keep()
    assert not status.active
    query.keep()
    assert len(spark.queries) == 2


def test_a_query_whose_tasks_hang_is_replaced(spark: Spark, query: FlowQuery) -> None:
    query.keep()
    query.abort()
    query.keep()
    assert [each.isActive for each in spark.queries] == [False, True]


def test_a_query_that_does_not_end_stops_the_flow(spark: Spark, query: FlowQuery) -> None:
    query.keep()
    spark.queries[0].refuses = PySparkException("timeout")
    with pytest.raises(MirrorError, match="Spark does not end a task that hangs"):
        query.abort()


def running_epoch(spark: Spark) -> tuple[threading.Thread, threading.Event]:
    """A Spark epoch that runs, and what ends it."""
    runs, ends = threading.Event(), threading.Event()

    def collect() -> list[object]:
        runs.set()
        ends.wait(PATIENCE)
        return []

    epoch = threading.Thread(target=lambda: spark.sink(SimpleNamespace(collect=collect), 1))
    epoch.start()
    assert runs.wait(PATIENCE)
    return epoch, ends


def test_the_query_is_stopped_after_its_epoch(spark: Spark, query: FlowQuery) -> None:
    query.keep()
    epoch, ends = running_epoch(spark)
    stop = threading.Thread(target=query.stop)
    stop.start()
    stop.join(0.1)
    assert stop.is_alive() and spark.queries[0].isActive
    ends.set()
    stop.join(PATIENCE)
    assert not spark.queries[0].isActive
    epoch.join(PATIENCE)


def test_tasks_that_hang_keep_no_flow_from_ending(
    spark: Spark, query: FlowQuery, caplog: pytest.LogCaptureFixture
) -> None:
    query.keep()
    epoch, ends = running_epoch(spark)
    spark.queries[0].refuses = PySparkException("timeout")
    query.stop(0.01)
    assert spark.queries[0].isActive and "Spark ends them" in caplog.text, (
        "Spark could not, and the flow ends all the same"
    )
    spark.queries[0].refuses = None
    query.stop(0.01)
    assert not spark.queries[0].isActive
    ends.set()
    epoch.join(PATIENCE)


@pytest.mark.parametrize(("cores", "waiting", "stopped"), [(0, True, True), (0, False, False), (1, True, False)])
def test_tasks_that_wait_for_an_executor_are_not_waited_for(
    spark: Spark, query: FlowQuery, monkeypatch: pytest.MonkeyPatch, cores: int, waiting: bool, stopped: bool
) -> None:
    """Without one they never read that they are to end, and the service would be killed at its drain_timeout."""
    monkeypatch.setattr(flow_query, "LOOK_INTERVAL", 0.01)
    query.keep()
    spark.cores, spark.waiting = cores, waiting
    epoch, ends = running_epoch(spark)
    stop = threading.Thread(target=query.stop)
    stop.start()
    stop.join(PATIENCE if stopped else 0.2)
    assert stop.is_alive() is not stopped and spark.queries[0].isActive is not stopped
    ends.set()
    stop.join(PATIENCE)
    epoch.join(PATIENCE)


def test_nothing_is_stopped_before_a_query_was_started(query: FlowQuery) -> None:
    query.stop()
