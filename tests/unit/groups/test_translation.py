"""The offset map: each offset whose record is on the target is translated exactly, and nothing is guessed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import Malformed
from mirror.groups.map_cleaner import EntryKeys
from mirror.groups.partition_map import PartitionMap
from mirror.groups.translation import (
    Count,
    End,
    Unknown,
    counted_downstream,
    counted_upstream,
    to_downstream,
    to_upstream,
)
from mirror.model import MapEnd
from mirror.target import offset_map
from mirror.target.offset_map import Copied, Entry, EntryChooser, end_after, entries, entries_in_pieces

COPIED = Copied("orders", 3, "source-id", "remote-id")
TOPICS = st.from_regex(r"[a-zA-Z0-9_-]{1,60}", fullmatch=True)
OTHERS = -1  # in the log: a record that somebody else has written


@dataclass
class Target:
    """A remote partition as mirror writes it, and the map beside it."""

    every: int
    copied: Copied = COPIED
    log: list[int | None] = field(default_factory=list)  # by downstream offset: the upstream one; None: no record
    stored: dict[bytes, bytes] = field(default_factory=dict)  # the map's topic after compaction
    chooser: EntryChooser = field(init=False)
    map_end: MapEnd | None = MapEnd()  # noqa: RUF009  # frozen
    position: int = 0
    resets: int = 0
    end: int = 0
    tells: str = "before"  # positions say where the records "before" their own ones end, or where "all" do, or nothing

    def __post_init__(self) -> None:
        self.session()

    def session(self, position: int | None = None) -> None:
        """Another producer takes over; perhaps somebody has moved the position."""
        if position is not None:
            self.position, self.resets = position, self.resets + 1
        self.chooser = EntryChooser(self.every)

    def recreate(self, source: bool) -> None:
        """The source topic, or the remote one, is deleted and created again; copying begins anew."""
        if source:
            self.copied = replace(self.copied, topic_id=f"{self.copied.topic_id}+")
            self.log = [None if up is None else OTHERS for up in self.log]
        else:
            self.copied, self.log = replace(self.copied, remote_id=f"{self.copied.remote_id}+"), []
        self.map_end, self.end = MapEnd(), 0
        self.session(0)

    def cut(self, end: int) -> None:
        """An unclean election: the log loses what is at `end` and after it. The map and the position are elsewhere."""
        del self.log[end:]
        if self.log and self.log[-1] is not None:  # a transaction is open now, and the next session ends it
            while self.log and self.log[-1] is not None:
                self.log.pop()
            self.log += [None] * (end + 1 - len(self.log))
        self.session()

    def copy(self, offsets: list[int], commit: bool, foreign: int = 0) -> None:
        """One transaction; after an abort the session ends. So many records of others come after its first one."""
        first = len(self.log)
        self.log += [*offsets[:1], *[OTHERS] * foreign, *offsets[1:]] if commit else [None] * len(offsets)
        self.log.append(None)  # the transaction's marker
        if not commit:
            self.session()
            return
        if self.chooser.is_due(offsets, self.map_end):
            made = entries(offsets, first, first + len(offsets) + foreign - 1, self.map_end, self.resets)
            for entry in made:  # what has the same key is compacted away; the new record is at the topic's end
                self.stored.pop(entry.key(self.copied), None)
                self.stored[entry.key(self.copied)] = entry.value()
            self.map_end = end_after(made, len(offsets))
        elif self.map_end is not None:
            before = self.map_end.records
            records, end = before + len(offsets), first + len(offsets) + foreign
            placed = (records, end) if self.tells == "all" else (before, self.end) if before and self.tells else (0, -1)
            self.map_end = MapEnd(self.map_end.entry, records, *placed)
        self.chooser.committed(offsets, bool(foreign))
        self.position, self.end = offsets[-1] + 1, first + len(offsets) + foreign

    def map(self) -> tuple[PartitionMap, End]:
        """What a reader of the offset map makes of it, and the end of the copy."""
        read = PartitionMap()
        for key, value in self.stored.items():
            copied, downstream = offset_map.decode_key(key)
            if copied == self.copied:
                read.add(offset_map.decode_value(downstream, value))
        return read, End(self.position, self.map_end)

    def found(self, count: Count, start: int = 0) -> list[int]:
        """The records that are to be counted, if the log begins at `start`."""
        assert 0 < count.expected < self.every, "the count has a bound"
        end = len(self.log) if count.end is None else count.end
        return [at for at in range(max(start, count.begin), end) if self.log[at] is not None]


@st.composite
def targets(draw: st.DrawFn, *every: int) -> Target:
    """A target that has an entry after each of `every` records; the number is drawn if none is given.

    A source with runs and gaps, copied in transactions, with aborts, restarts, and positions that go back."""
    target = Target(draw(st.sampled_from(every or (1, 7, 1000))), tells=draw(st.sampled_from(["", "before", "all"])))
    play(draw, target)
    return target


def sources(draw: st.DrawFn) -> list[int]:
    """The upstream offsets of a source: runs of records, with gaps of different lengths between them."""
    source: list[int] = []
    at = 0
    for _ in range(draw(st.integers(1, 8))):
        run = draw(st.integers(1, 12))
        source += range(at, at + run)
        at += run + draw(st.sampled_from([0, 1, 5]))
    return source


def steps(draw: st.DrawFn, target: Target, source: list[int], begin: int) -> Iterator[bool]:
    """Copy the source into the target, from its record `begin` on. After each step: True if it has copied records."""
    for _ in range(draw(st.integers(1, 12))):
        what = draw(st.sampled_from(["copy", "copy", "copy", "abort", "restart", "reset", "settle"]))
        copied = what == "copy" and begin < len(source)
        if what == "restart":
            target.session()
        elif what == "reset":
            begin = draw(st.integers(0, begin))
            target.session(source[begin] if begin < len(source) else target.position)
        elif begin < len(source) and what in ("copy", "abort"):
            count = draw(st.integers(1, 12))
            target.copy(source[begin : begin + count], copied)
            begin = min(len(source), begin + count) if copied else begin
        elif what == "settle" and 0 < begin < len(source):  # past the markers before the next record
            target.position = source[begin]
        yield copied


def play(draw: st.DrawFn, target: Target) -> None:
    """Copy a source of any form into the target, from any of its records on."""
    source = sources(draw)
    for _ in steps(draw, target, source, draw(st.integers(0, len(source) - 1))):
        pass


@st.composite
def remade(draw: st.DrawFn, *every: int) -> Target:
    """The same, after which one of the topics was deleted and created again, and copied anew; perhaps several times."""
    target = draw(targets(*every))
    for source in draw(st.lists(st.booleans(), min_size=1, max_size=3)):
        target.recreate(source)
        play(draw, target)
    return target


@given(remade())
def test_after_a_topic_was_made_again_the_new_ones_offsets_are_exact(target: Target) -> None:
    """Records of the old topic are not taken for records of the new one."""
    read, end = target.map()
    assert checked(target, read, end) == len({up for up in target.log if up is not None and up != OTHERS})
    for at in [at for at, up in enumerate(target.log) if up == OTHERS]:
        assert to_upstream(read, at, end) is Unknown.BEFORE_THE_MAP


@given(targets(), st.data())
def test_after_the_remote_log_was_cut_no_lost_record_is_translated_to_a_new_one(
    target: Target, data: st.DataObject
) -> None:
    """Whatever still tells where the lost records were. The records of the new part of the log are translated."""
    for _ in range(data.draw(st.integers(1, 3))):
        target.cut(data.draw(st.integers(0, len(target.log))))
        # After a reset, the source has what it had before.
        begin, grown = target.position + (0 if target.resets else data.draw(st.integers(0, 3))), len(target.log)
        for _ in range(data.draw(st.integers(1, 4))):
            count = data.draw(st.integers(1, 30))
            target.copy(list(range(begin, begin + count)), True)
            begin += count
    read, end = target.map()
    check_after_cut(target, read, end, grown)
    keys = EntryKeys()
    for key, value in target.stored.items():
        keys.add(offset_map.decode_value(offset_map.decode_key(key)[1], value))
    assert sorted(keys.all()) == sorted(offset_map.decode_key(key)[1] for key in target.stored)


def check_after_cut(target: Target, read: PartitionMap, end: End, grown: int) -> None:
    """What has come at `grown` or after it is translated, and nothing of the rest wrongly."""
    newest = {up: down for down, up in enumerate(target.log) if up is not None}
    for upstream in range(target.position):
        found = to_downstream(read, upstream, end)
        if isinstance(found, Count):
            found = counted_downstream(found, upstream, target.found(found))
        if upstream in newest and newest[upstream] >= grown:
            assert found == newest[upstream], "the part of the log after the last cut has all of its entries"
        elif isinstance(found, int) and not target.resets:  # otherwise there may be an older copy, too
            assert upstream not in newest or found == newest[upstream]
            assert not any(up is not None and up >= upstream for up in target.log[:found]), "nothing is passed over"
    for down, up in enumerate(target.log):
        found = to_upstream(read, down, end)
        if isinstance(found, Count):
            found = counted_upstream(found, down, target.found(found))
        if up is not None:
            assert found == up if down >= grown else found == up or isinstance(found, Unknown)


@given(st.one_of(targets(1), remade(1)), st.data())
def test_after_the_remote_topic_was_compacted_what_is_left_is_exact(target: Target, data: st.DataObject) -> None:
    read, end = target.map()
    newest = {up: down for down, up in enumerate(target.log) if up is not None and up != OTHERS}
    for at in range(len(target.log)):
        if data.draw(st.booleans()):
            target.log[at] = None
    for upstream, down in newest.items():
        assert to_downstream(read, upstream, end) == down, "a reader from there reads the record, or the next one"
        if target.log[down] is not None:
            assert to_upstream(read, down, end) == upstream


@given(targets())
def test_each_upstream_offset_is_exact(target: Target) -> None:
    read, end = target.map()
    newest: dict[int, int] = {up: down for down, up in enumerate(target.log) if up is not None}
    for upstream in range(max([*newest, target.position], default=0) + 3):
        found = to_downstream(read, upstream, end)
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
        found = to_upstream(read, downstream, end)
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
        found = to_downstream(read, upstream, end)
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
    """Counting needs every record, so without it the remote topic may be compacted."""
    read, end = target.map()
    for offset in range(max(target.position, len(target.log)) + 2):
        for found in (to_downstream(read, offset, end), to_upstream(read, offset, end)):
            assert not isinstance(found, Count)


@given(targets(1000), st.data())
def test_foreign_and_missing_records_are_never_counted_as_ours(target: Target, data: st.DataObject) -> None:
    read, end = target.map()
    counts = [found for up in range(target.position) if isinstance(found := to_downstream(read, up, end), Count)]
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
        keys.add(offset_map.decode_value(offset_map.decode_key(key)[1], value))
    obsolete, count = keys.before(start), len(keys.all())
    for downstream in obsolete:
        read.remove(downstream)
        keys.remove(downstream)
    assert not keys.before(start) and len(keys.all()) == len(read) == count - len(obsolete)
    newest = {up: down for down, up in enumerate(target.log) if up is not None and down >= start}
    for upstream, down in newest.items():
        found = to_downstream(read, upstream, end)
        if isinstance(found, Count):
            found = counted_downstream(found, upstream, target.found(found))
        assert found == down


@given(
    st.builds(
        Entry,
        st.integers(0, 2**40),
        st.integers(0, 2**61),
        st.lists(st.integers(1, 2**20), min_size=1, max_size=9)
        .map(lambda runs: tuple(runs[: len(runs) // 2 * 2 + 1]))
        .filter(lambda runs: len(runs) % 2 == 1),
        st.none(),
        st.integers(0, 9),
    ),
    st.one_of(st.none(), st.just(MapEnd()), st.builds(MapEnd, st.integers(0, 2**40), st.integers(0, 2**20))),
    st.builds(
        Copied,
        st.from_regex(r"[a-zA-Z0-9_-]{1,60}", fullmatch=True),
        st.integers(0, 2**31 - 1),
        st.text(max_size=22),
        st.text(max_size=22),
    ),
)
def test_what_is_written_can_be_read(entry: Entry, follows: MapEnd | None, copied: Copied) -> None:
    if follows is not None:
        entry = replace(entry, follows=follows, downstream=max(entry.downstream, follows.entry + 1))
    assert offset_map.decode_value(entry.downstream, entry.value()) == entry
    assert offset_map.decode_key(entry.key(copied)) == (copied, entry.downstream)


@given(st.binary(max_size=80), st.binary(max_size=40))
def test_other_bytes_are_refused(key: bytes, value: bytes) -> None:
    good = Entry(5, 6, (7,))
    assert offset_map.decode_value(6, good.value()) == good
    for some in (key, b"\x01" + key):
        with suppress(Malformed):
            offset_map.decode_key(some)
    for some in (value, b"\x01" + value):
        with suppress(Malformed):
            offset_map.decode_value(6, some)


@pytest.mark.parametrize("topic", ["", "..", "a b", "x" * 250])
def test_a_key_whose_topic_is_none_is_refused_as_the_reader_expects_it(topic: str) -> None:
    with pytest.raises(Malformed):
        offset_map.decode_key(offset_map.key(replace(COPIED, topic=topic), 6))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x02\x00\x00\x00\x00\x02",  # another version
        b"\x01\x00\x00\x00\x00",  # no runs
        b"\x01\x00\x00\x00\x00\x00",  # a run of nothing
        b"\x01\x01\x00\x00\x00\x02",  # negative
        b"\x01\x00\x01\x00\x00\x02",
        b"\x01\x00\x00\x03\x00\x02",
        b"\x01\x00\x00\x00\x01\x02",
        b"\x01\x00\x00\x0e\x00\x02",  # follows an entry before the log
        b"\x01\x00\x00\x00\x00\x02\x02",  # a gap with nothing after it
        b"\x01\x00\x00\x00\x00" + b"\x02" * (2 * offset_map.RUNS_MAX + 1),
    ],
)
def test_a_value_that_is_none(value: bytes) -> None:
    with pytest.raises(Malformed):
        offset_map.decode_value(6, value)


@pytest.mark.parametrize(
    "entry",
    [
        Entry(0, 6, (1,), None, 2**62),
        Entry(2**62 - 5, 6, (10,)),
        Entry(0, 2**62 - 5, (10,)),
        Entry(0, 6, (2**61, 2**61, 1)),
        Entry(0, 6, (1,), MapEnd(5, 2**62)),
    ],
    ids=["resets", "upstream", "downstream", "runs", "before"],
)
def test_numbers_that_nobody_could_compute_with_are_refused(entry: Entry) -> None:
    """Whoever may write to the map must not be able to stop all that translate."""
    with pytest.raises(Malformed, match="out of bounds"):
        offset_map.decode_value(entry.downstream, entry.value())


def test_many_gaps_are_several_entries() -> None:
    count = 2 * offset_map.RUNS_MAX + 1
    made = entries(range(0, 2 * count, 2), 10, 9 + count, MapEnd(3, 4), 0)
    assert [entry.counted_before for entry in made] == [4, 0, 0]
    assert made[1].is_next_to(made[0]) and made[2].is_next_to(made[1])
    assert sum(entry.records for entry in made) == count
    assert all(len(entry.value()) < offset_map.VALUE_MAX for entry in made)
    read = PartitionMap()
    for entry in made:
        read.add(entry)
    end = End(2 * count, end_after(made, count))
    for n in range(1, count, 997):
        assert to_downstream(read, 2 * n, end) == to_downstream(read, 2 * n - 1, end) == 10 + n


def test_a_source_without_gaps_has_few_entries() -> None:
    chooser, count, size = EntryChooser(), 0, 0
    end: MapEnd | None = MapEnd()
    for begin in range(0, 1_000_000, 100):
        batch = range(begin, begin + 100)
        assert end is not None
        if chooser.is_due(batch, end):
            (entry,) = entries(batch, begin + begin // 100, begin + begin // 100 + 99, end, 0)
            count += 1
            size += len(entry.key(COPIED)) + len(entry.value())
            end = end_after([entry], 100)
        else:
            end = replace(end, records=end.records + 100)
        chooser.committed(batch)
    assert count <= 1_000_000 / offset_map.EVERY + 1
    assert size + 200 * count < 0.01 * 100 * 1_000_000, "with batch header and marker, for records of 100 bytes"


def checked(target: Target, read: PartitionMap, end: End, start: int = 0) -> int:
    """Translate each upstream offset. What is found has to be right; returns how many records are found."""
    right = 0
    newest = {up: down for down, up in enumerate(target.log) if up is not None and up != OTHERS}
    for upstream, down in newest.items():
        found = to_downstream(read, upstream, end)
        if isinstance(found, Count):
            found = counted_downstream(found, upstream, target.found(found, start), start)
        # After a reset, an older copy of the record may be what is known, or that it is going to be copied again.
        is_next = upstream == end.upstream and found == target.end
        right_one = isinstance(found, Unknown) or found < start or is_next or target.log[found] == upstream
        assert right_one, (upstream, found, down)
        right += found == down
        back = to_upstream(read, down, end)
        if isinstance(back, Count):
            back = counted_upstream(back, down, target.found(back, start), start)
        assert back == upstream or isinstance(back, Unknown) or down < start, (down, back, upstream)
    return right


def test_where_somebody_else_writes_into_a_transaction_nothing_is_guessed() -> None:
    """Its entry has the first record alone, and it is not known where the others are."""
    target = Target(1000)
    target.copy([5, 6, 7], True, foreign=1)
    read, end = target.map()
    assert checked(target, read, end) == 1
    assert to_downstream(read, 8, end) is Unknown.INCOMPLETE, "nor where the copy ends"
    target.copy([10, 11], True)
    read, end = target.map()
    assert checked(target, read, end) == 3
    assert to_downstream(read, 6, end) is Unknown.INCOMPLETE and to_upstream(read, 1, end) is Unknown.INCOMPLETE


@given(targets(), st.data())
def test_a_map_that_lacks_entries_makes_nothing_wrong(target: Target, data: st.DataObject) -> None:
    """Another partition's open transaction may hide its end, and somebody may have deleted records of the topic."""
    read, end = target.map()
    for key in list(target.stored):
        if data.draw(st.booleans()):
            read.remove(offset_map.decode_key(key)[1])
    checked(target, read, end)


@given(targets(7), st.data())
def test_a_map_whose_end_is_hidden_says_so(target: Target, data: st.DataObject) -> None:
    read, end = target.map()
    lasts = sorted(offset_map.decode_key(key)[1] for key in target.stored)
    for downstream in lasts[data.draw(st.integers(1, max(1, len(lasts)))) :]:
        read.remove(downstream)
    if len(read) < len(lasts):
        checked(target, read, end)
        if not target.resets:  # otherwise an older copy may be known
            assert to_downstream(read, end.upstream, end) is Unknown.HIDDEN


@given(targets(1000), st.integers(0, 80))
def test_where_retention_has_removed_records_that_have_to_be_counted_nothing_is_guessed(
    target: Target, start: int
) -> None:
    """From the next entry on everything is exact again."""
    read, end = target.map()
    checked(target, read, end, start)
    first = next((read[n].downstream for n in range(len(read)) if read[n].downstream >= start), len(target.log))
    newest = {up: down for down, up in enumerate(target.log) if up is not None}
    for at, up in enumerate(target.log):
        if at >= start and up is not None and newest[up] == at:
            found = to_downstream(read, up, end)
            if isinstance(found, Count):
                found = counted_downstream(found, up, target.found(found, start), start)
            assert found == at or (found is Unknown.CUT and at < first)


@pytest.mark.parametrize("start", range(24))
def test_a_record_of_somebody_else_in_a_log_that_was_cut_shifts_nothing(start: int) -> None:
    target = Target(1000)
    target.copy([0], True)
    for offset in range(1, 9):
        target.copy([offset], True)
    target.log.append(OTHERS)
    target.session()
    target.copy([9], True)
    read, end = target.map()
    assert len(read) == 2, "what lies between has to be counted"
    checked(target, read, end, start)


def stranger_in(*parts: list[int]) -> Target:
    """Transactions without gaps between them; before the last one somebody else has written."""
    target = Target(1000)
    for part in parts[:-1]:
        target.copy(part, True)
    target.log.append(OTHERS)
    target.copy(parts[-1], True)
    return target


def test_a_record_of_somebody_else_is_counted_among_the_last_transaction_only() -> None:
    """The position says where the records before it end. So these are known, whoever has written after them."""
    target = stranger_in([0, 1], [2, 3], [4, 5])
    read, end = target.map()
    assert end.map_end == MapEnd(0, 4, 2, 5) and checked(target, read, end) == 4
    for found in (to_downstream(read, 4, end), to_upstream(read, 8, end)):
        assert found == Count(5, None, 2, 4, 6)


def test_once_more_is_copied_the_next_position_says_that_somebody_else_has_written() -> None:
    target = stranger_in([0, 1], [2, 3], [4, 5])
    target.copy([6, 7], True)
    read, end = target.map()
    assert end.map_end == MapEnd(0, 6, 4, 9)
    assert checked(target, read, end) == 4, "the first two have an entry, and the last two are after the stranger's"
    assert to_downstream(read, 4, end) == Count(2, 9, 4, 2, 6)


def test_after_records_of_others_each_transaction_has_an_entry() -> None:
    chooser, end = EntryChooser(1000), MapEnd()
    chooser.committed([1, 2])
    assert not chooser.is_due([3, 4], end)
    chooser.committed([3, 4], interrupted=True)
    assert chooser.is_due([5, 6], end)
    chooser.committed([5, 6])
    assert not chooser.is_due([7], end)


STEPS = st.tuples(st.integers(1, 3), st.integers(1, 3))  # to the next upstream offset, and to the next downstream one


@given(st.lists(st.lists(STEPS, min_size=1, max_size=8), min_size=1, max_size=6))
def test_where_others_write_between_the_records_each_is_translated_exactly_and_none_is_counted(
    transactions: list[list[tuple[int, int]]],
) -> None:
    chooser, end, read = EntryChooser(1), MapEnd(), PartitionMap()
    places: dict[int, int] = {}  # by upstream offset
    up = down = 0
    for steps in transactions:
        offsets, placed = [], []
        for upstream, downstream in steps:
            up, down = up + upstream, down + downstream
            offsets.append(up)
            placed.append(down)
        assert chooser.is_due(offsets, end)
        made = entries_in_pieces(offsets, dict(enumerate(placed)), end, 0)
        for entry in made:
            read.add(offset_map.decode_value(entry.downstream, entry.value()))
        last = end_after(made, len(offsets))
        assert last is not None
        end = last
        chooser.committed(offsets)
        places.update(zip(offsets, placed, strict=True))
    for upstream in range(min(places), up + 1):
        following = min(each for each in places if each >= upstream)
        assert to_downstream(read, upstream, End(up + 1, end)) == places[following]
    assert to_downstream(read, up + 1, End(up + 1, end)) == down + 1
    for downstream in range(min(places.values()), down + 1):
        following = min(each for each, place in places.items() if place >= downstream)
        assert to_upstream(read, downstream, End(up + 1, end)) == following


def test_a_record_whose_place_is_not_known_ends_the_entries_of_its_transaction() -> None:
    made = entries_in_pieces([1, 2, 3, 4], {0: 10, 1: 11, 3: 13}, MapEnd(), 0)
    assert made == [Entry(1, 10, (2,), MapEnd())] and end_after(made, 4) is None
    assert entries_in_pieces([1, 2], {1: 11}, MapEnd(), 0) == [] and end_after([], 2) is None


@given(targets())
def test_what_a_transform_has_left_out_before_the_first_record_is_no_gap(target: Target) -> None:
    """A group that waits there reads the first copied record next, if nothing was copied before and none set back."""
    read, end = target.map()
    copied = {up: down for down, up in reversed(list(enumerate(target.log))) if up is not None}
    for upstream in range(target.position + 3):
        plain, whole = to_downstream(read, upstream, end), to_downstream(read, upstream, end, whole=True)
        if plain is Unknown.BEFORE_THE_MAP and not target.resets and copied:
            assert upstream < min(copied) and whole == copied[min(copied)]
        elif plain is not Unknown.BEFORE_THE_MAP:
            assert whole == plain


def test_of_a_map_whose_begin_was_cleaned_nothing_is_guessed() -> None:
    read = PartitionMap()
    read.add(Entry(20, 15, (3,), follows=MapEnd(9, 0)))
    assert to_downstream(read, 5, End(23, MapEnd(15)), whole=True) is Unknown.BEFORE_THE_MAP
    read = PartitionMap()
    read.add(Entry(20, 15, (3,), follows=None))
    assert to_downstream(read, 5, End(23, MapEnd(15)), whole=True) is Unknown.BEFORE_THE_MAP


def test_after_a_reset_to_before_the_map_a_group_there_goes_on_after_all_copies() -> None:
    """The last of them have no place yet. What the group reads next is copied after them."""
    target = Target(1000)
    for part in ([100, 101], [102, 103], [104, 105]):
        target.copy(part, True)
    target.session(0)
    read, end = target.map()
    assert end == End(0, MapEnd(0, 4, 2, 5))
    found = to_downstream(read, 0, end)
    assert isinstance(found, Count) and counted_downstream(found, 0, target.found(found)) == target.end == 8


def test_where_a_group_has_read_all_that_is_copied_nothing_is_counted() -> None:
    """Behind the last record the position has passed markers, or records that a transform drops."""
    target = Target(1000, tells="all")
    target.copy([0, 1], True)
    target.log.append(OTHERS)
    target.copy([2, 3], True)
    target.position = 9
    read, end = target.map()
    assert isinstance(to_downstream(read, 3, end), Count)
    assert {to_downstream(read, upstream, end) for upstream in range(4, 10)} == {target.end}
    assert to_downstream(read, 10, end) is Unknown.NOT_COPIED


@pytest.mark.parametrize("tells", ["", "before", "all"])
def test_after_a_reset_to_a_record_without_an_entry_its_copy_is_found(tells: str) -> None:
    target = Target(1000, tells=tells)
    for part in ([0, 1], [2, 3], [4, 5]):
        target.copy(part, True)
    for position in (2, 3, 4, 5):
        target.session(position)
        read, end = target.map()
        found = to_downstream(read, position, end)
        assert isinstance(found, Count)
        assert counted_downstream(found, position, target.found(found)) == target.log.index(position)
