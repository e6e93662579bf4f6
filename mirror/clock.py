"""The clock of a task: a test can set another one, so that it need not wait."""

from __future__ import annotations

import time


class Clock:
    """The machine's clock."""

    def monotonic(self) -> float:
        """Seconds that only grow, from any beginning."""
        return time.monotonic()

    def now(self) -> float:
        """Seconds since the Unix epoch."""
        return time.time()
