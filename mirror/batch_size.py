"""How much goes into one transaction."""

from __future__ import annotations


class BatchSize:
    """Records in a batch: `most`, or fewer while the target is too slow to take those before the transaction times out.

    A slow link or a quota would otherwise have the same batch sent again and again, and none committed.
    """

    def __init__(self, most: int, timeout: float) -> None:
        self.limit = most
        self._most = most
        self._timeout = timeout  # seconds that a transaction may last

    def took(self, records: int, seconds: float) -> None:
        """A transaction of so many records has ended after `seconds`, committed or not."""
        if seconds > self._timeout / 2:
            self.limit = max(1, min(self.limit, records) // 2)
        elif seconds < self._timeout / 8 and records >= self.limit:
            self.limit = min(self._most, self.limit * 2)
