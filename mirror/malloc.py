"""The C library's memory."""

from __future__ import annotations

import ctypes
import os

SETTING = "MALLOC_ARENA_MAX"  # glibc's own environment variable

_ARENAS = 2
_M_ARENA_MAX = -8  # of glibc's malloc.h


def bound_arenas() -> None:
    """Give the threads of this process at most two arenas of memory, unless the environment says how many.

    glibc gives each new thread an arena of its own, up to eight for each core, and keeps what is freed in one for the
    threads that use the same. Kafka's clients start new threads, so a process that opens and closes clients would grow
    for hours. Call it before the process has threads. Where there is no glibc it does nothing.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and SETTING not in os.environ:
        mallopt(_M_ARENA_MAX, _ARENAS)
