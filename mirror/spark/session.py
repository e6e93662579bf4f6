"""The Spark session that runs the slices."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mirror.errors import MirrorError
from mirror.service_settings import Log
from mirror.service_settings import Spark as SparkSettings
from mirror.settings import Flow
from mirror.spark import security, shipping
from mirror.spark.fixed import FIXED, MASTER
from mirror.spark.home import SparkHome
from mirror.spark.jvm import Jvm, OwnJvm, SubmitJvm
from mirror.spark.run_directory import RunDirectory
from mirror.spark.running_epoch import RunningEpoch, running_epoch, waits
from mirror.spark.security import LOCAL
from mirror.spark.slice_tasks import WARM_UP, WarmUpDataSource, bound

_logger = logging.getLogger(__name__)

# A slice's task lives as long as its Spark epoch, so the failures of weeks add up. Each of them is retried.
TASK_MAX_FAILURES = 1_000_000
EXECUTOR_MAX_FAILURES = 1_000_000  # the same of executors

CONF: Mapping[str, str] = {
    "spark.app.name": "mirror",
    security.PAGES: "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedTasks": "100",  # of a stage; it is kept without pages too, and failed attempts are told from it
    "spark.excludeOnFailure.enabled": "false",
    # On Kubernetes and YARN Spark would end the driver after three of them, or twice as many as there are executors.
    "spark.executor.maxNumFailures": str(EXECUTOR_MAX_FAILURES),
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.pollingDelay": "20ms",  # or longer, between two reads of the control topic for a plan
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.stopTimeout": "10s",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # No code generation for these few rows: its classes alone take half a second to load.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.session.timeZone": "UTC",
}

# A machine that vanishes closes no connection, and only sends no heartbeats any more. Seconds between two heartbeats of
# an executor, and without one until Spark gives it up, so that its partitions move. See decision 0009.
HEARTBEAT, VANISHED_AFTER = 1, 7
HEARTBEATS: Mapping[str, str] = {
    "spark.executor.heartbeatInterval": f"{HEARTBEAT}s",
    "spark.network.timeoutInterval": f"{HEARTBEAT}s",  # between two looks of Spark at the heartbeats
    "spark.storage.blockManagerHeartbeatTimeoutMs": f"{VANISHED_AFTER}s",
    # An executor ends after so many without an answer; its tasks copy until then. Ten minutes, as with Spark's values.
    "spark.executor.heartbeat.maxFailures": str(600 // HEARTBEAT),
}
NETWORK_TIMEOUT = "spark.network.timeout"  # counts for the heartbeats where nothing else is said


def master(configured: str, flows: int, failures: int = TASK_MAX_FAILURES) -> str:
    """The master URL to use. A local one gets at least one thread for each flow, and `failures` attempts for a task."""
    local = LOCAL.fullmatch(configured)
    if not local:
        return configured
    threads = local["threads"] or "1"
    cores = _cores() if threads == "*" else int(threads)
    return f"local[{max(cores, flows)},{failures}]"


def driver_conf(
    settings: SparkSettings, submitted: Mapping[str, str], flows: int, failures: int, directory: Path
) -> dict[str, str]:
    """What the driver is told. The user's `spark.conf` wins over what spark-submit was told, and that over our own.

    But the master is spark-submit's if there is one: it has started this driver for it.
    """
    url = master(submitted.get(MASTER, settings.master), flows, failures)
    given = {**submitted, **settings.conf}
    own = {
        **CONF,
        "spark.task.maxFailures": str(failures),
        "spark.sql.warehouse.dir": (directory / "warehouse").as_uri(),
    }
    if security.is_local(url):
        own["spark.local.dir"] = str(directory)
    elif given.keys().isdisjoint({*HEARTBEATS, NETWORK_TIMEOUT}):  # Spark checks that they fit each other
        own |= HEARTBEATS
    hidden = security.redaction(given, settings.references)
    return {**own, **security.protection(url, given), **given, **hidden, **FIXED, MASTER: url}


def without_open_pages(conf: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """`conf`, but without Spark's pages if a spark-submit with this `environment` would open them to everybody.

    The JVM decides by its environment where they listen. Once it runs, nobody can change that.
    """
    if not security.has_open_pages(conf[MASTER], conf, environment):
        return dict(conf)
    _logger.warning(
        f"{security.PAGES} is true, but Spark's pages stay off: they would listen on the network, which a local master "
        f"does not need; start spark-submit with {security.LOCAL_IP}={security.LOOPBACK} in its environment"
    )
    return {**conf, security.PAGES: "false"}


def _cores() -> int:
    """The CPU cores that this process may use; in a container they are fewer than the machine has."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for quota, period in (_quota("cpu.max"), _quota("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        if quota > 0:
            cores = min(cores, math.ceil(quota / period))
    return max(1, cores)


def _quota(*files: str) -> tuple[int, int]:
    """The CPU quota and its period in microseconds, from the files of cgroup v2 or v1; a quota of -1 is no limit."""
    with contextlib.suppress(OSError, ValueError):
        quota, period = map(int, " ".join((Path("/sys/fs/cgroup") / file).read_text() for file in files).split())
        return quota, period
    return -1, 1


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Turn any failure to start a SparkDriver into a MirrorError with the first line of Spark's error."""
    try:
        yield
    except Exception as error:
        said = str(error.java_exception if isinstance(error, Py4JJavaError) else error).strip()
        reason = said.splitlines()[0][:300] if said else type(error).__name__
        raise MirrorError(f"Spark does not start: {reason}") from error


class SparkDriver:
    """A Spark session with a temporary directory. Nothing in it is worth keeping: positions are on the target."""

    def __init__(
        self,
        settings: SparkSettings,
        flows: Mapping[str, Flow],
        service_id: str,
        log: Log,
        home: SparkHome | None = None,
        task_failures: int = TASK_MAX_FAILURES,
        code: Collection[str] = (),
    ) -> None:
        """`code` has the dotted paths of callables of the user's own that tasks need."""
        self._directory = RunDirectory()
        submit = SubmitJvm.there()
        submitted = submit.conf() if submit else {}
        conf = driver_conf(settings, submitted, len(flows), task_failures, self._directory.path)
        if submit:
            conf = without_open_pages(conf, os.environ)
        for line in security.warnings(conf[MASTER], conf):
            _logger.warning(line)
        # Executors get it, too: as a rule they run the driver's image.
        python = conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable
        os.environ["PYSPARK_PYTHON"] = python
        self._jvm: Jvm = submit or OwnJvm(conf, self._directory.path, home)
        told = SparkConf().setAll(list(conf.items()))
        self.session = SparkSession(SparkContext(conf=told, gateway=self._jvm.gateway))
        # Its own handler prints a stack trace to stderr when the JVM is gone.
        self.session.sparkContext._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]
        if not security.is_local(conf[MASTER]):
            for archive in shipping.archives(code, self._directory.path):
                self.session.sparkContext.addPyFile(str(archive))
        # By flow: see slice_tasks.bound.
        self.formats = {name: f"mirror-{number}" for number, name in enumerate(flows)}
        for name, flow in flows.items():
            self.session.dataSource.register(bound(self.formats[name], flow, service_id, log))
        self.session.dataSource.register(WarmUpDataSource)
        # Each query needs this server. PySpark starts it at the first one, and fails if two begin at the same time.
        ensure_callback_server_started(self.session.sparkContext._gateway)  # type: ignore[no-untyped-call]

    def warm_up(self) -> None:
        """Start Python workers while the first query is being planned: see slice_tasks.WarmUp."""
        # If the session is stopped meanwhile, its JVM is gone, and PySpark raises AttributeError or NameError.
        with contextlib.suppress(Py4JError, PySparkException, ConnectionError, AttributeError, NameError):
            self.session.read.format(WARM_UP).option("tasks", str(self.slots())).load().collect()

    def slots(self) -> int:
        """The number of tasks that can run at once now, on all executors."""
        context = self.session.sparkContext._jsc.sc()
        profile = context.resourceProfileManager().defaultResourceProfile()
        return int(context.maxNumConcurrentTasks(profile))

    def running_epoch(self, query: StreamingQuery) -> RunningEpoch | None:
        """The Spark epoch that a query runs now; None if none of its tasks runs."""
        return running_epoch(self.session.sparkContext, query.runId)

    def waits(self, query: StreamingQuery) -> bool:
        """True if a query has a Spark epoch of which no task runs."""
        return waits(self.session.sparkContext, query.runId)

    def a_query_waits(self) -> bool:
        """True if that is so of any query."""
        return any(map(self.waits, self.session.streams.active))

    def start(self, flow: Flow, receipts: Callable[[DataFrame, int], None]) -> StreamingQuery:
        """Start a flow's query. `receipts` is called for each Spark epoch, and runs it by collecting its rows."""
        return self.query(self.formats[flow.name], flow.name, receipts)

    def query(self, source: str, name: str, sink: Callable[[DataFrame, int], None]) -> StreamingQuery:
        """Start a query on a registered source. `sink` is called with each micro-batch."""
        checkpoint = tempfile.mkdtemp(prefix="checkpoint-", dir=self._directory.path)
        return (
            self.session.readStream.format(source)
            .load()
            .writeStream.queryName(name)
            .option("checkpointLocation", Path(checkpoint).as_uri())
            .foreachBatch(sink)
            .start()
        )

    def stop(self) -> None:
        """End the session and remove its directory. From now on the output of the ending JVM is dropped."""
        self._jvm.hush()
        with contextlib.suppress(Py4JError, ConnectionError):
            self.session.stop()
        self._directory.remove()

    def join(self, timeout: float) -> bool:
        """Wait until the JVM has ended, at most `timeout` seconds; to be called after `stop`. True if it has."""
        return self._jvm.join(timeout)

    def kill(self) -> None:
        """Kill the JVM, and with it every local task."""
        self._jvm.hush()
        self._jvm.kill()
        self._directory.remove()
