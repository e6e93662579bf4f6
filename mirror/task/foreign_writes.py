"""Notices that somebody else writes to the remote partition, by the offsets that mirror's own records get."""

from __future__ import annotations

import logging
from collections.abc import Callable

from confluent_kafka import KafkaException

from mirror.settings import Flow
from mirror.target.remote_records import count_between
from mirror.target.transaction_session import Span
from mirror.task.partition_facts import PartitionFacts
from mirror.task.task_services import TaskServices

log = logging.getLogger(__name__)

# Seconds for which the last look holds: whoever writes now goes on for a while, and one that can't be seen stays
# hidden.
LOOK_INTERVAL = 60.0
Count = Callable[[Flow, tuple[str, int], int, int], int | None]


class ForeignWrites:
    """Compares where the records of each transaction are with where they have to be if nobody else writes there.

    Offsets between the two may be markers, too: a coordinator that takes over writes a marker once more if it does not
    know that it is there. So it is looked whether there are records, at most once a minute.
    """

    def __init__(self, facts: PartitionFacts, services: TaskServices, count: Count = count_between) -> None:
        self._facts = facts
        self._flow = services.flow
        self._clock = services.clock
        self._count = count
        self._looked: tuple[float, bool] | None = None  # when, on the monotonic clock, and whether there were records

    def committed(self, span: Span, records: int) -> None:
        """Take note of a committed transaction. It raises nothing: what others write must not stop the copying."""
        taken = span.last + 1 - span.first - records  # by others, between our records
        before = 0 if span.expected is None else max(0, span.first - span.expected)
        if taken <= 0 and not before:
            return
        begin = span.first - before
        end = span.last + 1 if taken > 0 else span.first
        if self._is_foreign(begin, end, records if taken > 0 else 0):
            self._tell(begin, end, before + max(0, taken))

    def _is_foreign(self, begin: int, end: int, ours: int) -> bool:
        now = self._clock.monotonic()
        if self._looked is None or now - self._looked[0] >= LOOK_INTERVAL:
            self._facts.step_lock.progressed()
            found = self._records(begin, end)
            self._facts.step_lock.progressed()
            self._looked = now, found is not None and found > ours
        return self._looked[1]

    def _records(self, begin: int, end: int) -> int | None:
        try:
            return self._count(self._flow, (self._facts.topic.remote, self._facts.partition.partition), begin, end)
        except KafkaException as error:
            log.debug("remote partition can't be read", extra={**self._facts.where, "reason": str(error)})
            return None

    def _tell(self, begin: int, end: int, offsets: int) -> None:
        facts = self._facts
        facts.counters.foreign += offsets
        facts.foreign = begin, end - 1
        where = {"remote_topic": facts.topic.remote, "first_offset": begin, "last_offset": end - 1, "offsets": offsets}
        log.warning("somebody else writes to the remote topic", extra={**facts.where, **where})
