"""Strict decoding of JSON that somebody has written to a topic: each value is checked by type and size before its use.

What is decoded stands in a table, from names to checks: another field is another line there. What a newer mirror adds
is passed over, what an older one did not write may be missing if the table says so.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
Check = Callable[[Any], T]  # gives the value as it is used; raises Malformed

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
_LATEST = 253_402_300_799.0  # seconds since the Unix epoch: the end of the year 9999, where Python's calendar ends
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # Kafka's rule
_NAME = re.compile(r"[ -~]{0,100}")
_CUT = 2_000  # characters


class Malformed(ValueError):
    """It is not what it should be. The text says where and why, and has nothing of what was read."""


def parsed(value: bytes | str, most: int) -> Any:
    """What JSON of at most so many bytes says; numbers are finite. Raises Malformed."""
    if len(value) > most:
        raise Malformed(f"longer than {most:,} bytes")
    try:
        return json.loads(value.decode() if isinstance(value, bytes) else value, parse_constant=_not_finite)
    except (ValueError, RecursionError):  # nested a thousand deep, or a number of thousands of digits
        raise Malformed("no JSON that can be read") from None


def _not_finite(_: str) -> NoReturn:
    raise Malformed("a number that is not finite")


def fields(raw: Any, wanted: Mapping[str, Check[Any]], optional: Mapping[str, Check[Any]] | None = None) -> Any:
    """Those of an object's fields that the tables name, checked; without optional ones that are missing."""
    if not isinstance(raw, dict):
        raise Malformed("no object")
    for name in wanted:
        if name not in raw:
            raise Malformed(f"{name} is missing")
    table = {**wanted, **(optional or {})}
    return {name: _within(name, check, raw[name]) for name, check in table.items() if name in raw}


def elements(raw: Any, wanted: Sequence[Check[Any]], optional: Sequence[Check[Any]] = ()) -> list[Any]:
    """The same for a list that is told by places: the `wanted` come first, then `optional` ones as far as it goes."""
    if not isinstance(raw, list) or len(raw) < len(wanted):
        raise Malformed(f"no list of {len(wanted)} elements")
    checks = [*wanted, *optional]
    return [_within(str(place), check, each) for place, (check, each) in enumerate(zip(checks, raw, strict=False))]


def _within(where: str, check: Check[T], raw: Any) -> T:
    try:
        return check(raw)
    except Malformed as error:
        raise Malformed(f"{where}: {error}") from None


def integer(least: int = 0, most: int = INT64_MAX) -> Check[int]:
    """A whole number within bounds, as JSON writes one; true and false are none."""

    def check(raw: Any) -> int:
        if type(raw) is not int or not least <= raw <= most:
            raise Malformed(f"no integer from {least} to {most}")
        return raw

    return check


def number(least: float = 0.0, most: float = 1e18) -> Check[float]:
    """A number within bounds, finite."""

    def check(raw: Any) -> float:
        if type(raw) not in (int, float) or not least <= raw <= most or not math.isfinite(raw):
            raise Malformed(f"no number from {least:g} to {most:g}")
        return float(raw)

    return check


def flag(raw: Any) -> bool:
    """True or false."""
    if not isinstance(raw, bool):
        raise Malformed("neither true nor false")
    return raw


def name(raw: Any) -> str:
    """A short word of ours, such as an id or a state."""
    return _matching(_NAME, raw, "no short word")


def topic_name(raw: Any) -> str:
    """What Kafka takes as a topic's name."""
    if raw in (".", ".."):
        raise Malformed("no topic's name")
    return _matching(_TOPIC, raw, "no topic's name")


def _matching(pattern: re.Pattern[str], raw: Any, otherwise: str) -> str:
    if not isinstance(raw, str) or not pattern.fullmatch(raw):
        raise Malformed(otherwise)
    return raw


def text(raw: Any) -> str:
    """Something for people: cut, and without what would move a terminal's cursor or can't be encoded."""
    if not isinstance(raw, str):
        raise Malformed("no text")
    return "".join(each if each.isprintable() else " " for each in raw[:_CUT])


def listed(check: Check[T], length: int | None = None) -> Check[list[T]]:
    """A list, of this length if one is given, of such elements."""

    def checked(raw: Any) -> list[T]:
        if not isinstance(raw, list) or length not in (None, len(raw)):
            raise Malformed("no list" if length is None else f"no list of {length} elements")
        return [check(each) for each in raw]

    return checked


def keyed(key: Check[str], check: Check[T]) -> Check[dict[str, T]]:
    """An object with keys that nobody knows beforehand."""

    def checked(raw: Any) -> dict[str, T]:
        if not isinstance(raw, dict):
            raise Malformed("no object")
        return {key(each): check(value) for each, value in raw.items()}

    return checked


def among(known: Iterable[str]) -> Check[str]:
    """One of these words."""
    words = frozenset(known)

    def check(raw: Any) -> str:
        if not isinstance(raw, str) or raw not in words:
            raise Malformed(f"none of {', '.join(sorted(words))}")
        return raw

    return check


def counts(names: Iterable[str]) -> Check[dict[str, int]]:
    """A count for each of these names, 0 where it is missing; those of other names are passed over."""
    table = dict.fromkeys(names, integer())

    def check(raw: Any) -> dict[str, int]:
        found: dict[str, int] = fields(raw, {}, table)
        return dict.fromkeys(table, 0) | found

    return check


def moment(least: float = 0.0) -> Check[float]:
    """Seconds since the Unix epoch, as far as a calendar goes."""
    return number(least, _LATEST)


partition_number = integer(0, INT32_MAX)


def number_of_key(digits: str) -> int:
    """A partition or slice that stands in a record's key, as `str` writes it."""
    if not re.fullmatch(r"0|[1-9][0-9]{0,9}", digits):
        raise Malformed("no number in the key")
    return partition_number(int(digits))
