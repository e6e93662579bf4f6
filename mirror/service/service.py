"""The service: starts Spark and the flows, answers HTTP, and stops in order."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
import uuid
from concurrent.futures import Future
from types import FrameType
from typing import TYPE_CHECKING

from mirror import __version__
from mirror.control.partition_state import STOPPED_BY_ERROR
from mirror.errors import MirrorError, SetupError, Superseded
from mirror.kafka import clients
from mirror.service.cluster_watch import ClusterWatch
from mirror.service.flow import FlowRunner
from mirror.service.reloading import Configuration, Hangups, Reloader
from mirror.settings import Settings
from mirror.spark import shipping
from mirror.spark.java import java
from mirror.spark.session import SparkDriver, starting
from mirror.status.configuration import ConfigurationStatus
from mirror.status.overview import overview
from mirror.text import plural
from mirror.web.metrics.collector import Metrics
from mirror.web.page import files, page
from mirror.web.server import Answer, Route, WebServer, health, metrics

if TYPE_CHECKING:
    from mirror.web.otlp import OtlpPusher

log = logging.getLogger(__name__)

LIVE_WITHIN = 60.0  # seconds; each flow's loop must have run since then
FINISH_TIMEOUT = 5.0  # seconds for the work that follows once the tasks have ended
SPARK_START_TIMEOUT = 30.0  # seconds for which a stop waits for Spark's start, so that it can end Spark in order


def log_warnings(settings: Settings) -> None:
    """Log what is allowed in the configuration, but is ignored or looks like a mistake."""
    for flow in settings.flows:
        for line in (*clients.overridden(flow), *map(str, settings.warned(flow))):
            log.warning(line, extra={"flow": flow.name})


class Service:
    """Everything that `mirror run` runs."""

    def __init__(self, settings: Settings, configuration: Configuration, hangups: Hangups) -> None:
        """`settings` come from `configuration`, also later when they change. Each of `hangups` has it read again."""
        self._settings = settings
        self._read = ConfigurationStatus()
        self._reloader = Reloader(configuration, hangups, self._read, self._follow)
        self._service_id = uuid.uuid4().hex
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._spark: Future[SparkDriver] = Future()
        flows = settings.flows
        common = settings.log.level, len(flows), self._service_id, self._spark, self._stopping
        self._runners = [FlowRunner(flow, *common) for flow in flows]
        clusters = {cluster.alias: cluster for flow in flows for cluster in (flow.source, flow.target)}
        self._watches = [ClusterWatch(cluster, self._stopping) for cluster in clusters.values()]

    def run(self) -> None:
        """Run until SIGTERM, SIGINT or a failure.

        Raises SetupError without Java, TransformUnusable, Superseded when no flow is left to lead, and MirrorError for
        other failures.
        """
        java()
        shipping.check(self._settings.flows)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        pusher = self._pusher()
        web = WebServer(self._settings.http, self._routes())
        log.info("mirror starts", extra={"version": __version__, "port": web.port})
        if pusher is not None:
            pusher.start()
        log_warnings(self._settings)
        # Spark takes seconds to start, so it starts in a thread. And if the main thread made PySpark's session, PySpark
        # would replace the SIGINT handler.
        threading.Thread(target=self._start_spark, daemon=True, name="spark").start()
        try:
            for thread in (*self._runners, *self._watches, self._reloader):
                thread.start()
            self._watch()
            self._reloader.stop()
            self._stop()
        finally:
            web.stop()
            if pusher is not None:
                pusher.stop()
        failures = [runner.failure for runner in self._runners if runner.failure is not None]
        failures.sort(key=lambda failure: isinstance(failure, Superseded))
        if self._spark.done() and self._spark.exception() is not None:
            self._spark.result()
        if failures:
            raise failures[0]

    def _routes(self) -> dict[str, Route]:
        flows = [runner.status for runner in self._runners]
        clusters = [watch.status for watch in self._watches]
        return {
            "/": lambda request: page(overview(flows, self._read.view, clusters), request),
            "/status": lambda _: Answer("application/json", overview(flows, self._read.view, clusters).json()),
            "/metrics": metrics(self._metrics().registry),
            "/livez": health(self._live),
            "/readyz": health(self._ready),
            **files(),
        }

    def _pusher(self) -> OtlpPusher | None:
        """The thread that pushes the metrics; None if the configuration does not want it. Raises SetupError."""
        wanted = self._settings.metrics
        if wanted.otlp.endpoint is None:
            return None
        try:
            from mirror.web.otlp import OtlpPusher  # noqa: PLC0415  its libraries are an extra
        except ImportError as error:
            said = "metrics.otlp needs more packages: pip install 'kafka-mirror-spark[otlp]'"
            raise SetupError(said) from error
        return OtlpPusher(wanted.otlp, self._metrics().registry)

    def _metrics(self) -> Metrics:
        flows, clusters = [r.status for r in self._runners], [watch.status for watch in self._watches]
        return Metrics(flows, self._settings.metrics.labels, self._read, clusters)

    def _start_spark(self) -> None:
        flows = {flow.name: flow for flow in self._settings.flows}
        try:
            with starting():
                driver = SparkDriver(
                    self._settings.spark,
                    flows,
                    self._service_id,
                    self._settings.log,
                    transforms=self._settings.transforms,
                )
        except MirrorError as error:
            self._spark.set_exception(error)
        else:
            self._spark.set_result(driver)
            driver.warm_up()

    def _follow(self, settings: Settings) -> None:
        """Use other settings from now on. They differ only in what can change while the service runs."""
        before, self._settings = self._settings, settings
        level = settings.log.level
        for runner, old, new in zip(self._runners, before.flows, settings.flows, strict=True):
            if (new, level) != (old, before.log.level):
                runner.reconfigure(new, level)
        for warning in settings.warnings:
            if warning not in before.warnings:
                log.warning(str(warning), extra={"flow": warning.flow})

    def _watch(self) -> None:
        """Wait until there is a reason to stop. A flow that another service leads is no reason while others run."""
        while not self._stopping.is_set() and any(runner.is_alive() for runner in self._runners):
            failed = any(r.failure and not isinstance(r.failure, Superseded) for r in self._runners)
            if failed or (self._spark.done() and self._spark.exception() is not None):
                return
            self._wake.wait(0.5)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stopping.set()
        self._wake.set()

    def _stop(self) -> None:
        log.info("stopping")
        self._stopping.set()
        deadline = time.monotonic() + self._settings.drain_timeout
        for runner in self._runners:
            threading.Thread(target=runner.drain, daemon=True, name=f"drain {runner.name}").start()
        drained = all([r.drained.wait(max(0.0, deadline - time.monotonic())) for r in self._runners])
        if not drained:
            log.warning("drain timed out, running tasks are killed; the next service aborts their open transactions")
        with contextlib.suppress(MirrorError, TimeoutError):
            spark = self._spark.result(SPARK_START_TIMEOUT)
            if drained:
                spark.stop()
            else:
                spark.kill()
        if drained:
            finish_by = max(deadline, time.monotonic() + FINISH_TIMEOUT)
            for runner in self._runners:
                runner.finished.wait(max(0.0, finish_by - time.monotonic()))
        log.info("stopped", extra={"drained": str(drained).lower()})

    def _live(self) -> list[str]:
        # A flow that has ended does not count: another service leads it, and the other flows must run on.
        since = {r.name: time.monotonic() - r.beat for r in self._runners if r.is_alive()}
        return [f"{name}: loop has not run for {last:.0f} s" for name, last in since.items() if last > LIVE_WITHIN]

    def _ready(self) -> list[str]:
        problems = [f"{r.name}: {r.status.problem}" for r in self._runners if r.status.problem]
        problems += [f"{r.name}: {r.status.lacking}" for r in self._runners if r.status.lacking]
        problems += [f"{r.name}: not running" for r in self._runners if not r.status.active and not r.status.problem]
        for runner in self._runners:
            unreported = len(runner.status.unreported())
            if unreported:
                problems.append(
                    f"{runner.name}: {unreported} of {plural(runner.status.size, 'partition')} without a task yet"
                )
            for report in (each.report for each in runner.status.partitions()):
                if report.state in STOPPED_BY_ERROR:
                    problems.append(f"{runner.name}: {report.partition} {report.state}: {report.reason}")
        return problems
