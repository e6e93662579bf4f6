"""What Spark's scheduler says of a query's newest job."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mirror.spark.running_epoch import RunningEpoch, running_epoch, waits
from mirror.spark.session import SparkDriver

JOBS = {"query": [1, 3], "warm-up": [4], "new": list[int]()}


def context(**copies: list[int]) -> Any:
    """Spark with these jobs. The newest one of each group runs so many copies of each task."""
    stages = {max(JOBS[group]): some for group, some in copies.items()}

    def task_set(stage: int, _: int) -> Any:
        found = SimpleNamespace(copiesRunning=lambda: stages[stage])
        return SimpleNamespace(isDefined=lambda: stage in stages, get=lambda: found)

    tracker = SimpleNamespace(
        getJobIdsForGroup=JOBS.__getitem__,
        getJobInfo=lambda job: SimpleNamespace(stageIds=[job]) if job >= 0 else None,
        getActiveJobsIds=lambda: [job for job in stages],
    )
    scheduler = SimpleNamespace(taskSetManagerForAttempt=task_set)
    return SimpleNamespace(
        statusTracker=lambda: tracker,
        _jvm=SimpleNamespace(java=SimpleNamespace(util=SimpleNamespace(Arrays=SimpleNamespace(toString=str)))),
        _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(taskScheduler=lambda: scheduler)),
    )


@pytest.mark.parametrize(
    ("copies", "epoch", "waiting"),
    [
        ([1, 0, 1], RunningEpoch(3, 2, frozenset({1})), False),
        ([1, 1], RunningEpoch(3, 2, frozenset()), False),
        ([0, 0], None, True),
    ],
)
def test_a_query_waits_while_none_of_its_tasks_runs(
    copies: list[int], epoch: RunningEpoch | None, waiting: bool
) -> None:
    spark = context(query=copies)
    assert running_epoch(spark, "query") == epoch and waits(spark, "query") is waiting
    assert running_epoch(spark, "new") is None and not waits(spark, "new"), "its first job has not begun"


def test_a_job_that_belongs_to_no_query_keeps_no_flow_waiting() -> None:
    """Otherwise a flow would give slots up for the warm-up."""
    active = [SimpleNamespace(runId="query"), SimpleNamespace(runId="new")]
    driver: Any = SimpleNamespace(
        session=SimpleNamespace(
            sparkContext=context(**{"query": [1], "warm-up": [0]}), streams=SimpleNamespace(active=active)
        )
    )
    driver.waits = lambda query: SparkDriver.waits(driver, query)
    assert not SparkDriver.a_query_waits(driver)
    driver.session.sparkContext = context(query=[0, 0])
    assert SparkDriver.a_query_waits(driver)
