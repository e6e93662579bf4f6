"""Tells how many attempts at the tasks of a query have failed, and why.

Spark starts a failed task again at once and says nothing, since the failures of weeks add up. A task that fails before
it reaches mirror can't report anything either.
"""

from __future__ import annotations

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext

from mirror.text import plural, printable

SHOWN = 300  # most characters of a reason that are kept


def failure_reason(context: SparkContext, run: str) -> str:
    """What Spark knows of the newest job of the query that has this run id; "": no attempt has failed.

    Raises ConnectionError when Spark's JVM is gone.
    """
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(run)]
    newest = max((job for job in jobs if job is not None), key=lambda job: job.jobId, default=None)
    stages = [tracker.getStageInfo(stage) for stage in newest.stageIds] if newest else []
    failing = max((stage for stage in stages if stage is not None), key=lambda each: each.numFailedTasks, default=None)
    if failing is None or not failing.numFailedTasks:
        return ""
    count = plural(failing.numFailedTasks, "attempt")
    return f"Spark has started tasks again after {count} that failed, e.g.: {_reason(context, failing.stageId)}"


def refusal(error: Py4JJavaError) -> str:
    """What Spark says of a call that it refuses."""
    try:
        return _essence(str(error.java_exception))
    except (Py4JError, ConnectionError):  # its JVM is gone meanwhile
        return "its JVM is gone, start the service again"


def _reason(context: SparkContext, stage: int) -> str:
    """Why an attempt at a task of this stage failed; Spark keeps a few of the last (`spark.ui.retainedTasks`)."""
    try:
        store = context._jsc.sc().statusStore()  # PySpark's own tracker has only the numbers
        attempts = store.taskList(stage, store.lastStageAttempt(stage).attemptId(), SHOWN)
        said = [attempts.apply(index).errorMessage() for index in range(attempts.size())]
        return next((_essence(each.get()) for each in reversed(said) if each.isDefined()), "unknown")
    except Py4JError:  # the stage is no longer kept
        return "unknown"


def _essence(error: str) -> str:
    """The line that tells most: the last of a Python traceback, else the first."""
    lines = [line.strip() for line in error.strip().split("\n\tat ")[0].splitlines() if line.strip()] or [""]
    is_traceback = any(line.endswith("Traceback (most recent call last):") for line in lines)
    return printable(lines[-1] if is_traceback else lines[0])[:SHOWN]
