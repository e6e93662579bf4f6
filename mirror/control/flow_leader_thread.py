"""A thread for other work of the flow leader than plans. An unexpected error in it ends neither thread nor copying."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from mirror.logs import OnChange
from mirror.settings import Flow
from mirror.text import BUG

log = logging.getLogger(__name__)

PAUSE = 10.0  # seconds between an unexpected error and the next try
STEADY_AFTER = 60.0  # seconds of work after which an error that comes again is logged again


class FlowLeaderThread:
    """Runs `work` in a thread of its own, from `start` to `stop`. One thread starts and stops it, the flow's own."""

    def __init__(self, name: str, flow: str, work: Callable[[threading.Event], object], pause: float = PAUSE) -> None:
        """`work` returns soon after the event that it gets is set. `flow` is the flow's name in the log."""
        self._name = name
        self._flow = flow
        self._work = work
        self._pause = pause
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()  # of the newest thread
        self._telling = threading.Lock()

    def start(self) -> None:
        """Start a thread, but only if none runs. Also one that was told to stop may still run: then call again later.

        So two threads never use the same things.
        """
        if self._thread is None or not self._thread.is_alive():
            self._stopping = threading.Event()
            self._thread = threading.Thread(target=self._run, args=(self._stopping,), daemon=True, name=self._name)
            self._thread.start()

    def stop(self) -> None:
        """Tell the thread to end, without waiting for that."""
        with self._telling:
            self._stopping.set()

    def join(self, timeout: float) -> bool:
        """Wait until the thread has ended, at most `timeout` seconds. Returns whether it has, or never began."""
        if self._thread is not None:
            self._thread.join(timeout)
        return self._thread is None or not self._thread.is_alive()

    def tell(self, what: Callable[[], object]) -> None:
        """Call `what`, which takes no time, unless `stop` was called. `work` reports its results in this way.

        Once `stop` has returned, nothing is reported any more.
        """
        with self._telling:
            if not self._stopping.is_set():
                what()

    def _run(self, stopping: threading.Event) -> None:
        """Call `work` until `stopping` is set. After an unexpected error, call it again."""
        why = OnChange()
        while not stopping.is_set():
            began = time.monotonic()
            try:
                self._work(stopping)
            except Exception as error:
                if time.monotonic() - began > STEADY_AFTER:
                    why.clear()
                if why.is_new(f"{type(error).__name__}: {error}"):
                    log.exception(BUG, extra={"flow": self._flow})
            stopping.wait(self._pause)


class FlowLeaderPart(ABC):
    """Something that the flow leader does in a `FlowLeaderThread`, and that follows a changed configuration."""

    def __init__(self, name: str, flow: Flow) -> None:
        """`name` is the thread's in the log and in lists of threads."""
        self._flow = flow
        self._thread = FlowLeaderThread(f"{name} {flow.name}", flow.name, self._work)

    @property
    @abstractmethod
    def wanted(self) -> bool:
        """True if the configuration wants it."""

    def start(self) -> None:
        """Begin, unless it has begun or is not wanted. Call it again and again while the flow is led."""
        if self.wanted:
            self._thread.start()

    def stop(self) -> None:
        """Tell the thread to end once it has done what it is doing. `start` begins as if it had never worked."""
        self._thread.stop()
        self._forget()

    def reconfigure(self, flow: Flow) -> None:
        """Stop, and follow these settings from the next `start` on. What is known stays if it is still wanted."""
        self._flow = flow
        self._thread.stop()
        if not self.wanted:
            self._forget()

    def _forget(self) -> None:  # noqa: B027
        """Forget what was told: the next one who leads, or is configured, begins anew."""

    @abstractmethod
    def _work(self, stopping: threading.Event) -> None:
        """Work until `stopping` is set. It takes the settings when it begins."""
