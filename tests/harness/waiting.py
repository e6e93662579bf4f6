"""Waiting for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

INTERVAL, INTERVAL_MAX = 0.05, 0.25  # seconds between two looks; twice as long as a look took, if that is longer
GROWTH = 0.01  # the interval is this part of the time that was waited so far: each look costs CPU that others need
PAUSE_MAX = 1.0  # seconds
PATIENCE = 300.0  # seconds for what takes ten on an idle machine, as the start of a service, or of three at once


class TooLate(AssertionError):
    """A condition did not come true in time."""


def until(description: str, condition: Callable[[], T | None], timeout: float = PATIENCE) -> T:
    """The first true answer of `condition`. Raises TooLate after `timeout` seconds."""
    begun = time.monotonic()
    while True:
        asked = time.monotonic()
        answer = condition()
        took = time.monotonic() - begun
        if answer:
            if took > 0.5:
                print(f"   {time.strftime('%X')} {took:.1f} s {description[:80]}", flush=True)
            return answer
        if took > timeout:
            raise TooLate(f"not within {timeout:g} s: {description} (last answer: {answer!r:.300})")
        pause = max(INTERVAL, min(INTERVAL_MAX, GROWTH * took), 2 * (time.monotonic() - asked))
        time.sleep(min(pause, PAUSE_MAX))
