"""Where a thread is now, for the log line of something that hangs."""

from __future__ import annotations

import sys
import traceback

FRAMES = 30  # most frames of a stack that are logged


def stack_of(thread: int) -> str:
    """The calls of the thread with this identifier, the innermost first; "" if it is gone."""
    frame = sys._current_frames().get(thread)
    calls = traceback.extract_stack(frame)[::-1][:FRAMES] if frame is not None else []
    return " < ".join(f"{each.name} ({each.filename}:{each.lineno})" for each in calls)
