"""The request for the groups that a broker coordinates. librdkafka lists consumer groups only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirror.wire.cursor import Cursor
from mirror.wire.requests import Api, Request
from mirror.wire.writer import Writer

# Before version 5 (Kafka 3.8) no type can be asked for. Brokers that do not have it have consumer groups only.
LIST_GROUPS = Api("ListGroups", 16, 5, 5, flexible=3)
_LEAST = 5  # bytes of a group


@dataclass(frozen=True, slots=True)
class ListedGroups:
    """An error code, and the types of one broker's groups by name."""

    error: int
    types: Mapping[str, str]


def list_groups(types: Sequence[str] = ()) -> Request[ListedGroups]:
    """Ask a broker for the groups of these types that it coordinates, or for all groups."""

    def write(writer: Writer) -> None:
        writer.array((), Writer.string).array(types, Writer.string).tags()  # no filter by state

    return Request(LIST_GROUPS, write, _read)


def _read(answer: Cursor) -> ListedGroups:
    answer.throttle()
    error = answer.int16()
    types = dict(answer.array(_group, _LEAST))
    answer.tags()
    return ListedGroups(error, types)


def _group(answer: Cursor) -> tuple[str, str]:
    name = answer.string()
    answer.string(), answer.string()  # protocol type, state
    kind = answer.string()
    answer.tags()
    return name, kind
