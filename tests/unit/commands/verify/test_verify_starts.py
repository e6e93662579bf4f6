"""`mirror verify` over all starts of both logs: a right copy is equal, and one planted fault is always found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from itertools import accumulate

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from mirror.commands.verify import partition_comparison
from mirror.commands.verify import verify as module
from mirror.commands.verify.digests import Chunk, Digester, RecordDigest, Stretch, cut
from mirror.commands.verify.partition_comparison import ComparisonResult
from mirror.commands.verify.ranges import PartitionRanges, Side
from mirror.commands.verify.surviving_syncs import keep
from mirror.commands.verify.verify import InProcess, verify
from mirror.model import Partition
from mirror.target.offset_syncs import SyncChooser

FOREIGN = -1
SOURCE, TARGET = Partition("t", 0), Partition("a.t", 0)


@cache
def digest(content: int) -> bytes:
    """The digest of a record; one of four ends a chunk."""
    mark = blake2b(b"%d" % content, digest_size=16).digest()
    return (b"\x00\x00" if mark[-1] < 64 else b"\xff\xff") + mark[2:]


class InMemory(Digester):
    """Reads from what both sides are given as."""

    def __init__(self, source: Sequence[RecordDigest], target: Sequence[RecordDigest]) -> None:
        super().__init__({})
        self._entries = {"source": source, "target": target}

    def chunks(self, stretch: Stretch) -> list[Chunk]:
        """The chunks of a stretch."""
        read = self._from_to(stretch, stretch.limit)
        return cut(((entry.offset, entry.digest) for entry in read), stretch.end, stretch.first)

    def entries(self, stretch: Stretch) -> list[RecordDigest]:
        """Each record of a stretch from `start` up to `end`."""
        return self._from_to(stretch, stretch.end)

    def entries_with(self, wanted: frozenset[bytes], stretch: Stretch) -> list[RecordDigest]:
        """The records of a stretch that have one of these digests."""
        return [entry for entry in self._from_to(stretch, stretch.end) if entry.digest in wanted]

    def _from_to(self, stretch: Stretch, stop: int) -> list[RecordDigest]:
        return [entry for entry in self._entries[stretch.cluster] if stretch.start <= entry.offset < stop]


@dataclass(frozen=True)
class Copy:
    """Contents by place in history, with offsets; `target` has a place for each record that came from one."""

    source: Sequence[RecordDigest]
    target: Sequence[RecordDigest]
    places: Sequence[int | None]  # of each target record, the index of its original
    syncs: Sequence[tuple[int, int]]
    copied: int  # source records before the position
    ends_meet: bool

    def compare(self, source_start: int, target_start: int, whole: bool = True) -> ComparisonResult:
        """The result of a comparison whose logs are cut at these offsets."""
        kept: list[tuple[int, int]] = []
        for sync in self.syncs:
            kept = keep(kept, sync, (source_start, target_start))
        position = self.source[self.copied - 1].offset + 1 if self.copied else 0
        last = self.source[-1].offset + 1 if self.source and not self.ends_meet else position
        end = self.target[-1].offset + 2 if self.target else 0  # after a marker
        ranges = PartitionRanges(
            Side("source", *SOURCE, source_start, max(source_start, last)),
            Side("target", *TARGET, target_start, max(target_start, end)),
            position,
            whole,
            tuple(kept),
            self.ends_meet,
        )
        (result,) = verify([ranges], InMemory(self.source, self.target), InProcess(), lambda *_: None)
        return result


def entries(contents: Iterable[int], steps: Iterable[int]) -> list[RecordDigest]:
    """Records at offsets that are so far from each other."""
    return [
        RecordDigest(offset, digest(content), 0) for offset, content in zip(accumulate(steps), contents, strict=False)
    ]


def offsets(draw: st.DrawFn, contents: Sequence[int]) -> list[RecordDigest]:
    """Records with gaps where markers and aborted records are."""
    steps = draw(st.lists(st.sampled_from([1, 1, 1, 1, 2, 5]), min_size=len(contents), max_size=len(contents)))
    return entries(contents, [step - (not index) for index, step in enumerate(steps)])


def synced(
    source: Sequence[RecordDigest], target: Sequence[RecordDigest], places: Sequence[int | None], lag: int
) -> list[tuple[int, int]]:
    """The offset syncs that mirror would write: each tells where a record has landed first."""
    landed: dict[int, int] = {}
    for place, entry in zip(places, target, strict=True):
        if place is not None:
            landed.setdefault(place, entry.offset)
    numbers = [entry.offset for entry in source]
    pairs = [(numbers[index], landed.get(index)) for index in SyncChooser(lag).choose(numbers)]
    rising: list[tuple[int, int]] = []
    for upstream, downstream in pairs:
        if downstream is not None and (not rising or downstream > rising[-1][1]):
            rising.append((upstream, downstream))
    return rising


@st.composite
def copies(draw: st.DrawFn, unique: bool, fault: bool) -> tuple[Copy, int, int, str]:
    """A copy, where both logs begin, and which fault is within what both have."""
    count = draw(st.integers(4 if fault else 0, 40))
    contents = list(range(count)) if unique else draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    source = offsets(draw, contents)
    ends_meet = draw(st.booleans())
    arrived = count if ends_meet else draw(st.integers(min(count, 4 if fault else 0), count))
    copied = arrived if ends_meet else draw(st.integers(1 if arrived else 0, arrived))
    first_here, first_there = (draw(st.integers(0, max(0, arrived - 4 if fault else arrived))) for _ in range(2))
    places: list[int | None] = list(range(arrived))
    kind = "none"
    if fault:
        places, kind = plant(draw, arrived, copied, max(first_here, first_there), first_there > first_here)
    target = offsets(draw, [_content(place, contents) for place in places])
    syncs = [
        s for s in synced(source, target, places, draw(st.sampled_from([2, 7, 100]))) if _before(s, source, copied)
    ]
    left = draw(st.sampled_from(["all", "newest", "none" if ends_meet else "newest"]))
    syncs = {"all": syncs, "newest": syncs[-1:], "none": []}[left]
    here = source[first_here].offset if first_here < len(source) else _end(source)
    there = target[first_there].offset if first_there < len(target) else _end(target)
    return Copy(source, target, places, syncs, copied, ends_meet), here, there, kind


def _content(place: int | None, contents: Sequence[int]) -> int:
    return FOREIGN if place is None else contents[place]


def _before(sync: tuple[int, int], source: Sequence[RecordDigest], copied: int) -> bool:
    return sync[0] in {entry.offset for entry in source[:copied]}


def _end(some: Sequence[RecordDigest]) -> int:
    return some[-1].offset + 1 if some else 0


def plant(draw: st.DrawFn, arrived: int, copied: int, begins: int, target_later: bool) -> tuple[list[int | None], str]:
    """One fault after the first record that both logs have, before what is on its way."""
    right: list[int | None] = list(range(arrived))
    end = max(begins + 1, min(copied, arrived))
    kinds = ["altered", "lost", "doubled", "moved", "foreign"]
    kind = draw(st.sampled_from(kinds))
    assume(end - begins >= 3)
    index = draw(st.integers(begins + 1, end - 1))
    other = draw(st.integers(begins + 1, end - 1))
    if kind == "altered":
        index = draw(st.integers(begins, end - 1))
        right[index] = None
    elif kind == "lost":
        del right[index]
    elif kind == "doubled":
        right.insert(other, index)
    elif kind == "moved":
        assume(abs(index - other) > 0)
        right.insert(other, right.pop(index))
    else:
        right.insert(draw(st.integers(begins + (not target_later), end)), None)
    return right, kind


THOROUGH = settings(max_examples=300, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


@THOROUGH
@given(copies(unique=True, fault=False))
def test_a_right_copy_is_equal_and_its_ends_are_exact(made: tuple[Copy, int, int, str]) -> None:
    copy, here, there, _ = made
    result = copy.compare(here, there)
    source = {index for index, entry in enumerate(copy.source) if entry.offset >= here}
    target = {index for index, entry in enumerate(copy.target) if entry.offset >= there}
    assert result.equal, result
    assert (result.compared, result.unseen) == (len(source & target), 0)
    assert result.gone_source == len(target - source)
    on_its_way = {index for index in source if index >= len(target | set(range(len(copy.target))))}
    assert result.gone_target + result.in_flight == len(source - target)
    if target:  # else nobody knows how far the copy was
        assert (result.gone_target, result.in_flight) == (len(source - target - on_its_way), len(on_its_way))


@THOROUGH
@given(copies(unique=False, fault=False))
def test_records_that_are_the_same_are_no_fault(made: tuple[Copy, int, int, str]) -> None:
    copy, here, there, _ = made
    assume(copy.ends_meet)
    result = copy.compare(here, there)
    assert result.equal, result
    ours, theirs = kept(copy, here, there)
    both, surplus = min(len(ours), len(theirs)), len(ours) - len(theirs)
    assert (result.compared, result.gone_target, result.gone_source) == (both, max(0, surplus), max(0, -surplus))


@THOROUGH
@given(copies(unique=True, fault=True))
def test_any_single_fault_is_found(made: tuple[Copy, int, int, str]) -> None:
    copy, here, there, kind = made
    result = copy.compare(here, there)
    assert not result.counts.equal, (kind, result)


@THOROUGH
@given(copies(unique=False, fault=True))
def test_a_fault_is_found_unless_it_looks_like_a_right_copy(made: tuple[Copy, int, int, str]) -> None:
    copy, here, there, kind = made
    assume(copy.ends_meet)
    ours, theirs = kept(copy, here, there)
    right = (there > 0 and theirs == ours[len(ours) - len(theirs) :]) or (
        here > 0 and ours == theirs[len(theirs) - len(ours) :]
    )
    assume(not right and ours != theirs)
    result = copy.compare(here, there)
    assert not result.counts.equal, (kind, result)


def kept(copy: Copy, here: int, there: int) -> tuple[list[bytes], list[bytes]]:
    """The digests that both logs have."""
    ours = [entry.digest for entry in copy.source if entry.offset >= here]
    return ours, [entry.digest for entry in copy.target if entry.offset >= there]


def plain(source: Sequence[int], target: Sequence[int], *syncs: tuple[int, int], ends_meet: bool = True) -> Copy:
    """Logs of these contents without gaps; 0, 1, 2, ... are right. All is copied."""
    ours, theirs = (entries(some, [0, *[1] * len(some)]) for some in (source, target))
    return Copy(ours, theirs, [None] * len(target), syncs, len(source), ends_meet)


@pytest.mark.parametrize("detail", [500_000, 100])
@pytest.mark.parametrize(("here", "there"), [(0, 0), (10, 10), (10, 40), (40, 10), (0, 40), (40, 0)])
@pytest.mark.parametrize("syncs", [(), ((500, 500),)])
def test_hardly_a_record_is_right(
    monkeypatch: pytest.MonkeyPatch, here: int, there: int, syncs: Sequence[tuple[int, int]], detail: int
) -> None:
    monkeypatch.setattr(module, "DETAIL_MAX", detail)
    monkeypatch.setattr(module, "DETAIL_MIN", 0)
    altered = [n if n == 700 else 10_000 + n for n in range(1_000)]
    for ends_meet in {True, not syncs}:
        result = plain(range(1_000), altered, *syncs, ends_meet=ends_meet).compare(here, there)
        assert not result.equal and (result.unseen > 0) == (detail == 100)
        if detail > 100:
            assert (result.counts.altered, result.compared) == (999 - max(here, there), 1)
            assert (result.gone_target, result.gone_source) == (max(0, there - here), max(0, here - there))


def test_nothing_says_what_belongs_together() -> None:
    result = plain(range(100), range(1_000, 1_100), ends_meet=False).compare(10, 30)
    assert (result.equal, result.aligned, result.compared) == (False, False, 0)
    assert [(each.side.cluster, each.first, each.last, each.records) for each in result.outside] == [
        ("source", 10, 99, 90),
        ("target", 30, 99, 70),
    ]
    # As soon as an offset sync does, it is said what differs.
    told = plain(range(100), range(1_000, 1_100), (50, 50), ends_meet=False).compare(10, 30)
    assert (told.aligned, told.counts.altered, told.gone_target) == (True, 70, 20)


@pytest.mark.parametrize("there", [0, 300, 900])
def test_a_history_that_was_copied_twice(monkeypatch: pytest.MonkeyPatch, there: int) -> None:
    twice = [*range(1_000), *range(1_000)]
    result = plain(range(1_000), twice).compare(800, there)
    assert not result.equal and result.compared == 200
    # More than the source can have had; those that it still has are known for what they are.
    assert result.counts.extra + result.counts.duplicated >= 1_000 - there
    # Where gaps in the source's offsets leave room for them, it is told by the runs of records that come twice.
    monkeypatch.setattr(partition_comparison, "COPY_MIN", 4)
    sparse = entries(range(1_000), [0, *[10] * 1_000])
    copy = replace(plain(range(1_000), twice), source=sparse)
    result = copy.compare(sparse[500].offset, there)
    assert not result.equal and result.counts.duplicated > 0
    assert {copy.source[each.upstream // 10].digest for each in result.differences if each.upstream} <= {
        copy.target[each.downstream].digest for each in result.differences if each.downstream
    }


def test_foreign_records_at_the_beginning() -> None:
    foreign = range(5_000, 5_300)
    # Of 350 records before the first common one the source can have had 50.
    result = plain(range(1_000), [*foreign, *range(1_000)]).compare(50, 0)
    assert (result.equal, result.counts.extra, result.compared) == (False, 300, 950)
    # It can have had 350 of 600: what is not proven wrong is not called equal either.
    result = plain(range(1_000), [*foreign, *range(1_000)]).compare(600, 300)
    assert (result.equal, result.compared) == (True, 400)
    assert [(each.side.cluster, each.first, each.last) for each in result.outside] == [("target", 300, 899)]


def test_offset_syncs_bound_the_beginning_to_one_record() -> None:
    right = list(range(1_000))
    # A record that came between 499 and 500, where the source's log begins with 500.
    put = [*right[:500], FOREIGN, *right[500:]]
    assert plain(right, put).compare(500, 100).equal
    result = plain(right, put, (499, 499), (700, 701)).compare(500, 100)
    assert (result.counts.extra, result.gone_source) == (1, 400)
    assert result.differences[0].downstream == 500
    assert plain(right, right, (499, 499), (700, 700)).compare(500, 100).equal
    # Record 500 never came, where the target's log begins where it had to stand.
    lost = [*right[:500], *right[501:]]
    assert plain(right, lost).compare(100, 500).equal
    result = plain(right, lost, (499, 499), (700, 699)).compare(100, 500)
    assert (result.counts.lost, result.gone_target) == (1, 400)
    assert result.differences[0].upstream == 500
    assert plain(right, right, (499, 499), (700, 700)).compare(100, 500).equal


def test_a_flow_that_began_at_the_end_need_not_have_what_came_before() -> None:
    result = plain(range(1_000), range(300, 1_000), (300, 0)).compare(0, 0, whole=False)
    assert result.equal and (result.gone_target, result.compared) == (300, 700)
    assert not plain(range(1_000), range(300, 1_000)).compare(0, 0).equal


def test_what_comes_after_a_loss_is_not_on_its_way() -> None:
    copy = plain(range(100), [*range(90), *range(91, 97)], ends_meet=False)
    result = replace(copy, copied=80).compare(0, 0)
    assert (result.counts.lost, result.in_flight, result.differences[0].upstream) == (1, 3, 90)


def test_only_pairs_that_no_newer_one_contradicts_are_kept() -> None:
    kept: list[tuple[int, int]] = []
    for pair in [(0, 0), (10, 10), (20, 20), (30, 30), (40, 40)]:
        kept = keep(kept, pair, (15, 5))
    assert kept == [(10, 10), (20, 20), (40, 40)]
    assert keep(kept, (50, 0), (15, 0)) == [(50, 0)]  # the remote topic was made anew
    assert keep(kept, (20, 50), (15, 5)) == [(10, 10), (20, 50)]  # the record came twice
    assert keep(kept, (5, 60), (0, 0)) == [(5, 60)]  # the source's topic was made anew
