"""Runs queries that fail, and that are stopped, on a Spark of the service's, and prints how each query ended.

A process of its own: a Spark session leaves settings of its own in the environment.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, functions

from mirror.settings import Log, Spark
from mirror.spark.receipts import collected
from mirror.spark.session import SparkDriver
from tests.harness.waiting import until

LONG = 20_000  # characters: a stack trace of Java with some causes
SLEEPING = "java_method('java.lang.Thread', 'sleep', 600000L)"
TIMEOUT = 60  # seconds


def failing_task(receipts: DataFrame, _: int) -> None:
    """An epoch with a task that fails with a long error."""
    collected(receipts.select(functions.raise_error(functions.lit("the task failed: " + "x" * LONG))))


def hanging_task(receipts: DataFrame, _: int) -> None:
    """An epoch that lasts until the query's end interrupts it."""
    collected(receipts.selectExpr(SLEEPING))


def ending(driver: SparkDriver, sink: Callable[[DataFrame, int], None]) -> str:
    """How a query on this sink ended: its error, "in order" when it was stopped, "running" if it did not end."""
    query = driver.query("rate", sink.__name__, sink)
    try:
        if sink is not failing_task:
            jobs = driver.session.sparkContext.statusTracker()
            until("it hangs", jobs.getActiveJobsIds)
            query.stop()
        return "in order" if query.awaitTermination(TIMEOUT) else "running"
    except PySparkException as error:
        return str(error)


def main() -> None:
    """Print the endings by the sinks' names."""
    driver = SparkDriver(Spark("local[2]", {}), {}, "", Log("error", "text"), task_failures=1)
    try:
        sinks = (failing_task, hanging_task)
        print(json.dumps({sink.__name__: ending(driver, sink) for sink in sinks}))
    finally:
        driver.stop()
        driver.join(TIMEOUT)


if __name__ == "__main__":
    main()
