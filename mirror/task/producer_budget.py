"""How many producers a task may have open at once: each takes threads and connections."""

from __future__ import annotations

import threading
from typing import Protocol


class Holder(Protocol):
    """A partition whose producer is open."""

    @property
    def has_producer(self) -> bool:
        """True while the producer is open."""

    @property
    def last_used(self) -> float:
        """When the producer was last used, monotonic."""

    def close_idle_producer(self) -> bool:
        """Close the producer unless a step runs; True if one was closed."""


class ProducerBudget:
    """At most `max_open` producers, as long as some of them are idle."""

    def __init__(self, max_open: int) -> None:
        self._max_open = max_open
        self._lock = threading.Lock()  # guards all below; nobody waits for a step while having it
        self._holders: set[Holder] = set()

    def make_room(self) -> None:
        """Close the producers that were unused for longest, until another one may be opened."""
        with self._lock:
            self._holders = {each for each in self._holders if each.has_producer}
            excess = len(self._holders) + 1 - self._max_open
            for holder in sorted(self._holders, key=lambda each: each.last_used):
                if excess <= 0:
                    return
                excess -= holder.close_idle_producer()

    def opened(self, holder: Holder) -> None:
        """Note that a producer was opened for this partition."""
        with self._lock:
            self._holders.add(holder)
