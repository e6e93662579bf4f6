"""The position that is found in two logs, whatever MirrorMaker has recorded, copied twice or left out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.commands.adopt import comparison
from mirror.commands.adopt.comparison import Comparer, Logs
from mirror.commands.adopt.selection import Candidate
from mirror.commands.adopt.tail import Found
from mirror.commands.verify.digests import RecordDigest, Stretch
from mirror.model import Partition
from mirror.records.undecided import Undecided
from mirror.target.connect_offsets import Sync

HERE, THERE = Partition("orders", 0), Partition("primary.orders", 0)


@dataclass(frozen=True)
class Log:
    """Two logs in memory: the records' offsets and contents by cluster."""

    records: dict[str, list[tuple[int, int]]]

    def entries(self, stretch: Stretch) -> list[RecordDigest]:
        """What Digester gives."""
        assert stretch.start < stretch.end == stretch.limit
        return [
            RecordDigest(offset, b"%d" % content, 0)
            for offset, content in self.records[stretch.cluster]
            if stretch.start <= offset < stretch.end
        ]


@dataclass(frozen=True)
class World:
    """A source partition, its copy, and what MirrorMaker says. Indexes count the records that it reads."""

    offsets: list[int]  # of all records on the source
    aborted: set[int]  # indexes of those that read_committed consumers do not see
    copied: int  # how many records were copied
    recorded: int  # of these, how many MirrorMaker has recorded; -1: it has recorded no position
    uncommitted: bool  # MirrorMaker reads what is aborted
    markers: list[int]  # gaps on the target before each record
    source_start: int
    remote_start: int
    synced: int  # the index of the record with the newest offset sync; -1: there is none

    @property
    def read(self) -> list[int]:
        """The indexes of the records that MirrorMaker reads."""
        return [n for n in range(len(self.offsets)) if self.uncommitted or n not in self.aborted]

    @property
    def downstream(self) -> list[int]:
        """The offsets of the copies."""
        return [n + sum(self.markers[: n + 1]) for n in range(self.copied)]

    @property
    def copies(self) -> list[tuple[int, int]]:
        """What is on the target: offsets and contents."""
        return [(offset, self.read[n]) for n, offset in enumerate(self.downstream)]

    def position(self, count: int) -> int:
        """The position after so many records."""
        return self.offsets[self.read[count - 1]] + 1 if count else 0

    def find(self, exact: bool = False, most: int = 4) -> Found | Undecided:
        """What is found."""
        every = list(enumerate(self.offsets))
        source = [(offset, n) for n, offset in every if offset >= self.source_start]
        remote = [(offset, n) for offset, n in self.copies if offset >= self.remote_start]
        end = (self.offsets[-1] + 2) if self.offsets else 0
        remote_end = self.downstream[-1] + 2 if self.copied else 1
        sync = Sync(self.offsets[self.read[self.synced]], self.downstream[self.synced]) if self.synced >= 0 else None
        assert self.recorded >= 0 or sync is not None
        recorded = self.position(self.recorded) if self.recorded >= 0 or sync is None else sync.upstream + 1
        committed = Log({"here": [(o, n) for o, n in source if n not in self.aborted], "there": remote})
        comparer = Comparer("here", "there", most, committed, Log({"here": source, "there": remote}))
        logs = Logs(self.source_start, end, end, min(self.remote_start, remote_end), remote_end)
        return comparer.find_position(Candidate(HERE, THERE, recorded, sync, exact), logs)


@st.composite
def worlds(draw: st.DrawFn, exact: bool = False) -> World:
    gaps = draw(st.lists(st.integers(1, 3), min_size=1, max_size=40))
    offsets = [sum(gaps[: n + 1]) - 1 for n in range(len(gaps))]
    aborted = draw(st.sets(st.integers(0, len(offsets) - 1), max_size=10))
    uncommitted = not exact and draw(st.booleans())
    readable = len(offsets) if uncommitted else len(offsets) - len(aborted)
    copied = draw(st.integers(0, readable))
    synced = draw(st.integers(-1, copied - 1))
    recorded = copied if exact else draw(st.integers(0 if synced < 0 else -1, copied))
    markers = draw(st.lists(st.integers(0, 2), min_size=40, max_size=40)) if exact else [0] * 40
    starts = draw(st.integers(0, 20)), draw(st.integers(0, 20))
    return World(offsets, aborted, copied, recorded, uncommitted, markers, *starts, synced)


@given(worlds(), st.integers(1, 5))
def test_the_next_record_is_the_one_after_the_last_copied_one(world: World, most: int) -> None:
    found = world.find(most=most)
    remains = world.copied and world.downstream[-1] >= world.remote_start
    if remains and world.offsets[world.read[world.copied - 1]] >= world.source_start:
        assert isinstance(found, Found) and found.position == world.position(world.copied)
        assert 0 < found.compared <= most
    elif isinstance(found, Found):
        assert found.compared == 0


@given(worlds(exact=True))
def test_an_exact_position_is_kept(world: World) -> None:
    found = world.find(exact=True)
    assert isinstance(found, Found) and found.position == world.position(world.copied)


@given(worlds(), st.integers(0, 40))
def test_a_copy_that_misses_a_record_is_refused(world: World, missing: int) -> None:
    """The last records are compared, so it must be one of these."""
    all_there = replace(world, source_start=0, remote_start=0, aborted=set())
    if 0 < missing < all_there.copied - 1:  # what comes before the copy's first record may never have been wanted
        damaged = Damaged(**{name: getattr(all_there, name) for name in World.__dataclass_fields__}, missing=missing)
        assert isinstance(damaged.find(most=40), Undecided)


@dataclass(frozen=True)
class Damaged(World):
    """One in which a record was not copied."""

    missing: int = 0

    @property
    def copies(self) -> list[tuple[int, int]]:
        found = super().copies
        return found[: self.missing] + found[self.missing + 1 :]


class Counting(Log):
    """Counts the offsets that are read on the source."""

    def entries(self, stretch: Stretch) -> list[RecordDigest]:
        if stretch.cluster == "here":
            self.records["read"] += [(n, 0) for n in range(stretch.start, stretch.end)]
        return super().entries(stretch)


def test_reading_stops_where_the_copy_can_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most as many records were copied after the newest offset sync as the target has after it."""
    monkeypatch.setattr(comparison, "SPAN", 2)
    log = Counting({"here": [(n, n) for n in range(1_000)], "there": [(n, n) for n in range(20)], "read": []})
    comparer = Comparer("here", "there", 5, log, log)
    logs = Logs(0, 1_000, 1_000, 0, 20)
    assert comparer.find_position(Candidate(HERE, THERE, 15, None, False), logs) == Found(20, 5)
    assert max(log.records["read"])[0] < 40, "there are 20 records on the target"
    log.records["read"].clear()
    assert comparer.find_position(Candidate(HERE, THERE, 15, Sync(12, 12), False), logs) == Found(20, 5)
    assert max(log.records["read"])[0] < 25, "there are 7 after the sync"
    log.records["read"].clear()
    assert comparer.find_position(Candidate(HERE, THERE, 15, Sync(18, 18), False), logs) == Found(20, 5)
    assert max(log.records["read"])[0] < 23


def test_what_was_copied_and_is_no_longer_on_the_target_counts() -> None:
    """Twenty records were copied, none was recorded, and the target has only the last two."""
    log = Log({"here": [(n, n) for n in range(30)], "there": [(18, 18), (19, 19)]})
    comparer = Comparer("here", "there", 5, log, log)
    assert comparer.find_position(Candidate(HERE, THERE, 0, None, False), Logs(0, 30, 30, 18, 20)) == Found(20, 2)


def test_a_copy_that_is_longer_than_the_source_ever_was() -> None:
    """Its first records are somebody else's, unless the source has removed some."""
    log = Log({"here": [(3, 3), (4, 4)], "there": [(n, n) for n in range(5)]})
    comparer, candidate = Comparer("here", "there", 5, log, log), Candidate(HERE, THERE, 5, None, True)
    assert isinstance(comparer.find_position(candidate, Logs(0, 5, 5, 0, 5)), Undecided)
    assert comparer.find_position(candidate, Logs(3, 5, 5, 0, 5)) == Found(5, 2)


def test_a_position_after_the_sources_end_is_refused() -> None:
    comparer = Comparer("here", "there", 5, Log({}), Log({}))
    found = comparer.find_position(Candidate(HERE, THERE, 31, None, True), Logs(0, 30, 30, 0, 20))
    assert isinstance(found, Undecided) and "ends at 30" in found.reason


def test_a_position_within_an_open_transaction_of_the_source() -> None:
    """MirrorMaker without exactly-once has copied what is not committed yet."""
    records = {"here": [(n, n) for n in range(30)], "there": [(n, n) for n in range(20)]}
    committed = Log({**records, "here": records["here"][:10]})
    comparer = Comparer("here", "there", 5, committed, Log(records))
    logs = Logs(0, 10, 30, 0, 20)
    assert comparer.find_position(Candidate(HERE, THERE, 20, None, False), logs) == Found(20, 5)
    assert comparer.find_position(Candidate(HERE, THERE, 8, None, False), logs) == Found(20, 5)
