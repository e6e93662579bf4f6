"""Numbers as people read them."""

from __future__ import annotations

from datetime import datetime, timezone

NONE = "\N{EN DASH}"


def seconds(value: float | None) -> str:
    """A latency or a wait: 7.3 ms, 480 ms, 2.4 s, 3 min, 5 h, 2 d."""
    if value is None:
        return NONE
    if value < 0.9995:
        return f"{value * 1000:.{1 if value < 0.00995 else 0}f} ms"
    if value < 99.5:
        return f"{value:.{1 if value < 9.95 else 0}f} s"
    for unit, size in (("min", 60), ("h", 3600)):
        if value < 99.5 * size:
            return f"{value / size:.0f} {unit}"
    return f"{value / 86400:,.0f} d"


def count(value: float | None) -> str:
    """1,234,567."""
    return NONE if value is None else f"{value:,.0f}"


def rate(value: float) -> str:
    """Of records: 0.4/s, 12/s, 1,234/s."""
    return f"{value:,.{1 if 0 < value < 9.95 else 0}f}/s"


def bytes_per_second(value: float) -> str:
    """With decimal units: 12 kB/s, 3.4 MB/s."""
    for unit in ("B", "kB", "MB"):
        if value < 999.5:
            return f"{value:.{1 if 0 < value < 9.95 and unit != 'B' else 0}f} {unit}/s"
        value /= 1000
    return f"{value:,.1f} GB/s"


def clock(at: float) -> str:
    """The time of day in UTC, which is what the log has."""
    return datetime.fromtimestamp(at, timezone.utc).strftime("%H:%M:%S")


def plural(number: int, noun: str) -> str:
    """1 partition, 2 partitions."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
