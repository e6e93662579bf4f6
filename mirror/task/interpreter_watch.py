"""Ends this process if no Python thread can run: native code that a transform calls may hold the interpreter's lock.

A regular expression that backtracks without end does. Then no thread of ours could find out that anything hangs.
"""

from __future__ import annotations

import faulthandler
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

HELD_FOR = 60.0  # seconds, as long as a transform may take
LOOK_INTERVAL = 1.0  # seconds


@contextmanager
def interpreter_watch(held_for: float = HELD_FOR) -> Iterator[None]:
    """Within it, a process whose interpreter was held for so many seconds prints its stacks and ends with code 1.

    Spark then starts the task in another process. Only a thread that needs no interpreter can do that; Python's
    `faulthandler` has one. It has a single timer, so it can't tell a held interpreter from a process that was suspended
    for as long (`docker pause`): when that one goes on, it may end, too.
    """
    over = threading.Event()
    thread = threading.Thread(target=_go_on, args=(over, held_for), name="interpreter-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        faulthandler.cancel_dump_traceback_later()


def _go_on(over: threading.Event, held_for: float) -> None:
    while not over.is_set():
        faulthandler.dump_traceback_later(held_for, exit=True, file=sys.__stderr__ or sys.stderr)
        over.wait(LOOK_INTERVAL)
