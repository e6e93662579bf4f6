"""How many records go into one transaction."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mirror.batches.headers import RecordBatch
from mirror.model import BATCH_BYTES
from mirror.task.path_memory import TOO_SLOW


class BatchSize:
    """Records in a batch: `max_records`, or fewer while the target is too slow to take those within the time-out.

    That is the time-out of a transaction. A slow link or a quota would otherwise have the same batch sent again and
    again, and none committed.
    """

    def __init__(self, max_records: int, timeout: float, request_timeout: float = math.inf) -> None:
        """`request_timeout`: seconds after which a single request of a transaction may fail by itself."""
        self.limit = max_records
        self._max_records = max_records
        self._timeout = timeout  # seconds that a transaction may last
        self._too_long = min(timeout / 2, request_timeout)

    def failed(self, records: int, seconds: float) -> bool:
        """Note that a transaction of so many records was not committed. True if `seconds` were too long."""
        slow = seconds > self._too_long
        if slow:
            self.limit = max(1, min(self.limit, records) // 2)
        return slow

    def committed(self, records: int, seconds: float) -> None:
        """Note that a transaction was committed. If it was full and not slow, the next one may have more records."""
        if records >= self.limit and seconds < self._timeout / 2:
            more = self.limit if seconds < self._timeout / 4 else self.limit // 8 + 1
            self.limit = min(self._max_records, self.limit + more)


def too_much(size: BatchSize, batches: Sequence[RecordBatch], seconds: float, unanswered: bool) -> str:
    """Note that a transaction of whole batches has failed. Why they have to go by records; "" if they need not.

    `unanswered` says whether a request had no answer.
    """
    smallest = size.limit == 1
    slow = size.failed(len(batches), seconds)
    # Perhaps the request is larger than what brokers read, or too large for the link: records can be divided.
    if (slow or unanswered) and max(len(each.data) for each in batches) > BATCH_BYTES:
        return "too_large"
    return TOO_SLOW if slow and smallest and unanswered else ""
