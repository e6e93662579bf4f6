"""The events that a partition's next step has to learn of."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from mirror.task.events import Event


class Inbox:
    """Any thread posts; only the partition's step drains.

    Of equal events only the last one stays. So a partition that makes no step for long has few events, and a later
    event still comes after the earlier ones that it contradicts.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[Event] = []

    def post(self, event: Event) -> None:
        """Add an event."""
        with self._lock:
            if event in self._events:
                self._events.remove(event)
            self._events.append(event)

    def drain(self) -> Sequence[Event]:
        """Take all events out, in the order in which they were posted last."""
        with self._lock:
            events, self._events = self._events, []
        return events

    def waiting(self) -> Sequence[Event]:
        """The events that nobody has taken yet."""
        with self._lock:
            return tuple(self._events)
