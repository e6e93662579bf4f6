"""When a partition's next step is due, and that never two run at once."""

from __future__ import annotations

import sys
import threading
import traceback

from mirror.clock import Clock

FRAMES = 30  # most frames of a stack that are told


class Turn:
    """Any thread may request a step; a transaction thread takes its turn and ends it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.not_before = 0.0  # monotonic: pacing or back-off
        self._lock = threading.Lock()  # guards all below
        self._running = False
        self._thread = 0  # whose step it is
        self._began = 0.0  # monotonic
        self._wake_at: float | None = None

    def request(self, delay: float | None = None) -> float | None:
        """Make a step due in `delay` seconds, or when pacing and back-off allow it.

        Returns the seconds after which to wake a thread for it; None: that has been seen to.
        """
        now = self._clock.monotonic()
        with self._lock:
            due = max(now, self.not_before) if delay is None else now + delay
            if self._running or (self._wake_at is not None and self._wake_at <= due):
                return None
            self._wake_at = due
        return due - now

    def take(self) -> bool:
        """Begin a step; False if none is due."""
        with self._lock:
            due = self._wake_at is not None and self._wake_at <= self._clock.monotonic()
            return due and self._begin()

    def take_early(self) -> bool:
        """Begin a step, due or not; False if one runs. One that comes due meanwhile is not made: ask again."""
        with self._lock:
            return self._begin()

    def _begin(self) -> bool:
        if self._running:
            return False
        self._running, self._began, self._wake_at = True, self._clock.monotonic(), None
        self._thread = threading.get_ident()
        return True

    def end(self) -> None:
        """The step is over."""
        with self._lock:
            self._running = False

    def goes_on(self) -> None:
        """A part of the step is done that may wait for as long as a transaction."""
        with self._lock:
            self._began = self._clock.monotonic()

    @property
    def paced(self) -> float:
        """Seconds until pacing and back-off allow a step."""
        return max(0.0, self.not_before - self._clock.monotonic())

    @property
    def stack(self) -> str:
        """Where the running step is, the innermost call first; "" when none runs."""
        with self._lock:
            frame = sys._current_frames().get(self._thread) if self._running else None
        calls = traceback.extract_stack(frame)[::-1][:FRAMES] if frame is not None else []
        return " < ".join(f"{each.name} ({each.filename}:{each.lineno})" for each in calls)

    @property
    def lasts(self) -> float:
        """Seconds that the running step, or its last part, has taken so far; 0 when none runs."""
        with self._lock:
            return self._clock.monotonic() - self._began if self._running else 0.0
