"""Tells which tasks of its queries Spark runs now, from its scheduler: PySpark's own tracker has only their number."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import cast

from py4j.protocol import Py4JError
from pyspark import SparkContext


@dataclass(frozen=True, slots=True)
class RunningEpoch:
    """The Spark epoch that a query runs now."""

    job: int  # Spark's number of it
    tasks: int  # that run
    waiting: frozenset[int]  # the slices without a task: they wait for one, or theirs has ended, as the epoch soon does

    @property
    def slices(self) -> int:
        """How many slices it has."""
        return self.tasks + len(self.waiting)


def running_epoch(context: SparkContext, run: str) -> RunningEpoch | None:
    """The running Spark epoch of the query that has this run id; None if none of its tasks runs.

    Raises ConnectionError when Spark's JVM is gone.
    """
    job, copies = _newest(context, run)
    tasks = sum(map(bool, copies))
    return RunningEpoch(job, tasks, _without(copies)) if tasks else None


def waits(context: SparkContext, run: str) -> bool:
    """True if the query that has this run id has a Spark epoch of which no task runs.

    Raises ConnectionError when Spark's JVM is gone.
    """
    copies = _newest(context, run)[1]
    return bool(copies) and not any(copies)


def _newest(context: SparkContext, run: str) -> tuple[int, list[int]]:
    """The number of a query's newest job, and its `_copies`; -1 if it has none."""
    job = max(context.statusTracker().getJobIdsForGroup(run), default=-1)
    return job, [] if job < 0 else _copies(context, job)


def _without(copies: list[int]) -> frozenset[int]:
    return frozenset(index for index, count in enumerate(copies) if not count)


def _copies(context: SparkContext, job: int) -> list[int]:
    """How often Spark runs the task of each slice now: 0 or 1. Empty if the job has ended, or has not begun."""
    info = context.statusTracker().getJobInfo(job)
    jvm, scheduler = context._jvm, context._jsc.sc().taskScheduler()
    assert jvm is not None
    for stage in info.stageIds if info else ():
        try:
            running = scheduler.taskSetManagerForAttempt(stage, 0)  # a stage that reads no other stage has one attempt
            if running.isDefined():
                return cast(list[int], json.loads(jvm.java.util.Arrays.toString(running.get().copiesRunning())))
        except Py4JError:  # it ends just now
            continue
    return []
