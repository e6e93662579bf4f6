"""Finds what is wrong with a flow: tasks that were lost, are silent or hang, and topics that are refused."""

from __future__ import annotations

import logging
import time

from mirror.control.control_topics import StatusReader
from mirror.control.flow_leader import FlowLeader
from mirror.errors import FlowError
from mirror.logs import OnChange
from mirror.service.flow_query import FlowQuery
from mirror.service.hung_tasks import HungTasks
from mirror.service.topic_monitor import TopicMonitor
from mirror.settings import Flow
from mirror.status.flow_status import FlowStatus
from mirror.target import timestamps
from mirror.text import duration, plural
from mirror.timing import SILENCE

log = logging.getLogger(__name__)


class FlowHealth:
    """Finds what is wrong, says it in the log and in the flow's status, and ends tasks that hang."""

    def __init__(
        self, flow: Flow, status: FlowStatus, flow_leader: FlowLeader, monitor: TopicMonitor, query: FlowQuery
    ) -> None:
        self._flow = flow
        self._status = status
        self._flow_leader = flow_leader
        self._monitor = monitor
        self._query = query
        self._silent = 0  # partitions without a task at the last check
        self._is_silent = OnChange()
        self._failed = ""  # Spark's reason why tasks for these partitions failed
        self._hung = HungTasks()
        self._where = {"flow": flow.name}

    def begin(self) -> None:
        """Look for the first time, after the lead was taken. Nobody knows yet whether a task hangs."""
        self._look()
        self._hung.forget()

    def check(self) -> None:
        """Look again, and end tasks that hang.

        Raises FlowError, after which all of the flow's tasks are started again; ClusterAway if nobody can read now what
        they report; MirrorError if Spark can't end them.
        """
        self._log_lost_tasks()
        self._look()
        self._end_hung_tasks()

    def _log_lost_tasks(self) -> None:
        """Log tasks whose slice another one has claimed: Spark does not report that it started a task again."""
        plan = self._flow_leader.control.plan
        for index in self._flow_leader.lost_tasks():
            partitions = len(plan.slices[index]) if plan and index < len(plan.slices) else None
            where = {**self._where, "slice": index, "partitions": partitions}
            log.warning("task lost, another one has taken its slice over", extra=where)
            self._status.lost_tasks += 1
            self._status.remember(f"the task of slice {index} was lost, another one has taken the slice over")

    def _look(self) -> None:
        """Find refused topics, and partitions that nobody reports: Spark does not report tasks that cannot start."""
        self._silent = self._status.silent_partitions()
        # The first reason is kept while they are silent. The reason has a number, which changes with each attempt, and
        # each change would be an event.
        self._failed = (self._failed or self._query.failure_reason()) if self._silent else ""
        silent = f"{plural(self._silent, 'partition')} without a task for {duration(SILENCE)}" if self._silent else ""
        if self._failed:
            silent = f"{silent} ({self._failed})"
        if self._is_silent.is_new(bool(self._silent)) and self._silent:
            where = {**self._where, "partitions": self._silent}
            log.warning("partitions without a task", extra={**where, "reason": self._failed or "not known"})
        nothing_runs = self._silent == self._status.size
        self._status.tell_problem(silent if nothing_runs else "")
        self._status.verified = self._flow_leader.control.verified
        lacking = [silent] if silent and not nothing_runs else []
        self._status.lacking = "; ".join([*lacking, *self._refused_topics()])

    def _refused_topics(self) -> list[str]:
        refused, replacing = self._monitor.refused, self._monitor.timestamps.refused
        unnamed = [(topic, reason) for reason, topics in self._monitor.unnamed.items() for topic in topics]
        self._status.refused = [*refused, *replacing, *(topic for topic, _ in unnamed)]
        lacking = []
        if unnamed:
            topic, why = min(unnamed)
            lacking.append(f"{plural(len(unnamed), 'topic')} can't be mirrored, e.g. {topic}: {why}")
        if refused:
            some = min(refused)
            why = refused[some].str()
            count = plural(len(refused), "topic")
            lacking.append(f"the target refuses to create or grow {count}, e.g. {some}: {why}")
        if replacing:
            count = plural(len(replacing), "remote topic")
            lacking.append(f"nothing is copied to {count}, e.g. {replacing[0]}: {timestamps.REASON}")
        return lacking

    def _end_hung_tasks(self) -> None:
        """End the query if tasks, or the process that plans them, have hung for too long."""
        count = self._status.silent_tasks() if self._silent else 0
        can_run = count > 0 and self._query.can_run()
        if not self._hung.is_over(count, can_run, time.monotonic()):
            return
        # Raises ClusterAway if the status topic can't be read. Then silence says nothing of the tasks: they may copy.
        StatusReader(self._flow).close()
        self._query.abort()
        self._hung.restarted()
        hung = f"{plural(count, 'task')} did not answer"
        raise FlowError(f"flow {self._flow.name}: {hung}: all of its tasks are started again")
