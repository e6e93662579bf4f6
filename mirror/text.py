"""Numbers, durations and times as people read them. Pure; used by logs, errors, the command line and the page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

ABSENT = "-"  # stands where a value is not known
SAID_MAX = 200  # characters of a broker's own words
BUG = "unexpected error (a bug in mirror)"  # the log's message for an exception that nobody expects


def number(value: float | None) -> str:
    """A number with separators: 1,234,567. A fraction below 100 keeps one decimal: 12.3."""
    if value is None:
        return ABSENT
    return f"{value:,.1f}" if isinstance(value, float) and abs(value) < 100 else f"{value:,.0f}"


def count(value: float | None) -> str:
    """A whole number with separators: 1,234,567."""
    return ABSENT if value is None else f"{value:,.0f}"


def printable(text: str) -> str:
    """The text with a question mark for each character that ends a line, moves a terminal's cursor or can't be seen."""
    return "".join(character if character.isprintable() else "?" for character in text)


def said(text: str) -> str:
    """What a broker has said, cut and printable, for a log or an error."""
    return printable(text[:SAID_MAX])


def plural(amount: int, noun: str, nouns: str | None = None) -> str:
    """A count with its noun: 1 partition, 2,000 partitions. `nouns` is the plural if an "s" does not make it."""
    return f"{amount:,} {noun if amount == 1 else nouns or noun + 's'}"


def listed(texts: Sequence[str], most: int, separator: str = "; ", noun: str = "") -> str:
    """The first texts of a list, at most `most`, and how many more there are: a; b; and 3 more keys."""
    more = len(texts) - most
    rest = plural(more, f"more {noun}") if noun else f"{more:,} more"
    return separator.join([*texts[:most], *([f"and {rest}"] if more > 0 else [])])


def duration(seconds: float | None) -> str:
    """A length of time, rounded: 7.3 ms, 480 ms, 2.4 s, 3 min, 5 h, 2 d."""
    if seconds is None:
        return ABSENT
    if seconds < 0.9995:
        return f"{seconds * 1000:.{1 if seconds < 0.00995 else 0}f} ms"
    if seconds < 99.5:
        return f"{seconds:.{1 if seconds < 9.95 else 0}f} s"
    for unit, length in (("min", 60), ("h", 3600)):
        if seconds < 99.5 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86400:,.0f} d"


def rate(per_second: float) -> str:
    """Events per second: 0.4/s, 12/s, 1,234/s."""
    return f"{per_second:,.{1 if 0 < per_second < 9.95 else 0}f}/s"


def size(amount: float) -> str:
    """Bytes with a decimal unit: 999 B, 1.5 kB, 12 MB, 3.4 GB."""
    for unit in ("B", "kB", "MB"):
        if amount < 999.5:
            return f"{amount:.{1 if 0 < amount < 9.95 and unit != 'B' else 0}f} {unit}"
        amount /= 1000
    return f"{amount:,.1f} GB"


def byte_rate(per_second: float) -> str:
    """Bytes per second with a decimal unit: 12 kB/s, 3.4 MB/s."""
    return f"{size(per_second)}/s"


def time_of_day(at: float) -> str:
    """The UTC time of day of an epoch timestamp, as in the log: 12:00:01."""
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")


def moment(at: float) -> str:
    """The UTC date and time of an epoch timestamp: 2026-01-31 12:00:01Z."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
