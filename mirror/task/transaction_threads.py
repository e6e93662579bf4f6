"""The threads that run the partitions' transactions, and the lock that lets one of them at a time use a producer."""

from __future__ import annotations

import threading

from mirror.clock import Clock
from mirror.settings import Flow
from mirror.task.queues import AdmissionQueue, DelayQueue, Steppable
from mirror.task.thread_stack import stack_of

THREADS_MAX = 128  # of transactions in a task


class TransactionThreads:
    """A few threads for all partitions of a task: each takes one partition's step at a time."""

    def __init__(self, flow: Flow, stepped: threading.Event) -> None:
        self.threads: list[threading.Thread] = []
        self._wanted = flow.transaction_threads
        self._stepped = stepped  # set after every step
        self._due: DelayQueue[Steppable] = DelayQueue()
        # A partition that an error has stopped may wait for long at each try, and a transform may work for long. Such
        # steps are slow, and must leave threads for the others.
        self._slow_steps: AdmissionQueue[Steppable] = AdmissionQueue(max(1, flow.transaction_threads // 2))

    def schedule(self, item: Steppable, delay: float) -> None:
        """Schedule `item.step` in `delay` seconds."""
        self._due.put(item, delay)

    def ensure_threads(self, slow: int) -> None:
        """Start threads until there are as many as the flow wants, plus one for each of `slow` steps that run now."""
        while len(self.threads) < min(self._wanted + slow, THREADS_MAX):
            name = f"transactions-{len(self.threads)}"
            self.threads.append(threading.Thread(target=self._transact, name=name, daemon=True))
            self.threads[-1].start()
            if len(self.threads) > self._wanted:  # most slow steps belong to partitions that an error has stopped
                self._admit(self._slow_steps.free_place())

    def close(self) -> None:
        """Begin no more steps."""
        self._due.close()

    def _transact(self) -> None:
        while (item := self._due.take()) is not None:
            takes_long = item.may_take_long
            if not takes_long:  # if it was admitted as slow and is not slow any more, the next one gets its place
                self._admit(self._slow_steps.next())
            elif not self._slow_steps.enter(item):
                continue
            try:
                item.step()
            finally:
                if takes_long:
                    self._admit(self._slow_steps.free_place())
            self._stepped.set()

    def _admit(self, item: Steppable | None) -> None:
        if item is not None:
            self._due.put(item)


class StepLock:
    """The lock of one partition's step. Its holder may use the partition's producer, and may close it.

    Any thread may request a step. A transaction thread acquires the lock for it once it is due.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.not_before = 0.0  # monotonic: pacing or back-off
        self._lock = threading.Lock()  # guards all below
        self._running = False
        self._thread = 0  # whose step it is
        self._began = 0.0  # monotonic
        self._wake_at: float | None = None

    def request(self, delay: float | None = None) -> float | None:
        """Make a step due in `delay` seconds, or when pacing and back-off allow it.

        Returns the seconds after which a thread has to run the step. None: one is already scheduled.
        """
        now = self._clock.monotonic()
        with self._lock:
            due = max(now, self.not_before) if delay is None else now + delay
            if self._running or (self._wake_at is not None and self._wake_at <= due):
                return None
            self._wake_at = due
        return due - now

    def acquire_if_due(self) -> bool:
        """Acquire the lock for a step; False if none is due, or one runs."""
        with self._lock:
            due = self._wake_at is not None and self._wake_at <= self._clock.monotonic()
            return due and self._acquire()

    def acquire(self) -> bool:
        """Acquire the lock, whether a step is due or not; False if a step runs.

        A step that comes due while the lock is held has to be requested again.
        """
        with self._lock:
            return self._acquire()

    def _acquire(self) -> bool:
        if self._running:
            return False
        self._running, self._began, self._wake_at = True, self._clock.monotonic(), None
        self._thread = threading.get_ident()
        return True

    def release(self) -> None:
        """The step is over."""
        with self._lock:
            self._running = False

    def progressed(self) -> None:
        """Count the time of the step from now on: a part of it is done, and each may take as long as a transaction."""
        with self._lock:
            self._began = self._clock.monotonic()

    @property
    def paced(self) -> float:
        """Seconds until pacing and back-off allow a step."""
        return max(0.0, self.not_before - self._clock.monotonic())

    @property
    def stack(self) -> str:
        """Where the running step is, the innermost call first; "" when none runs."""
        with self._lock:
            return stack_of(self._thread) if self._running else ""

    @property
    def held_for(self) -> float:
        """Seconds that the running step, or its last part, has taken so far; 0 when none runs."""
        with self._lock:
            return self._clock.monotonic() - self._began if self._running else 0.0
