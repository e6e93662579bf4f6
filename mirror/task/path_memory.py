"""Which data path a partition takes, since when and why, and when one that has left the batch path may come back. Pure.

A partition that has left the batch path stays on the record path for a while, and for twice as long if it had come back
only shortly before. This keeps it from changing paths again and again.
"""

from __future__ import annotations

from mirror.clock import Clock
from mirror.control.data_path import BATCHES, RECORDS, DataPath

FIRST_STAY = 10.0  # seconds on the record path
LONGEST_STAY = 3600.0
SOON, TRIES = 1.0, 5  # seconds, and how often: the record path may have copied past the end that it is told
STEADY = 10  # times its last stay: a partition that was on the batch path for that long did well there

TOO_SLOW = "too_slow"  # the only reason that takes minutes to find, with nothing copied meanwhile
WITHIN_BATCH = "position_within_batch"  # the only reason that is over at a known offset, whatever comes after it


class PathMemory:
    """The path of one partition. Only the plan follower uses it."""

    def __init__(self, clock: Clock) -> None:
        self.path = DataPath(RECORDS, 0.0, "")
        self.keeps_off = ""  # why it left the batch path; "": it never did, or comes back
        self.end: int | None = None  # offset at which the record path has to end, if that is known when it begins
        self.start: int | None = None  # where it was to begin, if it was let go before anything was committed
        self._clock = clock
        self._stay = FIRST_STAY
        self._back_at = 0.0  # monotonic
        self._entered = 0.0  # monotonic: when it last took the batch path
        self._told = 0  # how often the record path was told where to end, since the batch path was left

    def take(self, name: str, reason: str) -> bool:
        """The partition takes this path. True if it took the other one before."""
        before = self.path
        since = before.since if before.name == name and before.since else self._clock.now()
        self.path = DataPath(name, since, reason)
        if name == BATCHES and before.name != name:
            self._entered = self._clock.monotonic()
        return before.since > 0 and before.name != name

    def left(self, reason: str, until: int | None) -> None:
        """The partition has left the batch path, at a batch that ends at `until`."""
        now = self._clock.monotonic()
        steady = now - self._entered >= STEADY * self._stay
        self._stay = FIRST_STAY if steady else min(LONGEST_STAY, 2 * self._stay)
        if reason == TOO_SLOW:
            self._stay = LONGEST_STAY
        self.keeps_off = reason
        self.end = until if reason == WITHIN_BATCH else None
        self._told = 0
        self.wait()

    def wait(self) -> None:
        """It stays on the record path, until its stay is over once more."""
        self._back_at = self._clock.monotonic() + self._stay

    def told(self) -> None:
        """The record path was told where to end. If that came too late, it may be told again soon, a few times."""
        self._told += 1
        if self._told % TRIES:
            self._back_at = self._clock.monotonic() + SOON

    def unanswered(self) -> None:
        """Whether batches fit again is not known, since the source did not answer. It is asked again soon."""
        self._back_at = self._clock.monotonic() + FIRST_STAY

    @property
    def may_return(self) -> bool:
        """True once its stay is over."""
        return self._clock.monotonic() >= self._back_at

    def returns(self) -> None:
        """The record path has ended where it was told to: the next copier takes the batch path."""
        self.keeps_off, self.end = "", None
