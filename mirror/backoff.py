"""How long to wait before trying again."""

from __future__ import annotations

import random


class Backoff:
    """Exponential back-off with jitter: each wait is 50 to 100 % of a bound that doubles up to `most` seconds."""

    def __init__(self, first: float = 0.05, most: float = 10.0) -> None:
        self._first = first
        self._most = most
        self._bound = first

    def next(self) -> float:
        """Seconds to wait now."""
        bound = self._bound
        self._bound = min(self._most, bound * 2)
        return bound * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """It worked: begin small again."""
        self._bound = self._first
