"""Stops the workers of a service for a while."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

from tests.harness.waiting import until

FETCH_WAIT = 0.5  # seconds, librdkafka's fetch.wait.max.ms


class Standstill:
    """Stops the workers that have these process ids, and lets them go on."""

    def __init__(self, pids: Callable[[], list[int]]) -> None:
        self._pids = pids
        self._stopping, self._stops = threading.Lock(), 0
        self._stopped: set[int] = set()

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """The tasks stand still, and nobody is told why. What is produced meanwhile has not been fetched.

        A fetch that was under way waits at the broker, and would be answered with the first records that come: into the
        socket, where the task finds them later. The broker answers it after `fetch.wait.max.ms` in any case.

        Several threads may stop them at the same time: they go on after the last one.
        """
        with self._stopping:
            self._stops += 1
            self._stopped.update(workers := self._pids())
            for worker in workers:
                os.kill(worker, signal.SIGSTOP)
        stopped = time.monotonic()
        try:
            until("no fetch is under way", lambda: time.monotonic() > stopped + 2 * FETCH_WAIT)
            yield
        finally:
            with self._stopping:
                self._stops -= 1
                while not self._stops and self._stopped:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(self._stopped.pop(), signal.SIGCONT)
