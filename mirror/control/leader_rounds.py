"""Rounds that a flow leader makes again and again: when the last one has ended, and why the newest one has failed."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from mirror.backoff import Backoff
from mirror.control.flow_leader_thread import FlowLeaderPart
from mirror.settings import Flow

# Seconds, at most, until a round that has failed is made again; each failure doubles them, up to the interval.
RETRY = 10.0


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class RoundResult:
    """What is known after a round, and before the first one has ended. It is equal only to itself."""

    # When the last round that succeeded has ended, in seconds since the Unix epoch. Before the first one: when the flow
    # leader began with them. So rounds that never succeed look as old as those that succeed no more.
    at: float
    has_ended: bool = field(default=True, kw_only=True)  # False before the first one has
    problem: str = field(default="", kw_only=True)  # why the newest one has failed; "" if it has not

    @property
    def ended_at(self) -> float | None:
        """When the last round that succeeded has ended; None if none has yet."""
        return self.at if self.has_ended else None


class RoundSchedule:
    """When the next round over everything is due: after the interval, or sooner if the last round has failed."""

    def __init__(self, interval: float) -> None:
        self.is_failing = False  # True from a failed round until one has succeeded
        self._interval = interval
        self._backoff = Backoff(min(RETRY, interval), interval)
        self._due = 0.0  # monotonic

    @property
    def is_due(self) -> bool:
        """True if it is time."""
        return time.monotonic() >= self._due

    def failed(self) -> None:
        """A round has failed, whatever it was over. It is not the time for another one, either."""
        self.is_failing = True
        self._due = time.monotonic() + self._backoff.next()

    def succeeded(self) -> None:
        """A round over everything has succeeded."""
        self.is_failing = False
        self._backoff.reset()
        self._due = time.monotonic() + self._interval


Result = TypeVar("Result", bound=RoundResult)


class LeaderRounds(FlowLeaderPart, Generic[Result]):
    """Makes rounds in a thread of its own, and tells what is known of them."""

    def __init__(self, name: str, flow: Flow, tell: Callable[[Result], object]) -> None:
        """`tell` gets what is known, in another thread, and never after `stop` has returned."""
        super().__init__(name, flow)
        self._tell = tell
        self._known: Result | None = None  # as last told; None before that, and once forgotten

    def _forget(self) -> None:
        self._known = None

    def _work(self, stopping: threading.Event) -> None:
        self._thread.tell(self._begin)
        self._make_rounds(stopping)

    @abstractmethod
    def _make_rounds(self, stopping: threading.Event) -> None:
        """Make rounds until `stopping` is set."""

    @abstractmethod
    def _none_yet(self, at: float) -> Result:
        """What to tell before the first round has ended; they began `at` this time."""

    def _begin(self) -> None:
        """Tell that none has ended yet, unless the thread begins again: then the time goes on."""
        if self._known is None:
            self._publish(self._last())

    def _last(self) -> Result:
        """What was told last. Only what is told may ask for it."""
        return self._known or self._none_yet(time.time())

    def _publish(self, result: Result) -> None:
        self._known = result
        self._tell(result)

    def _tell_end(self, result: Result) -> None:
        """Tell what a round has found."""
        self._thread.tell(lambda: self._publish(result))

    def _tell_failed(self, problem: str) -> None:
        """Tell that a round has failed. What the last one has found stays."""
        self._thread.tell(lambda: self._publish(replace(self._last(), problem=problem)))
