"""The last entry of each partition's map, read once for all partitions of a task."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import pytest

from mirror.errors import ClusterAway
from mirror.model import MapEnd
from mirror.target.offset_map import Copied, Entry
from mirror.task import last_entries
from mirror.task.last_entries import LastEntries, LastEntry
from tests.unit.test_naming import flow

FLOW = flow()
HERE, THERE = Copied("t", 0, "id", "remote-id"), Copied("t", 1, "id", "remote-id")
FIRST, SECOND = Entry(0, 0, (10,), MapEnd()), Entry(10, 11, (3, 2, 4), MapEnd(0), 2)


class Map:
    """The offset map, in place of its reader: each reading gets what is new."""

    def __init__(self) -> None:
        self.maps: dict[Copied, last_entries._Newest] = {}
        self.news: list[tuple[Copied, Entry | int]] = []
        self.made = self.closed = 0
        self.reads: Callable[[], object] = lambda: None
        self.fails: Exception | None = None

    def __call__(self, _: object, make: Callable[[], last_entries._Newest]) -> Map:
        self.made, self.make = self.made + 1, make
        return self

    def read(self, wanted: Iterable[object] | None = None, progressed: Callable[[], None] = lambda: None) -> None:
        assert wanted is None
        self.reads()
        progressed()
        if self.fails:
            raise self.fails
        for copied, what in self.news:
            kept = self.maps.setdefault(copied, self.make())
            if isinstance(what, Entry):
                kept.add(what)
            else:
                kept.remove(what)
        self.news.clear()

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def map_(monkeypatch: pytest.MonkeyPatch) -> Map:
    made = Map()
    monkeypatch.setattr(last_entries, "OffsetMapReader", made)
    return made


def nothing() -> None: ...


def test_the_last_one_counts(map_: Map) -> None:
    entries = LastEntries()
    assert entries.of(FLOW, HERE, nothing) is None
    map_.news = [(HERE, FIRST), (HERE, SECOND), (THERE, FIRST)]
    assert entries.of(FLOW, HERE, nothing) == LastEntry(19, 11, 18, 2)
    assert entries.of(FLOW, THERE, nothing) == LastEntry(10, 0, 10, 0)
    assert (map_.made, map_.closed) == (1, 3), "it is read on, and has no client between two readings"


def test_one_that_was_deleted_does_not_count(map_: Map) -> None:
    entries = LastEntries()
    map_.news = [(HERE, FIRST), (HERE, SECOND), (HERE, FIRST.downstream)]
    assert entries.of(FLOW, HERE, nothing) == LastEntry(19, 11, 18, 2)
    map_.news = [(HERE, SECOND.downstream)]
    assert entries.of(FLOW, HERE, nothing) is None


def test_after_a_failure_the_next_one_reads(map_: Map) -> None:
    entries = LastEntries()
    map_.fails = ClusterAway("backup", "gone")
    with pytest.raises(ClusterAway):
        entries.of(FLOW, HERE, nothing)
    map_.fails, map_.news = None, [(HERE, FIRST)]
    assert entries.of(FLOW, HERE, nothing) == LastEntry(10, 0, 10, 0)


def test_who_waits_for_another_shows_that_it_is_alive(map_: Map, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_entries, "WAIT", 0.001)
    reading, alive = threading.Event(), threading.Event()

    def slow() -> None:
        reading.set()
        assert alive.wait(30)

    entries = LastEntries()
    map_.reads = slow
    first = threading.Thread(target=entries.of, args=(FLOW, HERE, nothing))
    first.start()
    assert reading.wait(30)
    assert entries.of(FLOW, THERE, alive.set) is None
    first.join(30)
    assert map_.made == 1
