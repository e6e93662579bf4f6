"""Runs one function over many items on Spark, in a session of its own."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar, cast

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from mirror.errors import MirrorError
from mirror.service_settings import Settings
from mirror.spark.session import SparkDriver, starting

A = TypeVar("A")
B = TypeVar("B")
Progress = Callable[[int], None]  # gets the number of finished items

TASK_FAILURES = 4  # attempts of a task, since each may meet a lost executor
PROGRESS_INTERVAL = 0.1  # seconds between two reports of the progress


class SparkJobs:
    """Runs jobs on the Spark that the settings name. A context manager; raises MirrorError if Spark does not start."""

    def __init__(self, settings: Settings) -> None:
        with starting():
            self._driver = SparkDriver(
                settings.spark, {}, "", settings.log, task_failures=TASK_FAILURES, code=settings.code
            )

    def __enter__(self) -> SparkJobs:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, Exception) or error is None:
            self._driver.stop()
        else:  # Ctrl-C must not wait for running tasks
            self._driver.kill()

    @property
    def slots(self) -> int:
        """Tasks that can run at once; at least one, since a cluster's executors come only after a while."""
        return max(1, self._driver.slots())

    def map(self, function: Callable[[A], B], items: Sequence[A], progress: Progress) -> list[B]:
        """Run `function` over the items, each in a task of its own. Raises an item's MirrorError, or one of Spark."""
        if not items:
            return []
        context = self._driver.session.sparkContext
        group = uuid.uuid4().hex

        def collect() -> list[tuple[B | None, str]]:
            context.setJobGroup(group, "mirror")
            rows = context.parallelize(items, len(items)).mapPartitions(_guarded(function))
            return rows.collect()

        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(collect)
            while not running.done():
                time.sleep(PROGRESS_INTERVAL)
                progress(_done(context, group))
            try:
                rows = running.result()
            except (PySparkException, Py4JError) as error:
                raise MirrorError(f"the Spark job failed: {_cause(error)}") from error
        progress(len(items))
        for _, problem in rows:
            if problem:
                raise MirrorError(problem)
        return [cast(B, result) for result, _ in rows]


def _guarded(function: Callable[[A], B]) -> Callable[[Iterable[A]], Iterable[tuple[B | None, str]]]:
    """Return MirrorErrors as results: Spark would repeat the task, and wrap the error into a stack trace."""

    def run(items: Iterable[A]) -> Iterator[tuple[B | None, str]]:
        for item in items:
            try:
                yield function(item), ""
            except MirrorError as error:
                yield None, str(error)

    return run


def _done(context: SparkContext, group: str) -> int:
    tracker: Any = context.statusTracker()
    stages = [s for job in tracker.getJobIdsForGroup(group) for s in tracker.getJobInfo(job).stageIds]
    found = [tracker.getStageInfo(stage) for stage in stages]
    return sum(info.numCompletedTasks for info in found if info is not None)


def _cause(error: Exception) -> str:
    """The last Python error in Spark's stack trace, or the trace's first line if it has none."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    errors = [line for line in lines if "Error: " in line or "Exception: " in line]
    return (errors or lines or [type(error).__name__])[-1 if errors else 0][:300]
