"""Notices steps that hang, and steps that are slow. reading_watch.py does the same for the task's main thread."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from mirror.errors import TaskHung
from mirror.logs import OnChange
from mirror.settings import Flow
from mirror.task.copier import RecordCopier
from mirror.task.data_paths import Copier
from mirror.task.transaction_threads import TransactionThreads
from mirror.text import duration

log = logging.getLogger(__name__)

SLOW_AFTER = 5.0  # seconds after which a step counts as slow
HUNG_TIMEOUTS = 5  # a step may wait for five time-outs: deliveries, flush, position, commit, abort
HUNG_SECONDS_MIN = 30.0  # at least: a take-over waits for answers that transaction_timeout does not limit


class StepWatch:
    """Looks how long the steps of a task's copiers last. Used by the plan follower alone."""

    def __init__(self, flow: Flow, threads: TransactionThreads) -> None:
        self._flow = flow
        self._threads = threads
        self._hanging = OnChange()

    def check(self, copiers: Iterable[Copier]) -> None:
        """Look at the step of each, and have enough threads beside those of slow ones. Raises TaskHung."""
        hung_after = max(HUNG_SECONDS_MIN, HUNG_TIMEOUTS * self._flow.transaction_timeout)
        slow = 0
        for copier in copiers:
            # In the other order, a transform that returns between the two calls would leave a large `lasts` and no
            # `hangs`, and the task would be ended for nothing.
            hangs = copier.hang_reason
            lasts = copier.since_progress
            slow += lasts > SLOW_AFTER and isinstance(copier, RecordCopier)
            if hangs:  # the task goes on: a step that transforms holds nothing open on the target
                self._log_hanging(copier, hangs)
            elif lasts > hung_after:
                # Seen with librdkafka 2.16, whose send_offsets_to_transaction can forget its time-out.
                log.warning("a step hangs", extra={**self._where(copier), "stack": copier.stack})
                raise TaskHung(f"{copier.partition}: a step hangs for {duration(lasts)}; the task starts again")
        self._threads.ensure_threads(slow)

    def _log_hanging(self, copier: Copier, reason: str) -> None:
        if self._hanging.is_new(reason, copier.partition):
            log.warning("a transform hangs", extra={**self._where(copier), "reason": reason, "stack": copier.stack})

    def _where(self, copier: Copier) -> dict[str, object]:
        return {"flow": self._flow.name, **copier.partition._asdict()}
