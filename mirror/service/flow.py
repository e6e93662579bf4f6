"""One flow in the service: leads it, keeps its plan and its Spark query going, follows its status."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from mirror.backoff import Backoff
from mirror.control.leadership import FlowLeader
from mirror.control.other_flows import ConflictGuard
from mirror.control.topics import StatusReader
from mirror.errors import ClusterAway, Conflict, FlowError, MirrorError, Superseded
from mirror.model import Partition, Topic
from mirror.service.topic_monitor import TopicMonitor
from mirror.settings import Flow
from mirror.spark.session import SparkDriver
from mirror.status.flow_status import FlowStatus
from mirror.target import timestamps
from mirror.target.renewal import Renewal
from mirror.timing import SILENCE

log = logging.getLogger(__name__)

CHECK_INTERVAL = 1.0  # seconds between looks at leadership and query
DEFECT_DELAY = 10.0  # seconds before the status is followed again
DECIDE = "nothing is copied to it until somebody decides with mirror resume"
GONE = "it was deleted, is left out by the configuration, or mirror may not see it (Describe)"
STEADY_AFTER = 60.0  # seconds without a failure after which back-off begins small again
PATIENCE_MAX = 600.0  # seconds that a task may stay silent, however often it was started again


class FlowRunner(threading.Thread):
    """Runs until `stopping` is set or `failure` says why not; then `drain` ends it in order."""

    def __init__(
        self, flow: Flow, share: int, leader: str, spark: Future[SparkDriver], stopping: threading.Event
    ) -> None:
        super().__init__(daemon=True, name=flow.name)
        self.status = FlowStatus(flow.source.alias, flow.target.alias, leader)
        self.failure: MirrorError | None = None
        self.beat = time.monotonic()  # when the loop last ran
        self._flow = flow
        self._share = share  # flows that share Spark's cores
        self._spark = spark
        self._stopping = stopping
        self._leader = FlowLeader(flow, leader)
        self._monitor = TopicMonitor(flow)
        self._renewal = Renewal(flow)
        self._gate = ConflictGuard(flow, self._leader)
        self._query: StreamingQuery | None = None
        self._epoch_ended = threading.Event()
        self._epoch_ended.set()
        self.drained = threading.Event()
        self._waited_for = ""  # what the last warning was about: each reason is said once
        self._silent = 0  # partitions without a task at the last look
        self._hung_since: float | None = None  # monotonic: when a silent task was first noticed
        self._patience = SILENCE  # seconds that a task may be silent after that
        self._where = {"flow": flow.name}

    def run(self) -> None:
        """Lead, and start again after whatever can be waited out."""
        follower = threading.Thread(target=self._follow_status, daemon=True, name=f"status {self._flow.name}")
        follower.start()
        backoff = Backoff(0.5, 10.0)
        while not self._stopping.is_set() and self.failure is None:
            try:
                self._lead(backoff)
            except (ClusterAway, FlowError) as error:
                self._wait_out(error, backoff)
            except MirrorError as error:
                self.failure = error
            except (Py4JError, ConnectionError) as error:
                self.failure = MirrorError(f"Spark's JVM is gone ({type(error).__name__}): start the service again")
            except Exception as error:  # a defect of ours; the service must not run on without the flow
                log.exception("defect", extra=self._where)
                self.failure = MirrorError(f"flow {self._flow.name}: {type(error).__name__}: {error}")
        self.status.active = self.status.leads = False
        if self.failure is not None:
            self.status.stopped = True
            self.status.tell_problem(str(self.failure))
            log.error("flow stops", extra={**self._where, "state": self.status.state, "reason": str(self.failure)})
        follower.join()
        if isinstance(self.failure, Superseded):
            self.status.planned(self.status.generation, [])  # its partitions are the new leader's to tell of
            self._end_query()  # its tasks have seen the new leader's plan

    def drain(self) -> None:
        """Have the tasks finish and end the query; sets `drained` when that is done."""
        self.join()  # or the loop could publish a plan after the stop
        if not isinstance(self.failure, Superseded):
            self._order_stop()
        self._end_query()
        self.drained.set()

    def _end_query(self) -> None:
        self._epoch_ended.wait()
        if self._query is not None:
            with contextlib.suppress(Py4JError, PySparkException, ConnectionError):
                self._query.stop()

    def _order_stop(self) -> None:
        """Tell the tasks to stop, as often as it takes; whoever waits for us has a deadline."""
        backoff = Backoff(0.2, 2.0)
        while True:
            try:
                self._leader.stop()
                return
            except Superseded:
                return  # the new leader's plan ends our tasks
            except MirrorError as error:
                log.debug("tasks can't be told to stop yet", extra={**self._where, "reason": str(error)})
                time.sleep(backoff.next())

    def _lead(self, backoff: Backoff) -> None:
        self._keep_own_topics()
        self._leader.check()
        topics = self._look()
        while self._monitor.in_doubt and not self._stopping.wait(CHECK_INTERVAL):
            topics = self._look()
        self._renewal.ask()
        while not self._spark.done() and not self._stopping.wait(0.05):
            self.beat = time.monotonic()
        if self._stopping.is_set():
            return
        slots = self._slots()
        self._keep_query()  # its processes start while leadership is taken
        # Only now: who leads must not be fenced by a service that can't take its place.
        self._leader.take()
        self.status.leads = True
        self._publish(topics, slots)
        if self._waited_for:
            log.info("flow goes on", extra=self._where)
        self._waited_for = ""
        self._look_around()
        self._hung_since = None  # while we could not lead nobody may have been heard
        led = refreshed = time.monotonic()
        decisions = self._leader.control.decisions
        while not self._stopping.wait(CHECK_INTERVAL):
            self._keep_query()
            self._keep_own_topics()
            self._leader.check()
            self._tell_lost_tasks()
            self._look_around()
            self._end_hung_tasks()
            self.beat = time.monotonic()
            if self.beat - led > STEADY_AFTER:
                backoff.reset()
            slots, before = self._slots(), slots
            has_decided = self._leader.control.decisions is not decisions
            decisions = self._leader.control.decisions
            due = slots != before or has_decided or self._leader.control.awaits_plan or self._monitor.in_doubt
            if due or self.beat - refreshed >= self._flow.refresh_topics_interval:
                self._publish(self._look(), slots)
                refreshed = time.monotonic()
            self._renewal.renew()

    def _look(self) -> dict[str, Topic]:
        """What is to be mirrored now, after creating what the target lacks."""
        control = self._leader.control
        return self._monitor.mirrored(control.plan, control.decisions, self._goes_on, self._gate.permit)

    def _keep_own_topics(self) -> None:
        """Make again what was deleted of mirror's own topics. Raises ClusterAway, FlowError."""
        for topic, topic_id in self._monitor.ensure_internal_topics().items():
            where = {**self._where, "topic": topic, "topic_id": topic_id}
            log.warning("own topic was deleted and made again", extra=where)
            self.status.remember(f"{topic} was deleted and made again: what stood there is gone")

    def _goes_on(self) -> None:
        self.beat = time.monotonic()

    def _slots(self) -> int:
        """This flow's share of the tasks that Spark can run at once."""
        return max(1, self._spark.result().slots() // self._share)

    def _publish(self, topics: dict[str, Topic], slots: int) -> None:
        """Publish the plan that follows from `topics` and `slots`, and see to it that it runs."""
        self._tell_changes(topics)
        lineage = self._gate.agree(topics)
        weights, remote_ids = self._weights(), self._monitor.remote_ids
        plan = self._leader.publish(topics, slots, weights, lineage, remote_ids, self._renewal.interval)
        self._renewal.retired = plan.retired
        if plan.generation != self.status.generation:
            self.status.planned(plan.generation, plan.slices)
            counts = {"topics": len(plan.topics), "partitions": self.status.size, "slices": len(plan.slices)}
            log.info("plan", extra={**self._where, "generation": plan.generation, **counts})
        self._keep_query()
        self.status.active = True

    def _weights(self) -> Mapping[Partition, float]:
        """Bytes per second of each partition, as far as they are known: figures are never a reason not to copy."""
        try:
            return self.status.bytes_per_second()
        except Exception:  # a defect of ours
            log.exception("defect", extra=self._where)
            return {}

    def _tell_changes(self, topics: dict[str, Topic]) -> None:
        """What an operator might not have meant."""
        plan = self._leader.control.plan
        for name, before in sorted(plan.topics.items()) if plan else ():
            where = {**self._where, "topic": name}
            if name not in topics:
                gone = timestamps.REASON if before.remote in self._monitor.timestamps.refused else GONE
                log.warning("topic is not mirrored any more", extra={**where, "reason": gone})
                self.status.remember(f"{name} is not mirrored any more: {gone}")
            elif topics[name].remote != before.remote:
                log.warning("topic is copied to another one now", extra={**where, "before": before.remote})
            elif topics[name].remote_lost and not before.remote_lost:
                log.error("the remote topic was deleted, nothing is copied until somebody decides", extra=where)
                self.status.remember(f"{before.remote} was deleted on {self._flow.target.alias}: {DECIDE}")
            elif before.remote_id not in ("", topics[name].remote_id):
                ids = {"before": before.remote_id, "now": topics[name].remote_id}
                log.warning("the remote topic is another one now", extra={**where, **ids})
                self.status.remember(f"{before.remote} is another topic now")

    def _tell_lost_tasks(self) -> None:
        """Spark starts a task again without a word, and one whose process was killed could leave none."""
        plan = self._leader.control.plan
        for index in self._leader.lost_tasks():
            partitions = len(plan.slices[index]) if plan and index < len(plan.slices) else None
            where = {**self._where, "slice": index, "partitions": partitions}
            log.warning("task lost, another one has taken its slice over", extra=where)
            self.status.lost_tasks += 1
            self.status.remember(f"the task of slice {index} was lost, another one has taken the slice over")

    def _look_around(self) -> None:
        """A task that can't even start says nothing, and neither does Spark; a topic without a remote one has none."""
        before, self._silent = self._silent, self.status.silent()
        silent = f"{self._silent} partitions have had no task for {SILENCE:.0f} s" if self._silent else ""
        if self._silent and not before:
            log.warning("partitions without a task", extra={**self._where, "partitions": self._silent})
        nothing_runs = self._silent == self.status.size
        self.status.tell_problem(silent if nothing_runs else "")
        lacking = [silent] if silent and not nothing_runs else []
        refused, replacing = self._monitor.refused, self._monitor.timestamps.refused
        self.status.refused = [*refused, *replacing]
        if refused:
            some = min(refused)
            why = refused[some].str()
            lacking.append(f"the target refuses to create or grow {len(refused)} topics, e.g. {some}: {why}")
        if replacing:
            lacking.append(
                f"{len(replacing)} remote topics are not copied to, e.g. {replacing[0]}: {timestamps.REASON}"
            )
        self.status.lacking = "; ".join(lacking)

    def _end_hung_tasks(self) -> None:
        """Spark waits for ever for a process that hangs: its flow's tasks, or their planner, are begun anew.

        Raises FlowError, so that all of them are; MirrorError if Spark can't end them.
        """
        count = self.status.silent_tasks() if self._silent else 0
        if not count:
            self._patience = SILENCE
        if not count or not self._spark.result().slots():  # without executors nothing hangs
            self._hung_since = None
            return
        # From the first look on: this process may have stood still itself.
        now = time.monotonic()
        self._hung_since = self._hung_since or now
        if now - self._hung_since < self._patience:
            return
        self._patience = min(2 * self._patience, PATIENCE_MAX)  # it may only be very slow
        query, self._query = self._query, None
        assert query is not None
        try:
            query.stop()
        except (Py4JJavaError, PySparkException) as error:
            reason = "Spark does not end a task that hangs: start the service again"
            raise MirrorError(f"flow {self._flow.name}: {reason}") from error
        raise FlowError(f"flow {self._flow.name}: {count} tasks did not answer: all of its tasks are started again")

    def _keep_query(self) -> None:
        """Start the query, or start it again if it has failed. Raises FlowError for a failure to report."""
        query, self._query = self._query, None
        if query is None:
            self._query = self._spark.result().start(self._flow, self._receive)
        elif query.isActive:
            self._query = query
        else:
            self._epoch_ended.set()
            self.status.active = False
            failure = query.exception()
            raise FlowError(f"Spark query ended: {_first_line(failure)}")

    def _receive(self, receipts: DataFrame, epoch: int) -> None:
        """Run an epoch: collecting its receipts is what runs its tasks."""
        self._epoch_ended.clear()
        try:
            for row in receipts.collect():
                log.debug("receipt", extra={**self._where, "epoch": epoch, **row.asDict()})
        finally:
            self._epoch_ended.set()

    def _wait_out(self, error: MirrorError, backoff: Backoff) -> None:
        self.status.tell_problem(str(error), error.blocked)
        reason = error.cluster if isinstance(error, ClusterAway) else str(error)
        if reason != self._waited_for:
            self._waited_for = reason
            what = "flow is blocked until a person acts" if error.blocked else "flow is retrying"
            log.warning(what, extra={**self._where, "state": self.status.state, "reason": str(error)})
        if isinstance(error, Conflict) and error.gave_way:
            self.status.active = False
            self.status.planned(self.status.generation, [])
        self.beat = time.monotonic()
        self._stopping.wait(backoff.next())

    def _follow_status(self) -> None:
        reader: StatusReader | None = None
        while not self._stopping.is_set() and self.failure is None:
            try:
                reader = reader or StatusReader(self._flow)
                self.status.absorb(reader.poll(0.5))
                self.status.ignored = reader.ignored
            except ClusterAway:
                self._stopping.wait(1.0)
            except Exception:  # a defect of ours, which must not end the copying, nor the status for good
                log.exception("defect", extra=self._where)
                self._stopping.wait(DEFECT_DELAY)
        if reader is not None:
            reader.close()


def _first_line(error: object) -> str:
    lines = str(error or "no reason given").strip().splitlines()
    return lines[0][:300]
