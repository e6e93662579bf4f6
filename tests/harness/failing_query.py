"""Runs queries that fail, and that are stopped, on a Spark of the service's, and prints how each query ended.

It also prints what the flows' sources share, and what is known of tasks for which there is no slot.

A process of its own: a Spark session leaves settings of its own in the environment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, functions

from mirror.service_settings import Log, Spark
from mirror.spark.failure_reason import failure_reason
from mirror.spark.receipts import collected
from mirror.spark.running_epoch import RunningEpoch
from mirror.spark.session import SparkDriver
from mirror.spark.slice_tasks import WARM_UP
from tests.harness.waiting import until
from tests.unit.test_naming import flow

LONG = 20_000  # characters: a stack trace of Java with some causes
SLEEPING = "java_method('java.lang.Thread', 'sleep', 600000L)"
TIMEOUT = 60  # seconds
SLOTS = 2
ATTEMPTS = 3  # at each task


def failing_task(receipts: DataFrame, _: int) -> None:
    """A Spark epoch with a task that fails with a long error."""
    collected(receipts.select(functions.raise_error(functions.lit("the task failed: " + "x" * LONG))))


def hanging_task(receipts: DataFrame, _: int) -> None:
    """A Spark epoch that lasts until the query's end interrupts it."""
    collected(receipts.selectExpr(SLEEPING))


def ending(driver: SparkDriver, sink: Callable[[DataFrame, int], None]) -> str:
    """How a query on this sink ended: "in order" when it was stopped, "running" if it did not end, else its error.

    With the error stands what is known of its failed attempts.
    """
    query = driver.query("rate", sink.__name__, sink)
    try:
        if sink is not failing_task:
            jobs = driver.session.sparkContext.statusTracker()
            until("it hangs", jobs.getActiveJobsIds)
            query.stop()
        return "in order" if query.awaitTermination(TIMEOUT) else "running"
    except PySparkException as error:
        known = partial(failure_reason, driver.session.sparkContext, query.runId)
        # Spark counts an attempt some time after it has failed.
        until("all attempts are counted", lambda: re.search(rf"after [{ATTEMPTS}-9] attempts", known()))
        return f"{error} / {known()}"


def shared(driver: SparkDriver) -> int:
    """How many of the sources have the same map of variables as another one, in the JVM."""
    sources = driver.session._jsparkSession.sessionState().dataSourceManager()
    names = [WARM_UP, *driver.formats.values()]
    maps = [sources.lookupDataSource(name).dataSourceCls().envVars() for name in names]
    java = driver.session._jvm.java.lang.System  # type: ignore[union-attr]
    return len(maps) - len({java.identityHashCode(each) for each in maps})


def crowding_tasks(receipts: DataFrame, _: int) -> None:
    """A Spark epoch with one task more than there are slots."""
    collected(receipts.sparkSession.range(0, SLOTS + 1, 1, SLOTS + 1).selectExpr(SLEEPING))


def crowded(driver: SparkDriver) -> dict[str, object]:
    """What is known of two queries of which the first one takes all slots."""
    first = driver.query("rate", "first", crowding_tasks)

    def full() -> RunningEpoch | None:
        epoch = driver.running_epoch(first)
        return epoch if epoch is not None and epoch.tasks == SLOTS else None

    epoch = until("all slots are taken", full)
    assert epoch is not None
    waited = driver.a_query_waits()
    second = driver.query("rate", "second", crowding_tasks)
    until("the second one waits", driver.a_query_waits)
    runs = driver.running_epoch(second) is not None
    found = {"waiting": sorted(epoch.waiting), "waited": waited, "second_runs": runs}
    for query in (first, second):
        query.stop()
    return found


def main() -> None:
    """Print the endings by the sinks' names, how many sources share a map, and what is known while slots are short."""
    flows = {name: flow() for name in ("one", "other")}
    driver = SparkDriver(Spark(f"local[{SLOTS}]", {}), flows, "", Log("error", "text"), task_failures=ATTEMPTS)
    try:
        sinks = (failing_task, hanging_task)
        ends = {sink.__name__: ending(driver, sink) for sink in sinks}
        print(json.dumps({"shared": shared(driver), **ends, "crowded": crowded(driver)}))
    finally:
        driver.stop()
        driver.join(TIMEOUT)


if __name__ == "__main__":
    main()
