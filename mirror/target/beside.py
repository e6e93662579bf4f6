"""Batches for topics of our own, which go into the transaction beside the batches of a partition. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mirror.batches.building import build
from mirror.batches.records import Content
from mirror.settings import Flow
from mirror.target.session_marks import Due, Marks

BATCH_MAX = 2**18  # bytes of keys and values; a record that is larger goes alone

Pair = tuple[bytes, bytes]  # key and value


@dataclass(frozen=True, slots=True)
class Beside:
    """One batch for the only partition of a topic of our own, to which others write as well."""

    topic: str
    records: int
    data: memoryview


def topics_beside(flow: Flow, due: Due) -> list[str]:
    """The topics for which `beside` has batches, once what is due has places."""
    gets_some = {flow.offset_syncs_topic: due.synced, flow.offset_map_topic: due.mapped}
    return [topic for topic, some in gets_some.items() if some]


def beside(flow: Flow, marks: Marks, now: int) -> list[Beside]:
    """What goes beside the records, at this time (ms): offset syncs and entries of the map."""
    syncs = ((each.key(), each.value()) for each in marks.syncs)
    return [*_batches(flow.offset_syncs_topic, syncs, now), *_batches(flow.offset_map_topic, marks.entries, now)]


def _batches(topic: str, pairs: Iterable[Pair], now: int) -> Iterator[Beside]:
    waiting: list[Content] = []
    size = 0
    for key, value in pairs:
        more = len(key) + len(value)
        if waiting and size + more > BATCH_MAX:
            yield Beside(topic, len(waiting), build(waiting, now))
            waiting, size = [], 0
        waiting.append(Content(key, value, ()))
        size += more
    if waiting:
        yield Beside(topic, len(waiting), build(waiting, now))
