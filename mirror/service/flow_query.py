"""A flow's Spark query, which runs the flow's tasks in Spark epochs: started, watched and ended."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from mirror.control.slices import Capacity
from mirror.errors import FlowError, MirrorError
from mirror.service.shortage import Shortage
from mirror.settings import Flow
from mirror.spark.failure_reason import failure_reason
from mirror.spark.receipts import collected
from mirror.spark.session import SparkDriver
from mirror.status.flow_status import FlowStatus
from mirror.text import plural

log = logging.getLogger(__name__)

LOOK_INTERVAL = 1.0  # seconds between two looks whether there is still something to wait for


class FlowQuery:
    """The query of one flow. Spark runs its epochs in a thread of its own. Only one thread at a time calls the rest.

    Every method except `stop` raises Py4JError or ConnectionError when Spark's JVM is gone.
    """

    def __init__(self, flow: Flow, status: FlowStatus, spark: Future[SparkDriver], flow_count: int) -> None:
        """`flow_count` is the number of flows that share Spark's cores."""
        self._flow = flow
        self._status = status
        self._spark = spark
        self._flow_count = flow_count
        self._query: StreamingQuery | None = None
        self._shortage = Shortage()
        self._vacant: frozenset[int] = frozenset()  # as last logged
        self._epoch_ended = threading.Event()
        self._epoch_ended.set()

    @property
    def spark_is_starting(self) -> bool:
        """True until Spark has started, or has failed to."""
        return not self._spark.done()

    def capacity(self, claims: Mapping[int, str], planned: int) -> Capacity:
        """What Spark can run for this flow now.

        `claims` has the newest task of each slice, and `planned` is how many slices the newest plan has.
        Its share of the slots is at least 1. While a Spark epoch with another number of slices ends, none is vacant:
        the next epoch has tasks for all. Raises the error of Spark's start.
        """
        driver, query, now = self._spark.result(), self._query, time.monotonic()
        share = max(1, driver.slots() // self._flow_count)
        epoch = None if query is None else driver.running_epoch(query)
        vacant = self._shortage.vacant(epoch, claims, now)
        if epoch is not None and epoch.slices != planned:
            vacant = frozenset()
        self._log_vacant(vacant)
        has_more = epoch is not None and epoch.tasks > share
        return Capacity(share, vacant, self._shortage.lasts(has_more and driver.a_query_waits(), now))

    def _log_vacant(self, vacant: frozenset[int]) -> None:
        before, self._vacant = self._vacant, vacant
        for index in sorted(vacant - before):
            where = {"flow": self._flow.name, "slice": index}
            log.warning("slice has no task, the others take its partitions", extra=where)
            self._status.remember(f"Spark runs no task for slice {index}: the others take its partitions")
        for index in sorted(before - vacant):
            log.info("slice gets its partitions back", extra={"flow": self._flow.name, "slice": index})

    def can_run(self) -> bool:
        """False while Spark has no executors, or no slot for any task of this flow."""
        return self._spark.result().slots() > 0 and not self._lack_of_slots()

    def _lack_of_slots(self) -> str:
        """Says that no task of this flow runs because the other flows have all slots; "" if that is not so.

        With as many slots as flows, those that have more than their share give some up: see `capacity`.
        """
        driver, slots = self._spark.result(), self._spark.result().slots()
        if self._query is None or slots >= self._flow_count or not driver.waits(self._query):
            return ""
        return f"Spark has no free slot for it ({plural(slots, 'slot')}, {plural(self._flow_count, 'flow')})"

    def keep(self) -> None:
        """Start the query if there is none. Raises FlowError if it has ended; the next call starts it again."""
        query, self._query = self._query, None
        if query is None:
            self._query = self._spark.result().start(self._flow, self._receive)
        elif query.isActive:
            self._query = query
        else:
            self._epoch_ended.set()
            self._status.active = False
            failure = query.exception()
            raise FlowError(f"Spark query ended: {_first_line(failure)}")

    def _receive(self, receipts: DataFrame, spark_epoch: int) -> None:
        """Run a Spark epoch: Spark runs its tasks when their receipts are collected."""
        self._epoch_ended.clear()
        try:
            for row in collected(receipts):
                log.debug("receipt", extra={"flow": self._flow.name, "spark_epoch": spark_epoch, **row.asDict()})
        finally:
            self._epoch_ended.set()

    def failure_reason(self) -> str:
        """Why tasks of this Spark epoch may never have reached mirror; "" if Spark does not tell."""
        if self._query is None:
            return ""
        lack = self._lack_of_slots()
        return lack or failure_reason(self._spark.result().session.sparkContext, self._query.runId)

    def abort(self) -> None:
        """End the query, whose tasks hang; `keep` starts another one. Raises MirrorError if Spark can't end them."""
        query, self._query = self._query, None
        assert query is not None
        try:
            query.stop()
        except (Py4JJavaError, PySparkException) as error:
            reason = "Spark does not end a task that hangs: start the service again"
            raise MirrorError(f"flow {self._flow.name}: {reason}") from error

    def stop(self, within: float | None = None) -> None:
        """Wait until the tasks have ended by themselves, then end the query; without `within`, as long as that takes.

        Spark ends tasks that have not ended `within` so many seconds. If it can't, they stay until the service ends.
        """
        until = math.inf if within is None else time.monotonic() + within
        while not self._epoch_ended.wait(max(0.0, min(LOOK_INTERVAL, until - time.monotonic()))):
            if self._has_no_executors():
                break
            if time.monotonic() >= until:
                log.warning("tasks did not end by themselves, Spark ends them", extra={"flow": self._flow.name})
                break
        if self._query is not None:
            with contextlib.suppress(Py4JError, PySparkException, ConnectionError):
                self._query.stop()

    def _has_no_executors(self) -> bool:
        """True if the tasks wait for an executor. They can't read that they are to end, and would wait for ever."""
        with contextlib.suppress(Py4JError, ConnectionError):
            driver = self._spark.result()
            return self._query is not None and not driver.slots() and driver.waits(self._query)
        return False


def _first_line(error: object) -> str:
    lines = str(error or "no reason given").strip().splitlines()
    return lines[0][:300]
