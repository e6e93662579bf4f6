"""Decides when a flow's tasks have hung for so long that all of them are started again. Pure."""

from __future__ import annotations

from mirror.timing import SILENCE

PATIENCE_MAX = 600.0  # seconds that a task may be silent, however often the tasks were started again


class HungTasks:
    """Watches how many tasks are silent. Spark does not: it waits for ever for a process that hangs."""

    def __init__(self) -> None:
        self._since: float | None = None  # monotonic time at which silent tasks were first seen
        self._patience = SILENCE

    def forget(self) -> None:
        """Begin to count anew. Nobody read the reports for a while, so silence until now proves nothing."""
        self._since = None

    def is_over(self, silent: int, can_run: bool, now: float) -> bool:
        """True if some of the tasks have been silent for too long; `silent` is their number now.

        `can_run` is False while Spark has no slot for any of them: then there is no task that could hang. The time
        counts from the first observation, because this process may have been suspended itself. After each restart the
        patience doubles, because the tasks may only be very slow.
        """
        if not silent:
            self._patience = SILENCE
        if not silent or not can_run:
            self._since = None
            return False
        self._since = now if self._since is None else self._since
        return now - self._since >= self._patience

    def restarted(self) -> None:
        """Note that the tasks were started again."""
        self._since = None
        self._patience = min(2 * self._patience, PATIENCE_MAX)
