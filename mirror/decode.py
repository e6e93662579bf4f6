"""Strict decoding of JSON from mirror's own topics: each value is checked by type and size before it is used.

A table of field names and checks says what is decoded; a new field is a new line there. Fields that a newer mirror has
added are ignored. Fields that an older mirror did not write are optional if the table says so.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
Check = Callable[[Any], T]  # converts a JSON value to the value that is used; raises DecodeError

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
_LATEST = 253_402_300_799.0  # seconds since the Unix epoch: the end of the year 9999, where Python's calendar ends
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # Kafka's rule
_NAME = re.compile(r"[ -~]{0,100}")
_CUT = 2_000  # most characters of a text


class DecodeError(ValueError):
    """A value is not what it should be. The message says where and why, and never quotes what was read."""


def parsed(value: bytes | str, most: int) -> Any:
    """Parse JSON of `most` bytes at most, without NaN and Infinity. Raises DecodeError.

    Python takes 1e999 for infinite, too: `number` refuses that.
    """
    if len(value) > most:
        raise DecodeError(f"longer than {most:,} bytes")
    try:
        return json.loads(value.decode() if isinstance(value, bytes) else value, parse_constant=_not_finite)
    except (ValueError, RecursionError):  # also nesting a thousand deep, and numbers of thousands of digits
        raise DecodeError("not valid JSON") from None


def _not_finite(_: str) -> NoReturn:
    raise DecodeError("a number is not finite")


def fields(raw: Any, wanted: Mapping[str, Check[Any]], optional: Mapping[str, Check[Any]] | None = None) -> Any:
    """Check an object's fields that the tables name, and return them. Missing optional fields are left out."""
    if not isinstance(raw, dict):
        raise DecodeError("not an object")
    for name in wanted:
        if name not in raw:
            raise DecodeError(f"{name} is missing")
    table = {**wanted, **(optional or {})}
    return {name: _within(name, check, raw[name]) for name, check in table.items() if name in raw}


def elements(raw: Any, wanted: Sequence[Check[Any]], optional: Sequence[Check[Any]] = ()) -> list[Any]:
    """Check a list whose elements have fixed places: first the `wanted` ones, then the `optional` ones that exist."""
    if not isinstance(raw, list) or len(raw) < len(wanted):
        raise DecodeError(f"not a list of {len(wanted)} elements")
    checks = [*wanted, *optional]
    return [_within(str(place), check, each) for place, (check, each) in enumerate(zip(checks, raw, strict=False))]


def _within(where: str, check: Check[T], raw: Any) -> T:
    try:
        return check(raw)
    except DecodeError as error:
        raise DecodeError(f"{where}: {error}") from None


def integer(least: int = 0, most: int = INT64_MAX) -> Check[int]:
    """Check for an integer within bounds; true and false are not integers."""

    def check(raw: Any) -> int:
        if type(raw) is not int or not least <= raw <= most:
            raise DecodeError(f"not an integer from {least} to {most}")
        return raw

    return check


def number(least: float = 0.0, most: float = 1e18) -> Check[float]:
    """Check for a finite number within bounds."""

    def check(raw: Any) -> float:
        if type(raw) not in (int, float) or not least <= raw <= most or not math.isfinite(raw):
            raise DecodeError(f"not a number from {least:g} to {most:g}")
        return float(raw)

    return check


def flag(raw: Any) -> bool:
    """Check for true or false."""
    if not isinstance(raw, bool):
        raise DecodeError("neither true nor false")
    return raw


def name(raw: Any) -> str:
    """Check for a short word that mirror writes, such as an id or a state."""
    return _matching(_NAME, raw, "not a short word")


def topic_name(raw: Any) -> str:
    """Check for a topic name that Kafka accepts."""
    if raw in (".", ".."):
        raise DecodeError("not a topic's name")
    return _matching(_TOPIC, raw, "not a topic's name")


def _matching(pattern: re.Pattern[str], raw: Any, otherwise: str) -> str:
    if not isinstance(raw, str) or not pattern.fullmatch(raw):
        raise DecodeError(otherwise)
    return raw


def text(raw: Any) -> str:
    """A text for people: shortened, and without characters that move a terminal's cursor or cannot be encoded."""
    if not isinstance(raw, str):
        raise DecodeError("not a text")
    return "".join(each if each.isprintable() else " " for each in raw[:_CUT])


def listed(check: Check[T], length: int | None = None) -> Check[list[T]]:
    """Check for a list whose elements pass `check`, of this `length` if one is given."""

    def checked(raw: Any) -> list[T]:
        if not isinstance(raw, list) or length not in (None, len(raw)):
            raise DecodeError("not a list" if length is None else f"not a list of {length} elements")
        return [check(each) for each in raw]

    return checked


def keyed(key: Check[str], check: Check[T]) -> Check[dict[str, T]]:
    """Check for an object whose keys are not known beforehand."""

    def checked(raw: Any) -> dict[str, T]:
        if not isinstance(raw, dict):
            raise DecodeError("not an object")
        return {key(each): check(value) for each, value in raw.items()}

    return checked


def among(known: Iterable[str]) -> Check[str]:
    """Check for one of these words."""
    words = frozenset(known)

    def check(raw: Any) -> str:
        if not isinstance(raw, str) or raw not in words:
            raise DecodeError(f"not one of {', '.join(sorted(words))}")
        return raw

    return check


def counts(names: Iterable[str]) -> Check[dict[str, int]]:
    """Check for a count for each of these names: 0 if it is missing. Other names are ignored."""
    table = dict.fromkeys(names, integer())

    def check(raw: Any) -> dict[str, int]:
        found: dict[str, int] = fields(raw, {}, table)
        return dict.fromkeys(table, 0) | found

    return check


def moment(least: float = 0.0) -> Check[float]:
    """Check for seconds since the Unix epoch, up to the last year of Python's calendar."""
    return number(least, _LATEST)


partition_number = integer(0, INT32_MAX)


def number_of_key(digits: str) -> int:
    """Decode the number of a partition or slice in a record's key, which must be as `str` writes it."""
    if not re.fullmatch(r"0|[1-9][0-9]{0,9}", digits):
        raise DecodeError("the key has no number")
    return partition_number(int(digits))
