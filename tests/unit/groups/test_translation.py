"""The offset map: each offset whose record is on the target is translated exactly, and nothing is guessed."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import Malformed
from mirror.groups.map_cleaner import EntryKeys
from mirror.groups.translation import Count, End, PartitionMap, Unknown, counted_downstream, counted_upstream
from mirror.target import offset_map
from mirror.target.offset_map import Copied, Entry, MapMarks, entries

COPIED = Copied("orders", 3, "source-id", "remote-id")


@dataclass
class Target:
    """A remote partition as mirror writes it, and the map beside it."""

    every: int
    log: list[int | None] = field(default_factory=list)  # by downstream offset: the upstream one; None: no record
    stored: dict[bytes, bytes] = field(default_factory=dict)  # the map's topic after compaction
    marks: MapMarks = field(init=False)
    before: int = 0
    position: int = 0
    resets: int = 0
    end: int = 0

    def __post_init__(self) -> None:
        self.session()

    def session(self, position: int | None = None) -> None:
        """Another producer takes over; perhaps somebody has moved the position."""
        if position is not None:
            self.position, self.resets = position, self.resets + 1
        self.marks = MapMarks(self.every)

    def copy(self, offsets: list[int], commit: bool) -> None:
        """One transaction; after an abort the session ends."""
        first = len(self.log)
        self.log += offsets if commit else [None] * len(offsets)
        self.log.append(None)  # the transaction's marker
        if not commit:
            self.session()
            return
        due = self.marks.is_due(offsets, self.before)
        for entry in entries(offsets, first, len(self.log) - 2, self.before, self.resets) if due else ():
            self.stored[entry.key(COPIED)] = entry.value()
        self.before = 0 if due else self.before + len(offsets)
        self.marks.committed(offsets)
        self.position, self.end = offsets[-1] + 1, first + len(offsets)

    def map(self) -> tuple[PartitionMap, End]:
        """As one reads it."""
        read = PartitionMap()
        for key, value in self.stored.items():
            copied, entry = offset_map.decode(key, value)
            assert copied == COPIED
            read.add(entry)
        return read, End(self.position, self.before, self.resets)

    def found(self, count: Count) -> list[int]:
        """The records that are to be counted."""
        assert count.expected < self.every, "the count has a bound"
        end = len(self.log) if count.end is None else count.end
        return [at for at in range(count.begin, end) if self.log[at] is not None]


@st.composite
def targets(draw: st.DrawFn, *every: int) -> Target:
    """With an entry after so many records, or one of these numbers if none is given.

    A source with runs and gaps, copied in transactions, with aborts, restarts, and positions that go back."""
    target = Target(draw(st.sampled_from(every or (1, 7, 1000))))
    source: list[int] = []
    at = 0
    for _ in range(draw(st.integers(1, 8))):
        run = draw(st.integers(1, 12))
        source += range(at, at + run)
        at += run + draw(st.sampled_from([0, 1, 5]))
    begin = draw(st.integers(0, len(source) - 1))
    for _ in range(draw(st.integers(1, 12))):
        what = draw(st.sampled_from(["copy", "copy", "copy", "abort", "restart", "reset", "settle"]))
        if what == "restart":
            target.session()
        elif what == "reset":
            begin = draw(st.integers(0, begin))
            target.session(source[begin] if begin < len(source) else None)
        elif begin < len(source) and what in ("copy", "abort"):
            count = draw(st.integers(1, 12))
            target.copy(source[begin : begin + count], what == "copy")
            begin = min(len(source), begin + count) if what == "copy" else begin
        elif what == "settle" and 0 < begin < len(source):  # past the markers before the next record
            target.position = source[begin]
    return target


@given(targets())
def test_each_upstream_offset_is_exact(target: Target) -> None:
    read, end = target.map()
    newest: dict[int, int] = {up: down for down, up in enumerate(target.log) if up is not None}
    for upstream in range(max([*newest, target.position], default=0) + 3):
        found = read.to_downstream(upstream, end)
        if isinstance(found, Count):
            found = counted_downstream(found, upstream, target.found(found))
        if upstream in newest:
            assert found == newest[upstream]
        elif isinstance(found, int):
            later = [up for up in newest if up > upstream]
            assert found == target.end or target.log[found] == min(later), "the next record that was copied"
        else:
            assert found is Unknown.NOT_COPIED if upstream >= end.upstream else Unknown.BEFORE_THE_MAP


@given(targets())
def test_each_downstream_offset_is_exact(target: Target) -> None:
    read, end = target.map()
    for downstream in range(len(target.log) + 2):
        found = read.to_upstream(downstream, end)
        if isinstance(found, Count):
            found = counted_upstream(found, downstream, target.found(found))
        if downstream < len(target.log) and target.log[downstream] is not None:
            assert found == target.log[downstream]
        else:
            later = next((up for up in target.log[downstream:] if up is not None), end.upstream)
            assert found in (later, Unknown.BEFORE_THE_MAP)


@given(targets())
def test_a_position_that_is_older_than_the_map_makes_nothing_wrong(target: Target) -> None:
    """Positions and map are read one after the other, and copying goes on."""
    _, end = target.map()
    target.copy(list(range(target.position, target.position + 5)), True)
    target.copy(list(range(target.position, target.position + 3)), True)
    read, _ = target.map()
    newest = {up: down for down, up in enumerate(target.log) if up is not None}
    for upstream, down in newest.items():
        found = read.to_downstream(upstream, end)
        if isinstance(found, Count):
            records = target.found(found)
            found = counted_downstream(found, upstream, records if found.end else records[: found.expected])
        if isinstance(found, int):
            # A reader from there reads the record, and none that is before it; after a reset perhaps an older copy.
            assert found <= down
            assert target.resets or not any(up is not None for up in target.log[found:down])
        else:
            assert found is Unknown.NOT_COPIED and upstream >= end.upstream


@given(targets(1))
def test_where_each_transaction_has_an_entry_nothing_is_counted(target: Target) -> None:
    """So the remote topic may be compacted."""
    read, end = target.map()
    for offset in range(max(target.position, len(target.log)) + 2):
        for found in (read.to_downstream(offset, end), read.to_upstream(offset, end)):
            assert not isinstance(found, Count) or found.expected == 0


@given(targets(1000), st.data())
def test_foreign_and_missing_records_are_never_counted_as_ours(target: Target, data: st.DataObject) -> None:
    read, end = target.map()
    counts = [found for up in range(target.position) if isinstance(found := read.to_downstream(up, end), Count)]
    for count in counts:
        ours = target.found(count)
        other = ours[1:] if data.draw(st.booleans()) else [*ours, 10**9]
        assert counted_downstream(count, count.upstream, other) is Unknown.NOT_EXACT
        assert counted_upstream(count, count.begin, other) is Unknown.NOT_EXACT


@given(targets(), st.integers(0, 80))
def test_entries_before_the_logs_start_are_not_needed(target: Target, start: int) -> None:
    read, end = target.map()
    keys = EntryKeys()
    for key, value in target.stored.items():
        keys.add(offset_map.decode(key, value)[1])
    obsolete, count = keys.before(start), len(keys.all())
    for downstream in obsolete:
        read.remove(downstream)
        keys.remove(downstream)
    assert not keys.before(start) and len(keys.all()) == len(read) == count - len(obsolete)
    newest = {up: down for down, up in enumerate(target.log) if up is not None and down >= start}
    for upstream, down in newest.items():
        found = read.to_downstream(upstream, end)
        if isinstance(found, Count):
            found = counted_downstream(found, upstream, target.found(found))
        assert found == down


@given(
    st.builds(
        Entry,
        st.integers(0, 2**40),
        st.integers(0, 2**63 - 1),
        st.lists(st.integers(1, 2**20), min_size=1, max_size=9)
        .map(lambda runs: tuple(runs[: len(runs) // 2 * 2 + 1]))
        .filter(lambda runs: len(runs) % 2 == 1),
        st.integers(-1, 2**20),
        st.integers(0, 9),
    ),
    st.builds(Copied, st.text(max_size=60), st.integers(0, 2**31 - 1), st.text(max_size=22), st.text(max_size=22)),
)
def test_what_is_written_can_be_read(entry: Entry, copied: Copied) -> None:
    assert offset_map.decode(entry.key(copied), entry.value()) == (copied, entry)
    assert offset_map.decode_key(entry.key(copied)) == (copied, entry.downstream)


@given(st.binary(max_size=80), st.binary(max_size=40))
def test_other_bytes_are_refused(key: bytes, value: bytes) -> None:
    good = Entry(5, 6, (7,))
    for pair in ((key, good.value()), (good.key(COPIED), value), (b"\x01" + key, b"\x01" + value)):
        try:
            offset_map.decode(*pair)
        except Malformed:
            continue


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x02\x00\x00\x00\x02",  # another version
        b"\x01\x00\x00\x00",  # no runs
        b"\x01\x00\x00\x00\x00",  # a run of nothing
        b"\x01\x01\x00\x00\x02",  # negative
        b"\x01\x00\x01\x00\x02",
        b"\x01\x00\x00\x03\x02",
        b"\x01\x00\x00\x00\x02\x02",  # a gap with nothing after it
    ],
)
def test_a_value_that_is_none(value: bytes) -> None:
    with pytest.raises(Malformed):
        offset_map.decode(Entry(0, 0, (1,)).key(COPIED), value)


def test_many_gaps_are_several_entries() -> None:
    count = 2 * offset_map.RUNS_MAX + 1
    made = entries(range(0, 2 * count, 2), 10, 9 + count, 4, 0)
    assert [entry.before for entry in made] == [4, 0, 0]
    assert sum(entry.records for entry in made) == count
    assert all(len(entry.value()) < offset_map.VALUE_MAX for entry in made)
    read = PartitionMap()
    for entry in made:
        read.add(entry)
    end = End(2 * count, 0, 0)
    for n in range(1, count, 997):
        assert read.to_downstream(2 * n, end) == read.to_downstream(2 * n - 1, end) == 10 + n


def test_a_source_without_gaps_has_few_entries() -> None:
    marks, made, size, before = MapMarks(), 0, 0, 0
    for begin in range(0, 1_000_000, 100):
        batch = range(begin, begin + 100)
        due = marks.is_due(batch, before)
        for entry in entries(batch, begin + begin // 100, begin + begin // 100 + 99, before, 0) if due else ():
            made += 1
            size += len(entry.key(COPIED)) + len(entry.value())
        before = 0 if due else before + 100
        marks.committed(batch)
    assert made <= 1_000_000 / offset_map.EVERY + 1
    assert size + 200 * made < 0.01 * 100 * 1_000_000, "with batch header and marker, for records of 100 bytes"


def test_where_somebody_else_writes_nothing_is_exact() -> None:
    (entry,) = entries([5, 6, 7], 20, 23, 0, 0)
    read = PartitionMap()
    read.add(entry)
    assert read.to_downstream(5, End(8, 0, 0)) == 20
    count = read.to_downstream(6, End(8, 0, 0))
    assert isinstance(count, Count) and counted_downstream(count, 6, [21, 22, 23]) is Unknown.NOT_EXACT
