"""Notices that somebody else writes to the remote partition, by the offsets that mirror's own records get."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from confluent_kafka import KafkaException

from mirror.settings import Flow
from mirror.target.remote_records import count_between
from mirror.target.written import AppendedOffsets
from mirror.task.partition_facts import PartitionFacts
from mirror.task.task_services import TaskServices
from mirror.text import BUG

log = logging.getLogger(__name__)

# Seconds. The last answer is used again for so long: whoever writes now usually goes on for a while.
LOOK_INTERVAL = 60.0
WARN_INTERVAL = 10.0  # seconds between two warnings of a partition
Count = Callable[[Flow, tuple[str, int], int, int, int], int | None]


@dataclass(frozen=True, slots=True)
class _Gap:
    """A range of offsets. Some of them are not those of our records."""

    begin: int
    end: int  # the last one excluded
    ours: int  # records of ours among them
    offsets: int  # that are not ours


class ForeignWrites:
    """Compares the offsets of each transaction's records with those that they must have if nobody else writes there.

    A gap between the two may also be a marker: a coordinator that takes over writes a marker once more if it does not
    know that it is there. So mirror reads the gap, to see whether it has records. It reads gaps of one partition at
    most once a minute, and as seldom as the task's budget says.
    """

    def __init__(self, facts: PartitionFacts, services: TaskServices, count: Count = count_between) -> None:
        self._facts = facts
        self._flow = services.flow
        self._clock = services.clock
        self._budget = services.looks
        self._count = count
        # When, on the monotonic clock, and whether there were records; None: the look failed.
        self._looked: tuple[float, bool | None] | None = None
        self._unseen: _Gap | None = None  # the first gap that was not read yet
        self._untold: _Gap | None = None  # all foreign offsets since the last warning
        self._warned: float | None = None  # when, monotonic

    def committed(self, appended: AppendedOffsets, records: int) -> None:
        """Take note of a committed transaction. It raises nothing: what others write must not stop the copying."""
        try:
            waiting = [gap for gap in (self._unseen, _gap(appended, records)) if gap is not None]
            self._unseen = None
            for gap in waiting:
                is_foreign = self._is_foreign(gap)
                if is_foreign is None:
                    self._unseen = self._unseen or gap
                elif is_foreign:
                    self._count_in(gap)
            self._warn()
        except Exception:
            log.exception(BUG, extra=self._facts.where)

    def _is_foreign(self, gap: _Gap) -> bool | None:
        """True if the gap has records of somebody else; None if that can't be seen now: the next look tries again."""
        now = self._clock.monotonic()
        if self._looked is None or now - self._looked[0] >= LOOK_INTERVAL:
            if not self._budget.begin(now):
                return None
            self._facts.step_lock.progressed()
            try:
                self._looked = now, self._has_records(gap)
            finally:
                self._budget.end(now, self._clock.monotonic())
                self._facts.step_lock.progressed()
        return self._looked[1]

    def _has_records(self, gap: _Gap) -> bool | None:
        """True if the gap has more records than ours; None if the remote partition can't be read."""
        where = (self._facts.topic.remote, self._facts.partition.partition)
        try:
            found = self._count(self._flow, where, gap.begin, gap.end, gap.ours + 1)
        except KafkaException as error:
            log.debug("remote partition can't be read", extra={**self._facts.where, "reason": str(error)})
            return None
        return None if found is None else found > gap.ours

    def _count_in(self, gap: _Gap) -> None:
        self._facts.counters.foreign += gap.offsets
        self._facts.foreign = gap.begin, gap.end - 1
        first = self._untold
        self._untold = gap if first is None else replace(first, end=gap.end, offsets=first.offsets + gap.offsets)

    def _warn(self) -> None:
        """Log what was noticed since the last warning. While others write, each transaction notices something."""
        gap, now = self._untold, self._clock.monotonic()
        if gap is None or (self._warned is not None and now - self._warned < WARN_INTERVAL):
            return
        self._untold, self._warned = None, now
        where = {"remote_topic": self._facts.topic.remote, "first_offset": gap.begin, "last_offset": gap.end - 1}
        fields = {**self._facts.where, **where, "offsets": gap.offsets}
        log.warning("somebody else writes to the remote topic", extra=fields)


def _gap(appended: AppendedOffsets, records: int) -> _Gap | None:
    """The offsets that are not ours, before and between the records of a transaction; None if there are none."""
    between = max(0, appended.last + 1 - appended.first - records)
    before = 0 if appended.expected is None else max(0, appended.first - appended.expected)
    if not between and not before:
        return None
    end, ours = (appended.last + 1, records) if between else (appended.first, 0)
    return _Gap(appended.first - before, end, ours, before + between)
