"""Limits how much of a task's time goes into reads of the target that copy nothing and only feed counters."""

from __future__ import annotations

import threading

REST = 9.0  # seconds without a look after each second of a look: all looks together take a tenth of the time at most


class LookBudget:
    """Lets one partition of the task look at a time, and seldom. The others copy meanwhile.

    When a broker fails, thousands of partitions may want to look at once, and each look may take seconds.
    """

    def __init__(self) -> None:
        self._looking = threading.Lock()
        self._next = 0.0  # monotonic: when the next look may begin

    def begin(self, now: float) -> bool:
        """True if the caller may look at `now`, on the monotonic clock. Then it has to call `end`."""
        if not self._looking.acquire(blocking=False):
            return False
        if now < self._next:
            self._looking.release()
            return False
        return True

    def end(self, begun: float, now: float) -> None:
        """The look that has begun at `begun` is over."""
        self._next = now + REST * (now - begun)
        self._looking.release()
