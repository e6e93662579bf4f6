"""Exponential back-off: how long to wait before the next attempt."""

from __future__ import annotations

import random


class Backoff:
    """Exponential back-off with jitter: each wait is 50 to 100 % of a bound, which doubles up to `max_seconds`."""

    def __init__(self, first: float = 0.05, max_seconds: float = 10.0) -> None:
        self._first = first
        self._max_seconds = max_seconds
        self._bound = first

    def next(self) -> float:
        """The seconds to wait now; doubles the bound."""
        bound = self._bound
        self._bound = min(self._max_seconds, bound * 2)
        return bound * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Set the bound back to its first value, after a success."""
        self._bound = self._first
