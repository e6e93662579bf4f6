"""Two queues: one hands out steps when they are due, one limits how many slow steps run at once."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import deque
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class Steppable(Protocol):
    """A partition whose steps the transaction threads run."""

    @property
    def may_take_long(self) -> bool:
        """True if the next step may wait, or work, for long. Such steps must leave threads for the others."""

    def step(self) -> None:
        """Do what is due."""


class DelayQueue(Generic[T]):
    """Hands out each item when it is due: at once, or later while its partition waits for pacing or a back-off."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._order = itertools.count()  # first come, first served among those due; items are never compared
        self._changed = threading.Condition()
        self._closed = False

    def put(self, item: T, delay: float = 0.0) -> None:
        """Make `item` due in `delay` seconds."""
        due = time.monotonic() + delay
        with self._changed:
            heapq.heappush(self._heap, (due, next(self._order), item))
            self._changed.notify()

    def take(self) -> T | None:
        """Wait for the next due item; None once the queue is closed."""
        with self._changed:
            while not self._closed:
                wait = self._heap[0][0] - time.monotonic() if self._heap else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self._heap)[2]
                self._changed.wait(wait)
            return None

    def close(self) -> None:
        """Let every `take` return None; what is queued is dropped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class AdmissionQueue(Generic[T]):
    """Admits at most `width` items at once. The others wait in the order in which they came."""

    def __init__(self, width: int) -> None:
        self._free = width
        self._waiting: deque[T] = deque()
        self._lock = threading.Lock()

    def enter(self, item: T) -> bool:
        """Admit `item`, and return True. Without a free place it waits: `free_place` or `next` returns it later."""
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return True
            self._waiting.append(item)
            return False

    def free_place(self) -> T | None:
        """An admitted item has gone, or there is one more place. Returns the next waiting item, which may enter now."""
        with self._lock:
            self._free += 1
            return self._waiting.popleft() if self._waiting else None

    def next(self) -> T | None:
        """The next waiting item, if a place is free because an admitted item turned out not to need it."""
        if not self._waiting:  # as a rule none waits, so look without the lock
            return None
        with self._lock:
            return self._waiting.popleft() if self._waiting and self._free > 0 else None
