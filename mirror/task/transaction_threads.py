"""The threads that make the partitions' steps, and when each step is due."""

from __future__ import annotations

import threading

from mirror.settings import Flow
from mirror.task.scheduler import DelayQueue, Lane, Steps

THREADS_MAX = 128  # of transactions in a task


class TransactionThreads:
    """A few threads for all partitions of a task: each takes one partition's step at a time."""

    def __init__(self, flow: Flow, stepped: threading.Event) -> None:
        self.threads: list[threading.Thread] = []
        self._wanted = flow.transaction_threads
        self._stepped = stepped  # set after every step
        self._due: DelayQueue[Steps] = DelayQueue()
        # Partitions that an error has stopped may wait for long at each try: they must leave threads for the others.
        self._for_stopped: Lane[Steps] = Lane(max(1, flow.transaction_threads // 2))

    def schedule(self, item: Steps, delay: float) -> None:
        """Have `item.step` called in `delay` seconds."""
        self._due.put(item, delay)

    def have(self, slow: int) -> None:
        """Have as many threads as the flow wants, beside those of `slow` steps: they may wait for a dead broker."""
        while len(self.threads) < min(self._wanted + slow, THREADS_MAX):
            name = f"transactions-{len(self.threads)}"
            self.threads.append(threading.Thread(target=self._transact, name=name, daemon=True))
            self.threads[-1].start()
            if len(self.threads) > self._wanted:  # an error has stopped most of the slow ones
                self._admit(self._for_stopped.leave())

    def close(self) -> None:
        """Begin no more steps."""
        self._due.close()

    def _transact(self) -> None:
        while (item := self._due.take()) is not None:
            stopped = item.stopped_by_error
            if not stopped:  # it may have been waiting to enter, twice even, until it was copied again
                self._admit(self._for_stopped.next())
            elif not self._for_stopped.enter(item):
                continue
            try:
                item.step()
            finally:
                if stopped:
                    self._admit(self._for_stopped.leave())
            self._stepped.set()

    def _admit(self, item: Steps | None) -> None:
        if item is not None:
            self._due.put(item)
