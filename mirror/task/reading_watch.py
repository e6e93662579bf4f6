"""Notices that the task's main thread, which polls the source consumer, hangs within a call of librdkafka.

Nothing else would notice: the plan follower goes on to report the partitions, which stand still, and the main thread
can't raise anything.
"""

from __future__ import annotations

from collections.abc import Callable

from mirror.clock import Clock

HUNG_AFTER = 30.0  # seconds; a call of the fetcher's has a time-out of a second or none at all
LOOK_MAX = 2.0  # seconds: most that one look adds. A process that was suspended and goes on does not hang


class ReadingWatch:
    """Counts for how long the main thread has made no loop. Used by the plan follower alone."""

    def __init__(self, loops: Callable[[], int], clock: Clock) -> None:
        """`loops` gives a number that grows whenever the main thread goes on."""
        self._loops = loops
        self._clock = clock
        self._last = -1
        self._looked = clock.monotonic()
        self._still = 0.0

    def hangs(self) -> bool:
        """Look again; call it about once a second. True if the main thread has stood still for HUNG_AFTER."""
        now, loops = self._clock.monotonic(), self._loops()
        self._still = self._still + min(now - self._looked, LOOK_MAX) if loops == self._last else 0.0
        self._last, self._looked = loops, now
        return self._still >= HUNG_AFTER
