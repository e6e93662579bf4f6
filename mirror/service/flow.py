"""Runs one flow in the service: takes the lead and publishes plans. status_follower.py reads the reports meanwhile."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future

from py4j.protocol import Py4JError, Py4JJavaError

from mirror.backoff import Backoff
from mirror.control.flow_leader import FlowLeader
from mirror.control.other_flows import ConflictGuard
from mirror.control.slices import Capacity
from mirror.control.throttle_shares import Load, throttles
from mirror.errors import ClusterAway, Conflict, FlowError, ForeignPlan, MirrorError, Superseded
from mirror.logs import OnChange
from mirror.model import Topic
from mirror.service.flow_health import FlowHealth
from mirror.service.flow_query import FlowQuery
from mirror.service.plan_changes import plan_changes
from mirror.service.sidelines import Sidelines
from mirror.service.status_follower import StatusFollower
from mirror.service.topic_monitor import TopicMonitor
from mirror.settings import Flow
from mirror.spark.failure_reason import refusal
from mirror.spark.session import SparkDriver
from mirror.status.flow_status import FlowStatus
from mirror.target.position_renewal import Renewal
from mirror.text import BUG

log = logging.getLogger(__name__)

CHECK_INTERVAL = 1.0  # seconds between two checks of leadership and query
# Seconds after which Spark ends the tasks of a flow that another service leads: one that hangs reads no plan. Those
# that still copy end within moments, as in a drain.
TASKS_END_WITHIN = 60.0
FOLLOWER_ENDS_WITHIN = 5.0  # seconds; librdkafka must not keep the tasks from being told to stop
STEADY_AFTER = 60.0  # seconds without a failure after which the back-off starts again with its shortest delay


class _Stopping(Exception):
    """The service stops, so that what was being done is not finished."""


class FlowRunner(threading.Thread):
    """Runs one flow until `stopping` or `failure` is set. Then `drain` ends its tasks and its query."""

    def __init__(
        self,
        flow: Flow,
        log_level: str,
        flow_count: int,
        service_id: str,
        spark: Future[SparkDriver],
        stopping: threading.Event,
    ) -> None:
        super().__init__(daemon=True, name=flow.name)
        self.status = FlowStatus(flow.source.alias, flow.target.alias, service_id)
        self.failure: MirrorError | None = None
        self.beat = time.monotonic()  # when the loop last ran; /livez looks at it
        self.waits = False  # True after another flow was found in the way, until we have a plan
        self.status.throttles = throttles(flow.throttle, flow.topic_settings)
        self._flow = flow
        self._newest = self._taken = flow, log_level  # the newest settings, and those that this thread has taken
        self._stopping = stopping
        self._flow_leader = FlowLeader(flow, service_id)
        self._flow_leader.reconfigure(flow, log_level)
        self._monitor = TopicMonitor(flow, self._on_progress)
        self._renewal = Renewal(flow)
        self._sidelines = Sidelines(flow, self.status, self._flow_leader.control)
        self._conflict_guard = ConflictGuard(flow, self._flow_leader)
        self._query = FlowQuery(flow, self.status, spark, flow_count)
        self._health = FlowHealth(flow, self.status, self._flow_leader, self._monitor, self._query)
        self.drained = threading.Event()  # all tasks have ended
        self.finished = threading.Event()  # set after `drained`, once MirrorMaker's positions are written
        self._reports = StatusFollower(flow, self.status, stopping, lambda: self.failure is not None)
        self._logged_problem = OnChange()  # the reason of the last warning
        self._where = {"flow": flow.name}

    def reconfigure(self, flow: Flow, log_level: str) -> None:
        """Hand over new settings. Only what can change while the service runs may differ. Any thread may call this.

        The flow's own thread takes them within about a second, and later if it waits for a cluster.
        """
        self._newest = flow, log_level

    def run(self) -> None:
        """Lead the flow, and try again after every failure that can pass."""
        follower = threading.Thread(target=self._reports.follow, daemon=True, name=f"status {self._flow.name}")
        follower.start()
        backoff = Backoff(0.5, 10.0)
        while not self._stopping.is_set() and self.failure is None:
            try:
                self._keep_lead(self._take_lead(), backoff)
            except _Stopping:
                break
            except (ClusterAway, FlowError) as error:
                self._wait_after(error, backoff)
            except MirrorError as error:
                self.failure = error
            except Py4JJavaError as error:
                self.failure = MirrorError(f"Spark can't run flow {self._flow.name}: {refusal(error)}")
            except (Py4JError, ConnectionError) as error:
                self.failure = MirrorError(f"Spark's JVM is gone ({type(error).__name__}): start the service again")
            except Exception as error:  # the service must not run on without the flow
                log.exception(BUG, extra=self._where)
                self.failure = MirrorError(f"flow {self._flow.name}: {type(error).__name__}: {error}")
        self._sidelines.stop()
        self.status.active = self.status.leads = False
        if self.failure is not None:
            self.status.stopped = True
            self.status.tell_problem(str(self.failure))
            log.error("flow stopped", extra={**self._where, "state": self.status.state, "reason": str(self.failure)})
        follower.join(FOLLOWER_ENDS_WITHIN)
        if isinstance(self.failure, Superseded):
            self.status.planned(self.status.generation, [])  # the other service shows the partitions now
            self.status.lacking, self.status.throttles = "", {}
            self._query.stop(TASKS_END_WITHIN)  # our tasks end when they read the new plan

    def drain(self) -> None:
        """End the tasks and the query, and set `drained`; then write MirrorMaker's positions, and set `finished`."""
        self.join()  # first, so that the loop cannot publish a plan after the order to stop
        if not isinstance(self.failure, Superseded):
            self._order_stop()
        self._query.stop()
        self.drained.set()
        try:
            if not isinstance(self.failure, Superseded):
                self._sidelines.mirrormaker_offsets.finish()
        finally:
            self.finished.set()

    def _order_stop(self) -> None:
        """Tell the tasks to stop. Try for ever: the service stops waiting for `drained` at its own deadline."""
        backoff, bug = Backoff(0.2, 2.0), OnChange()
        while True:
            try:
                self._flow_leader.stop_own_tasks()
                return
            except (Superseded, ForeignPlan):
                return  # the newest plan ends our tasks
            except MirrorError as error:
                log.debug("the order to stop can't be written yet", extra={**self._where, "reason": str(error)})
            except Exception as error:  # without the order, tasks would be killed in the middle of their transactions
                if bug.is_new(f"{type(error).__name__}: {error}"):
                    log.exception(BUG, extra=self._where)
            time.sleep(backoff.next())

    def _capacity(self) -> Capacity:
        control = self._flow_leader.control
        return self._query.capacity(control.claims, len(control.plan.slices) if control.plan else 0)

    def _take_lead(self) -> Capacity:
        """Become the flow leader and publish the first plan. Returns what Spark can run."""
        self._take_settings()
        self._keep_own_topics()
        self._flow_leader.check_still_leading()
        self._keep_tasks()
        topics = self._look()
        while self._monitor.awaits_confirmation and not self._stopping.wait(CHECK_INTERVAL):
            topics = self._look()
        self._renewal.ask()
        while self._query.spark_is_starting and not self._stopping.wait(0.05):
            self.beat = time.monotonic()
        if self._stopping.is_set():
            raise _Stopping
        capacity = self._capacity()
        self._query.keep()  # its processes start while leadership is taken
        # Leadership is taken last: a service that cannot run the flow must not fence the one that does.
        self._flow_leader.take_lead()
        self.status.leads = True
        self._publish(topics, capacity)
        if self._logged_problem.clear():
            log.info("flow recovered", extra=self._where)
        self._health.begin()
        return capacity

    def _keep_lead(self, capacity: Capacity, backoff: Backoff) -> None:
        """Watch leadership, query and tasks, and publish a new plan when one is due; returns when the service stops."""
        led = refreshed = time.monotonic()
        decisions = self._flow_leader.control.decisions
        while not self._stopping.wait(CHECK_INTERVAL):
            is_asked_for = self._take_settings() or self._sidelines.wants_look()
            self._query.keep()
            self._keep_own_topics()
            self._flow_leader.check_still_leading()
            self._health.check()
            self.beat = time.monotonic()
            if self.beat - led > STEADY_AFTER:
                backoff.reset()
            capacity, before = self._capacity(), capacity
            has_decided = self._flow_leader.control.decisions is not decisions
            decisions = self._flow_leader.control.decisions
            due = capacity != before or has_decided or self._flow_leader.lacks_plan or self._monitor.awaits_confirmation
            if due or is_asked_for or self.beat - refreshed >= self._flow.refresh_topics_interval:
                self._publish(self._look(), capacity)
                refreshed = time.monotonic()
            self._renewal.renew()
            self._sidelines.start(self._renewal.interval)

    def _keep_tasks(self) -> None:
        """Keep the query that copies by our last plan, also while there is no new one. Raises FlowError if it ended."""
        plan = self._flow_leader.control.plan
        if self.status.leads and plan is not None and not plan.stop:
            self._query.keep()

    def _take_settings(self) -> bool:
        """Follow the settings that `reconfigure` was given last. True if they are new."""
        if self._newest is self._taken:
            return False
        self._taken = flow, log_level = self._newest
        self._flow_leader.reconfigure(flow, log_level)
        if flow != self._flow:
            self._flow = flow
            self.status.throttles = throttles(flow.throttle, flow.topic_settings)
            self._conflict_guard.reconfigure(flow)
            self._monitor.reconfigure(flow)
            self._sidelines.reconfigure(flow)
            self._reports.reconfigure(flow)
            self.status.remember("the flow follows the changed configuration")
        return True

    def _look(self) -> dict[str, Topic]:
        """Create the remote topics that are missing, and return the topics to mirror."""
        control = self._flow_leader.control
        topics = self._monitor.mirrored(control.plan, control.decisions, self._conflict_guard.permit)
        self.status.coverage = self._monitor.coverage
        return topics

    def _keep_own_topics(self) -> None:
        """Create those of mirror's own topics that were deleted. Raises ClusterAway, FlowError."""
        for topic, topic_id in self._monitor.ensure_internal_topics().items():
            where = {**self._where, "topic": topic, "topic_id": topic_id}
            log.warning("own topic was deleted and created again", extra=where)
            self.status.remember(f"{topic} was deleted and created again: its records are gone")
            if topic == self._flow.status_topic:
                self._reports.topic_was_made_again()

    def _on_progress(self) -> None:
        """Say that the loop runs, in a long look. A stop ends the look: the tasks are told to stop only after it."""
        self.beat = time.monotonic()
        if self._stopping.is_set():
            raise _Stopping

    def _publish(self, topics: dict[str, Topic], capacity: Capacity) -> None:
        """Publish the plan that follows from `topics` and `capacity`, and keep the query running for it."""
        self._log_changes(topics)
        lineage = self._conflict_guard.agree(topics)
        self._sidelines.leave_configs_to(self._conflict_guard.configs_kept_by)
        load, remote_ids = self._load(), self._monitor.remote_ids
        plan = self._flow_leader.publish(topics, capacity, load, lineage, remote_ids, self._renewal.interval)
        self.waits = False
        self._renewal.retired = plan.retired
        self.status.retired = len(plan.retired)
        self._sidelines.mirrormaker_offsets.topics = plan.known
        if plan.generation != self.status.generation:
            self.status.planned(plan.generation, plan.slices)
            counts = {"topics": len(plan.topics), "partitions": self.status.size, "slices": len(plan.slices)}
            log.info("plan published", extra={**self._where, "generation": plan.generation, **counts})
        self._query.keep()
        self.status.active = True

    def _load(self) -> Load:
        """What the partitions copy, as far as known. A failure to compute that must not stop the copying."""
        try:
            return Load(self.status.bytes_per_second(), self.status.throttled())
        except Exception:
            log.exception(BUG, extra=self._where)
            return Load()

    def _log_changes(self, topics: dict[str, Topic]) -> None:
        plan, replacing = self._flow_leader.control.plan, self._monitor.timestamps.refused
        for change in plan_changes(plan, topics, replacing, self._flow.target.alias):
            if change.event:
                self.status.remember(change.event)
            log.log(change.level, change.message, extra={**self._where, **change.fields})

    def _wait_after(self, error: MirrorError, backoff: Backoff) -> None:
        self.waits |= isinstance(error, Conflict)
        self.status.tell_problem(str(error), error.blocked)
        reason = error.cluster if isinstance(error, ClusterAway) else str(error)
        if self._logged_problem.is_new(reason):
            what = "flow is blocked until a person acts" if error.blocked else "flow is retrying"
            log.warning(what, extra={**self._where, "state": self.status.state, "reason": str(error)})
        if isinstance(error, Conflict) and error.gave_way:
            self.status.active = False
            self.status.planned(self.status.generation, [])
            self._sidelines.stop()
        self.beat = time.monotonic()
        self._stopping.wait(backoff.next())
