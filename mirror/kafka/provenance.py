"""The header that keeps a record from coming back: active/active, decision 0007. Pure.

Each copy names the clusters that it came through, and the topic and the partition that it was written to. Programs hand
headers on, so a header in another topic or partition says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Message

from mirror.kafka.record_headers import UNREADABLE

NAME = "mirror.provenance"
VALUE_MAX = 4096  # bytes
_SEPARATOR = ","


def is_usable_id(cluster_id: str) -> bool:
    """True if the header can name a cluster with this id."""
    return cluster_id.isprintable() and _SEPARATOR not in cluster_id and 0 < len(cluster_id.encode()) <= VALUE_MAX // 4


def encode(topic: str, partition: int, ids: Sequence[str]) -> bytes:
    """The value of the header of a copy in this remote partition. If it would be too long, the oldest ids go."""
    head = f"{topic}{_SEPARATOR}{partition}".encode()
    parts = [f"{_SEPARATOR}{each}".encode() for each in ids]
    surplus, oldest = len(head) + sum(map(len, parts)) - VALUE_MAX, 0
    while surplus > 0 and oldest < len(parts) - 1:
        surplus -= len(parts[oldest])
        oldest += 1
    return head + b"".join(parts[oldest:])


def route(values: Sequence[bytes | None], topic: str, partition: int) -> tuple[str, ...]:
    """The ids of the clusters that a record of this partition came through, the oldest first. Empty: it was made here.

    `values` are those of all headers with the name. Anybody may have written them.
    """
    if len(values) != 1 or values[0] is None or len(values[0]) > VALUE_MAX:
        return ()
    try:
        name, number, *ids = values[0].decode().split(_SEPARATOR)
    except ValueError:  # not UTF-8, or too few parts
        return ()
    return tuple(ids) if name == topic and number == str(partition) and all(ids) else ()


class ProvenanceFilter:
    """Of what comes from a source partition, leaves out what was on the target before, and gives the rest the header.

    The headers that it gives are shared by many records, so nobody may change them.
    """

    def __init__(self, here: tuple[str, int], remote: tuple[str, int], clusters: tuple[str, str]) -> None:
        """`here` and `remote` are the two partitions, `clusters` the ids of source and target."""
        self._here = here
        self._remote = remote
        self._source, self._target = clusters
        self._own = self._header(())

    def __call__(self, messages: Sequence[Message], headers: Sequence[Any]) -> tuple[Sequence[Message], list[Any]]:
        """The records to copy, and the headers that they get. `headers` are as `read_headers` gives them.

        Headers that can't be read stay so: no copy has any, and the target's producer finds out.
        """
        plain = [self._own]
        if headers.count(None) == len(headers):
            return messages, [plain] * len(headers)
        kept: list[Message] = []
        with_headers: list[Any] = []
        for message, found in zip(messages, headers, strict=True):
            new = plain if found is None else found if found is UNREADABLE else self._headers_of_copy(found)
            if new is not None:
                kept.append(message)
                with_headers.append(new)
        return kept, with_headers

    def _headers_of_copy(self, found: Sequence[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]] | None:
        """The headers of a copy, or None if the record was on the target before."""
        values = [value for name, value in found if name == NAME]
        if not values:
            return [*found, self._own]
        ids = route(values, *self._here)
        if self._target in ids:
            return None
        return [*((name, value) for name, value in found if name != NAME), self._header(ids)]

    def _header(self, ids: tuple[str, ...]) -> tuple[str, bytes]:
        return NAME, encode(*self._remote, (*ids, self._source))
