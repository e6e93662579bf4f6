"""The log lines of a partition that an error has stopped, on either data path, and of what it skips."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from weakref import WeakSet

from mirror.control.partition_state import State
from mirror.errors import MirrorError
from mirror.logs import OnChange

log = logging.getLogger(__name__)

AWAY_FOR = 60.0  # seconds for which a cluster has been away for a partition before the partition's task warns of it
# Seconds without an error after which the partition has recovered: an idle one commits nothing that would show it.
# As a rule, a try that ends with an error takes less.
RECOVERED_AFTER = 300.0


class AwayLog:
    """Chooses which of many partitions, for which a cluster has been away for long, is named in the log.

    A cluster that is away for all of them stops thousands at about the same time. So there is at most one line in
    AWAY_FOR seconds. It names one partition, and counts those that have become due since the line before it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._due: WeakSet[StopLog] = WeakSet()  # not in a line yet
        self._said: WeakSet[StopLog] = WeakSet()
        self._next_at = float("-inf")

    def others(self, stopped: StopLog) -> int | None:
        """How many others the line about this partition has to count; None if there is to be no line now."""
        with self._lock:
            if stopped in self._said:
                return None
            self._due.add(stopped)
            if self.clock() < self._next_at:
                return None
            self._next_at = self.clock() + AWAY_FOR
            count = len(self._due) - 1
            self._said |= self._due
            self._due.clear()
            return count

    def recovered(self, stopped: StopLog) -> None:
        """The next time that a cluster is away for this partition is another one."""
        with self._lock:
            self._due.discard(stopped)
            self._said.discard(stopped)


OF_THIS_PROCESS = AwayLog()  # a process runs one task at a time


class StopLog:
    """Warns of an error once, until the partition is copied again. `where` are the fields of a log line."""

    def __init__(self, where: Mapping[str, object], away: AwayLog = OF_THIS_PROCESS) -> None:
        self._where = where
        self._errors = OnChange()
        self._away = away
        self._away_since: float | None = None
        self._away_at = 0.0  # when a cluster was last found to be away

    def stopped(self, error: MirrorError, state: State) -> None:
        """The error has stopped the partition, which is in this state now.

        If a cluster is away, this is only a debug line at first: the flow leader logs it. But it may be away for this
        partition only, such as one broker, or on the way from this machine. So a warning follows if that lasts.
        """
        is_new = self._errors.is_new(str(error))
        others = self._others() if error.away else None
        warns = others is not None or (is_new and not error.away)
        what = "partition is blocked until a person acts" if error.blocked else "partition is retrying"
        where = {**self._where, "state": state.value, "reason": str(error), "other_partitions": others or None}
        log.log(logging.WARNING if warns else logging.DEBUG, what, extra=where)

    def _others(self) -> int | None:
        """How many other partitions a warning counts for which a cluster is away; None if there is to be none now."""
        now = self._away.clock()
        if self._away_since is None or now - self._away_at > RECOVERED_AFTER:
            self._recovered()
            self._away_since = now
        self._away_at = now
        return self._away.others(self) if now - self._away_since >= AWAY_FOR else None

    def over(self) -> None:
        """The stop is over: the partition is copied again, or this copier has it no more: the next error is new."""
        self._errors.clear()
        self._recovered()

    def _recovered(self) -> None:
        if self._away_since is not None:
            self._away_since = None
            self._away.recovered(self)


class SkipLog:
    """Warns of what a partition skips. `where` are the fields of a log line."""

    def __init__(self, where: Mapping[str, object]) -> None:
        self._where = where
        self._skips = OnChange()

    def log(self, what: str, reason: str, **more: object) -> None:
        """Log a skip once, before committing it, so that a crash after the commit cannot lose the message."""
        if self._skips.is_new((what, reason)):
            log.warning(what, extra={**self._where, "reason": reason, **more})
