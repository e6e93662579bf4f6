"""Notices that somebody else writes to the remote partition, by the offsets that mirror's own records get.

Both data paths use it. Neither a thread nor an event loop waits here: who copies reads a gap in its own way.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from mirror.clock import Clock
from mirror.control.reports import Counters
from mirror.target.written import AppendedOffsets
from mirror.task.look_budget import LookBudget

log = logging.getLogger(__name__)

# Seconds. The last answer is used again for so long: whoever writes now usually goes on for a while.
LOOK_INTERVAL = 60.0
WARN_INTERVAL = 10.0  # seconds between two warnings of a partition


class Account(Protocol):
    """Where the offsets of others are counted."""

    counters: Counters
    foreign: tuple[int, int]  # the last of them


@dataclass(frozen=True, slots=True)
class Gap:
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

    def __init__(self, account: Account, where: Mapping[str, object], clock: Clock, budget: LookBudget) -> None:
        """`where` has the fields of a warning that say which partition it is about."""
        self._account = account
        self._where = where
        self._clock = clock
        self._budget = budget
        self._looked = float("-inf")  # when the last look began, monotonic
        self._found: bool | None = None  # whether there were records; None if that is not known, or was too long ago
        self._waiting: list[Gap] = []  # gaps that are not judged yet; only the first one is kept
        self._untold: Gap | None = None  # all foreign offsets since the last warning
        self._warned = float("-inf")  # when, monotonic

    def noted(self, appended: AppendedOffsets | None) -> Gap | None:
        """Take note of where the records of a transaction are; None: that is not known.

        Returns a gap that has to be read now. Whoever gets it calls `judge` next, in any case.
        """
        gap = _gap(appended) if appended else None
        if gap is not None:
            self._waiting.append(gap)
        if self._waiting and self._may_look():
            return self._waiting[0]
        self._count()
        return None

    def judge(self, records: int | None) -> None:
        """So many records are in the gap that was to be read; None if it can't be read: the next look tries again."""
        self._budget.end(self._looked, self._clock.monotonic())
        self._found = None if records is None else records > self._waiting[0].ours
        self._count()

    def _may_look(self) -> bool:
        """True if the last answer is too old, and the budget allows a look now, which then has begun."""
        now = self._clock.monotonic()
        if now - self._looked < LOOK_INTERVAL:
            return False
        self._found = None
        if not self._budget.begin(now):
            return False
        self._looked = now
        return True

    def _count(self) -> None:
        """Count the gaps that wait, if they have records of others by the last answer."""
        if self._found:
            for gap in self._waiting:
                self._count_in(gap)
        del self._waiting[1 if self._found is None else 0 :]
        self._warn()

    def _count_in(self, gap: Gap) -> None:
        self._account.counters.foreign += gap.offsets
        self._account.foreign = gap.begin, gap.end - 1
        first = self._untold
        self._untold = gap if first is None else replace(first, end=gap.end, offsets=first.offsets + gap.offsets)

    def _warn(self) -> None:
        """Log what was noticed since the last warning. While others write, each transaction notices something."""
        gap = self._untold
        if gap is None or (now := self._clock.monotonic()) - self._warned < WARN_INTERVAL:
            return
        self._untold, self._warned = None, now
        fields = {"first_offset": gap.begin, "last_offset": gap.end - 1, "offsets": gap.offsets}
        log.warning("somebody else writes to the remote topic", extra={**self._where, **fields})


def _gap(appended: AppendedOffsets) -> Gap | None:
    """The offsets that are not ours, before and between the records of a transaction; None if there are none."""
    between = max(0, appended.last + 1 - appended.first - appended.records)
    before = 0 if appended.expected is None else max(0, appended.first - appended.expected)
    if not between and not before:
        return None
    end, ours = (appended.last + 1, appended.records) if between else (appended.first, 0)
    return Gap(appended.first - before, end, ours, before + between)
