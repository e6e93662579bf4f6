"""SIGTERM and SIGINT, which end the service in order."""

from __future__ import annotations

import signal
import threading
from queue import SimpleQueue


def end_on_signals(stopping: threading.Event) -> None:
    """Set `stopping` once SIGTERM or SIGINT has come. Only the main thread may call this.

    Python runs the handler in the main thread, which may be waiting for `stopping` and hold its lock. So another thread
    sets it. `SimpleQueue.put` may interrupt anything.
    """
    came: SimpleQueue[int] = SimpleQueue()

    def end() -> None:
        came.get()
        stopping.set()

    threading.Thread(target=end, daemon=True, name="signals").start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda which, _: came.put(which))
