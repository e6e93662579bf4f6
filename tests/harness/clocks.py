"""Wrong clocks for processes, by libfaketime."""

from __future__ import annotations

from pathlib import Path


def faked(seconds: int) -> dict[str, str] | None:
    """The environment of a process whose clock is ahead by so many seconds; None where there is no libfaketime."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not found:
        return None
    return {"LD_PRELOAD": str(found[0]), "FAKETIME": f"{seconds:+d}", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
