"""Notices that Spark has too few slots for the tasks that it has begun with."""

from __future__ import annotations

from collections.abc import Mapping

from mirror.spark.running_epoch import RunningEpoch

# Seconds that a task may be missing before the others take its partitions. Spark starts a lost task again at once if a
# slot is free.
VACANT_AFTER = 2.0
# Seconds that another flow may have no task at all before this one gives slots up for it, which interrupts this one.
WAITS_AFTER = 5.0


class Shortage:
    """Which slices of a flow are vacant, and for how long another flow has had no task."""

    def __init__(self) -> None:
        self._job = -1
        self._since: dict[int, float] = {}  # by slice without a task: the time since when
        self._vacant: dict[int, str | None] = {}  # with the last claim at the time when Spark ran no task for it
        self._others_since: float | None = None

    def vacant(self, epoch: RunningEpoch | None, claims: Mapping[int, str], now: float) -> frozenset[int]:
        """The slices that have had no task for a while, until a new task has claimed them."""
        if epoch is None or epoch.job != self._job:
            self._since, self._vacant = {}, {}
        if epoch is None:
            return frozenset()
        self._job = epoch.job
        self._since = {index: self._since.get(index, now) for index in epoch.waiting}
        late = {index: claims.get(index) for index, since in self._since.items() if now - since >= VACANT_AFTER}
        known = {**self._vacant, **late}
        self._vacant = {i: claim for i, claim in known.items() if i in epoch.waiting or claims.get(i) == claim}
        return frozenset(self._vacant)

    def lasts(self, other_waits: bool, now: float) -> bool:
        """True if another flow has waited for its first task for a while."""
        self._others_since = (now if self._others_since is None else self._others_since) if other_waits else None
        return self._others_since is not None and now - self._others_since >= WAITS_AFTER
