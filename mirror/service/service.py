"""The service: starts Spark and the flows, and stops in order."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from concurrent.futures import Future
from functools import partial

from mirror.control.partition_state import STOPPED_BY_ERROR
from mirror.errors import MirrorError, Superseded
from mirror.service.flow import FlowRunner
from mirror.service.front import Front
from mirror.service.life_signs import LifeSigns
from mirror.service.reloading import Hangups, Reloader
from mirror.service.standby import ReplaceableConfiguration, Standby
from mirror.service.stop_signals import end_on_signals
from mirror.service_settings import Settings
from mirror.spark import shipping
from mirror.spark.java import java
from mirror.spark.session import SparkDriver, starting
from mirror.status.configuration import ConfigurationStatus
from mirror.text import duration, plural

log = logging.getLogger(__name__)

LIVE_WITHIN = 60.0  # seconds; each flow's loop must have run since then
FINISH_TIMEOUT = 5.0  # seconds for the work that follows once the tasks have ended
SPARK_START_TIMEOUT = 30.0  # seconds for which a stop waits for Spark's start, so that it can end Spark in order


class Service:
    """Leads all flows of a configuration."""

    def __init__(
        self,
        configuration: ReplaceableConfiguration,
        hangups: Hangups,
        service_id: str,
        stopping: threading.Event,
        together: bool = False,
    ) -> None:
        """`configuration` has the settings, and those that are changed later. Each of the `hangups` has it read again.

        If `together`, it stops leading as soon as another service leads one of its flows: a standby leads all or none.
        """
        settings = self._settings = configuration.settings
        self._service_id = service_id
        self._stopping = stopping
        self._together = together
        self._is_told = False  # SIGTERM or SIGINT ends the service, and no failure
        self._spark: Future[SparkDriver] = Future()
        flows = settings.flows
        common = settings.log.level, len(flows), self._service_id, self._spark, self._stopping
        self._runners = [FlowRunner(flow, *common) for flow in flows]
        read, statuses = ConfigurationStatus(), [runner.status for runner in self._runners]
        self._reloader = Reloader(configuration, hangups, read, self._follow)
        self._front = Front(settings, statuses, read, self._live, self._ready)
        seen = self._front.clusters
        self._signs = [
            LifeSigns(
                flow,
                service_id,
                partial(_lives, runner),
                seen[flow.source.alias],
                self._stopping,
                self._leaves,
                partial(_waits, runner),
            )
            for flow, runner in zip(flows, self._runners, strict=True)
        ]

    def run(self) -> None:
        """Run until `stopping` is set or something fails.

        Raises SetupError, TransformUnusable, Superseded if it ended because other services lead its flows, and
        MirrorError for other failures.
        """
        shipping.check(self._settings.flows)
        with self._front:
            self._reloader.start()
            self._lead()
        if self._spark.done() and self._spark.exception() is not None:
            self._spark.result()
        if (failure := self._failure()) is not None:
            raise failure

    def _failure(self) -> MirrorError | None:
        """The failure that the service ends with, if any.

        A service that led a flow until it was told to stop has not failed, even if it lost another flow long before.
        """
        failures = [runner.failure for runner in self._runners if runner.failure is not None]
        if self._is_told and len(failures) < len(self._runners):
            failures = [failure for failure in failures if not isinstance(failure, Superseded)]
        failures.sort(key=lambda failure: isinstance(failure, Superseded))
        return failures[0] if failures else None

    def _lead(self) -> None:
        """Start Spark and lead the flows until there is a reason to stop; then stop."""
        # Spark takes seconds to start, so it starts in a thread. And if the main thread made PySpark's session, PySpark
        # would replace the SIGINT handler.
        threading.Thread(target=self._start_spark, daemon=True, name="spark").start()
        for thread in (*self._runners, *self._signs):
            thread.start()
        self._watch()
        self._reloader.stop()
        self._stop()

    def _start_spark(self) -> None:
        flows = {flow.name: flow for flow in self._settings.flows}
        try:
            with starting():
                driver = SparkDriver(
                    self._settings.spark,
                    flows,
                    self._service_id,
                    self._settings.log,
                    code=self._settings.code,
                )
        except MirrorError as error:
            self._spark.set_exception(error)
        else:
            self._spark.set_result(driver)
            driver.warm_up()

    def _follow(self, settings: Settings) -> None:
        """Use other settings from now on. They differ only in what can change while the service runs."""
        before, self._settings = self._settings, settings
        self._front.follow(settings)
        level = settings.log.level
        for runner, old, new in zip(self._runners, before.flows, settings.flows, strict=True):
            if (new, level) != (old, before.log.level):
                runner.reconfigure(new, level)
        for warning in settings.warnings:
            if warning not in before.warnings:
                log.warning(str(warning), extra={"flow": warning.flow})

    def _watch(self) -> None:
        """Wait until there is a reason to stop.

        If another service leads a flow, the other flows run on. But a service that leads all flows or none stops then:
        the other service is going to lead all of them.
        """
        while not self._stopping.is_set() and any(runner.is_alive() for runner in self._runners):
            failed = any(r.failure and (self._together or not isinstance(r.failure, Superseded)) for r in self._runners)
            if failed or (self._spark.done() and self._spark.exception() is not None):
                return
            self._stopping.wait(0.5)

    def _stop(self) -> None:
        log.info("stopping")
        self._is_told = self._stopping.is_set()
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
            for signs in self._signs:
                signs.join(max(0.0, finish_by - time.monotonic()))
        log.info("stopped", extra={"drained": str(drained).lower()})

    def _leaves(self) -> bool:
        """Wait until all flows have finished. True if a standby is to take over at once: say goodbye.

        Only a service that was a standby says so: another one leads again as soon as it is started again, and would
        meet the standby. After a failure nobody is in a hurry: what has failed here may fail there, too.
        """
        for runner in self._runners:
            runner.finished.wait()
        return self._together and self._is_told and not any(runner.failure for runner in self._runners)

    def _live(self) -> list[str]:
        # A flow that has ended, or waits for its tasks' end, does not count: another service leads it, and the other
        # flows must run on.
        since = {r.name: time.monotonic() - r.beat for r in self._runners if _runs(r)}
        return [f"{name}: loop has not run for {duration(last)}" for name, last in since.items() if last > LIVE_WITHIN]

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


def _runs(runner: FlowRunner) -> bool:
    """True until the flow's loop ends, be it that it hangs."""
    return runner.is_alive() and runner.failure is None


def _lives(runner: FlowRunner) -> bool:
    """True while the flow's loop runs, whether it starts, leads the flow, tries again or waits for a person."""
    return _runs(runner) and time.monotonic() - runner.beat < LIVE_WITHIN


def _waits(runner: FlowRunner) -> bool:
    """True while another flow is in the way."""
    return runner.waits


def run(configuration: ReplaceableConfiguration, hangups: Hangups, standby_after: float | None) -> None:
    """Do what `mirror run` does, until SIGTERM, SIGINT or a failure.

    With `standby_after`, it first waits until a flow has had no living service for so many seconds.

    Raises SetupError without Java, ConfigError, and what Service.run raises.
    """
    java()
    stopping = threading.Event()
    end_on_signals(stopping)
    service_id, stands_by = uuid.uuid4().hex, standby_after is not None
    if standby_after is None or Standby(configuration, hangups, service_id, standby_after, stopping).wait():
        Service(configuration, hangups, service_id, stopping, together=stands_by).run()
