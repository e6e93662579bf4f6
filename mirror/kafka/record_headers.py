"""The headers of records: reading them safely, and the memory that records take with them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add, length_hint
from typing import Any

from confluent_kafka import Message

from mirror.errors import RecordsRefused

HEADER_WEIGHT = 150  # bytes of memory that a header takes in addition to its name and value
NO_HEADERS: list[Any] = []


class Unreadable:
    """Placeholder for headers that cannot be read. Testing it for truth raises RecordsRefused.

    So code that uses headers finds out without a check of each record.
    """

    def __bool__(self) -> bool:
        raise RecordsRefused("a header's name is not UTF-8, so the headers can't be read")


UNREADABLE = Unreadable()


def read_headers(messages: Sequence[Message]) -> list[Any]:
    """The headers of each record: None if it has none, UNREADABLE if the name of one is not UTF-8.

    The client library raises for such headers only once. After that it returns a list with a hole in place of the name:
    producing that writes the name "<NULL>", and unpacking it crashes the process (confluent-kafka 2.16). So such
    headers are replaced at once, and no other code sees them.
    """
    found: list[Any] = []
    unread = iter(messages)
    while len(found) < len(messages):
        try:
            found.extend(map(Message.headers, unread))
        except (SystemError, UnicodeDecodeError):
            messages[len(found)].set_headers(UNREADABLE)
            found.append(UNREADABLE)
    return found


def readable(headers: Sequence[Any]) -> list[Any]:
    """The headers of each record, given what `read_headers` has found. Raises RecordsRefused if some are unreadable."""
    return [found or NO_HEADERS for found in headers]


def weights(messages: Sequence[Message], keys: Sequence[bytes | None], headers: Sequence[Any]) -> list[int]:
    """The weight of each record: bytes of key, value and headers, and HEADER_WEIGHT for each header."""
    # `map` runs no interpreter step for a record without headers.
    plain = map(add, map(len, messages), map(length_hint, keys))
    return list(plain) if headers.count(None) == len(headers) else list(map(add, plain, map(_weight, headers)))


def weight(key: bytes | None, value: bytes | None, headers: Any) -> int:
    """The weight of one record, as `weights` gives it."""
    return length_hint(key) + length_hint(value) + _weight(headers)


def _weight(headers: Any) -> int:
    if headers is None or headers is UNREADABLE:
        return 0
    weight = 0
    for name, value in headers:  # faster than a sum over a generator, because a record has few headers
        weight += HEADER_WEIGHT + len(name) + (len(value) if value else 0)
    return weight
