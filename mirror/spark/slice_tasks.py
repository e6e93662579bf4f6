"""Where each slice gets its task from Spark, and a new task when the first one or its executor is lost.

A flow is a streaming source of Spark. A micro-batch is one Spark epoch, and each of its partitions is one slice. A
Spark epoch lasts until the number of slices changes or the plan says to stop, so records never wait for Spark's
micro-batches. The source's "offset" is only the number of the Spark epoch: positions are on the target. At its end a
task yields receipts, one row for each topic partition.

When a task or its executor is lost, Spark calls `SliceReader.read` again for the same slice. The new task claims the
slice, and takes its partitions over.
"""

from __future__ import annotations

import logging
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, ClassVar

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from mirror import logs
from mirror.control.control_reader import ControlReader
from mirror.control.plan import Plan
from mirror.errors import ClusterAway, ForeignPlan, MirrorError
from mirror.malloc import bound_arenas
from mirror.service_settings import Log
from mirror.settings import Flow

if TYPE_CHECKING:
    from mirror.task.task import SliceTask

log = logging.getLogger(__name__)

WARM_UP = "mirror-warm-up"
RECEIPT = "slice INT, topic STRING, partition INT, remote_topic STRING, position BIGINT, records BIGINT, state STRING"
RETRY_DELAY = 1.0  # seconds; Spark itself starts a failed task again at once
PLAN_DELAY = 1.0  # seconds; longest wait before the next look for a plan
PLAN_PATIENCE = 0.1  # of the time for which there has been no plan: the wait before the next look for one
AWAY_ATTEMPTS = 10  # of a task that does not reach a cluster, every tenth failure is a warning
Offset = dict[str, int]


@dataclass(frozen=True)
class SlicePartition(InputPartition):
    """One slice of a Spark epoch with `count` slices. Spark gives it to each task that it starts for the slice."""

    index: int
    count: int
    restarts: int  # of the plan by which the Spark epoch began
    spark_epoch: str  # a random id, the same for all tasks of the Spark epoch


class MirrorDataSource(DataSource):
    """The source of one flow, once it is `bound` to the flow and its run."""

    format: ClassVar[str]
    flow: ClassVar[Flow]
    service_id: ClassVar[str]
    log: ClassVar[Log]

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return cls.format

    def schema(self) -> str:
        """The schema of a receipt: see task.Receipt."""
        return RECEIPT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """The reader of the flow."""
        return SliceReader(self.flow, self.service_id, self.log)


def bound(name: str, flow: Flow, service_id: str, log: Log) -> type[DataSource]:
    """The source class of a flow for one run, which Spark knows as the format `name`.

    Settings hold secrets. As attributes of a class that is made here they travel inside its pickle; as options they
    would be visible in Spark's plans and UI.

    Each flow has a class of its own, because Spark keeps a map of variables for each class, without a lock. If flows
    shared one, two queries that begin together could damage it. Then every task fails before it reaches Python, for as
    long as the service runs.
    """
    return type(
        "BoundMirrorDataSource",
        (MirrorDataSource,),
        {"format": name, "flow": flow, "service_id": service_id, "log": log},
    )


def _slice_task() -> type[SliceTask]:
    """The class of tasks, which only Python workers load.

    Spark starts four more Python processes for each flow, one after another, which load this module. None runs a task,
    and each would start half a second later with all that a task needs.
    """
    from mirror.task.task import SliceTask  # noqa: PLC0415

    return SliceTask


class WarmUpDataSource(DataSource):
    """A source of nothing, with as many tasks as the option `tasks` says."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return WARM_UP

    def schema(self) -> str:
        """The schema of a receipt, of which there is none."""
        return RECEIPT

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader with its tasks."""
        return WarmUp(int(self.options["tasks"]))


class WarmUp(DataSourceReader):
    """Makes Spark start Python workers that have loaded this package: the first Spark epoch finds them ready."""

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        """One partition for each worker to start."""
        return [InputPartition(number) for number in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        """Load what a task needs. There are no rows."""
        _slice_task()
        return iter(())


class SliceReader(DataSourceStreamReader):
    """Divides a flow's Spark epochs into slices, and runs a slice in each task.

    On the driver's side it lives in a Python process of its own. So it reads the plan from the control topic, as tasks
    do.
    """

    def __init__(self, flow: Flow, service_id: str, log: Log) -> None:
        self._flow = flow
        self._service_id = service_id
        self._log = log
        self._control: ControlReader | None = None
        self._idle_since: float | None = None  # monotonic: the first of the last looks, none of which found a plan

    def initialOffset(self) -> Offset:  # noqa: N802
        """Spark epochs are counted from 0 in every run."""
        return {"spark_epoch": 0}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """The next Spark epoch if our service has a plan to run; else `start`: then Spark does nothing.

        Spark asks again at once. There may be no plan for days, while another flow is in the way, and each look costs
        the target some requests. So a look waits the longer, the longer there has been no plan.
        """
        if self._plan():
            self._idle_since = None
            return {"spark_epoch": start["spark_epoch"] + 1}
        now = time.monotonic()
        self._idle_since = now if self._idle_since is None else self._idle_since
        time.sleep(min(PLAN_DELAY, PLAN_PATIENCE * (now - self._idle_since)))
        return start

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The slices of the newest plan; none if it says to stop meanwhile."""
        plan = self._plan()
        count = len(plan.slices) if plan and start != end else 0
        restarts = plan.restarts if plan else 0
        spark_epoch = uuid.uuid4().hex
        return [SlicePartition(index, count, restarts, spark_epoch) for index in range(count)]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        """Run one slice, in an executor's Python worker; yields its receipts when the Spark epoch ends."""
        assert isinstance(partition, SlicePartition)
        logs.configure(self._log)
        bound_arenas()
        try:
            whole = partition.index, partition.count, partition.restarts, partition.spark_epoch
            receipts = _slice_task()(self._flow, self._service_id, *whole).run()
        except ForeignPlan as error:  # a new Spark epoch follows when there is a plan that can be read
            where = {"flow": self._flow.name, "slice": partition.index, "reason": str(error)}
            log.warning("task ended: the plan is unreadable", extra=where)
            return
        except Exception as error:
            # Spark starts the task again without logging the reason.
            context = TaskContext.get()
            attempt = context.attemptNumber() if context is not None else 0
            away = isinstance(error, MirrorError) and error.away
            where = {"flow": self._flow.name, "slice": partition.index, "reason": f"{type(error).__name__}: {error}"}
            # Usually the flow leader finds the cluster away, too, and logs that. But its way there may be another.
            quiet = away and (attempt + 1) % AWAY_ATTEMPTS != 0
            log.log(logging.DEBUG if quiet else logging.WARNING, "task failed and starts again", extra=where)
            time.sleep(RETRY_DELAY)
            raise
        for receipt in receipts:
            yield astuple(receipt)

    def stop(self) -> None:
        """Leave the control topic and print nothing more: this process ends, and PySpark has told Spark why.

        As a rule Spark has closed the connection, so an answer that is being sent would print a stack trace.
        """
        sys.excepthook = lambda *_: None
        if self._control is not None:
            self._control.close()
            self._control = None

    def _plan(self) -> Plan | None:
        try:
            self._control = self._control or ControlReader(self._flow)
            self._control.read_to_end()
        except (ClusterAway, ForeignPlan):
            return None
        plan = self._control.plan
        return None if not plan or plan.service_id != self._service_id or plan.stop else plan
