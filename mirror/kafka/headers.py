"""The headers of records: what the client library gives of them, and what records weigh with them in memory."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add, length_hint
from typing import Any

from confluent_kafka import Message

from mirror.errors import RecordsRefused

HEADER_WEIGHT = 150  # bytes that a header takes in memory beside its name and its value, however short they are
NO_HEADERS: list[Any] = []


class Unreadable:
    """Stands for headers that can't be read. Whoever asks for them is told, without a look at each record's."""

    def __bool__(self) -> bool:
        raise RecordsRefused("a header's name is not UTF-8, so the headers can't be read")


UNREADABLE = Unreadable()


def read_headers(messages: Sequence[Message]) -> list[Any]:
    """As `Message.headers` gives them, None where there are none; UNREADABLE for those with a name that is not UTF-8.

    The client library fails at these only once. From then on it gives a list with a hole in place of the name:
    produced, that becomes "<NULL>", and taking it apart ends the process (confluent-kafka 2.16). So nobody may be given
    it.
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


def readable(messages: Sequence[Message]) -> list[Any]:
    """Of each record. Raises RecordsRefused if those of one can't be read."""
    return [found or NO_HEADERS for found in read_headers(messages)]


def weights(messages: Sequence[Message]) -> list[int]:
    """What each record weighs: bytes of key, value and headers, and HEADER_WEIGHT for each header."""
    # `map` spends no step of the interpreter on a record that has no headers.
    plain = map(add, map(len, messages), map(length_hint, map(Message.key, messages)))
    found = read_headers(messages)
    return list(plain) if found.count(None) == len(found) else list(map(add, plain, map(_weight, found)))


def _weight(headers: Any) -> int:
    if headers is None or headers is UNREADABLE:
        return 0
    weight = 0
    for name, value in headers:  # faster than a sum over a generator, for there are few
        weight += HEADER_WEIGHT + len(name) + (len(value) if value else 0)
    return weight
