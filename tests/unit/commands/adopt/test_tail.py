"""Where a copy ends: the last records of the remote partition are looked for among the source's."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from mirror.commands.adopt.tail import Before, Found, Numbered, agreeing, find_position
from mirror.records.undecided import Undecided


def marks(text: str) -> list[bytes]:
    return [each.encode() for each in text]


def find(tail: str, before: str, after: str, cut: bool = False, exact: bool = False) -> Found | Undecided:
    """The record with index n has offset n."""
    numbered = [(len(before) + n, mark) for n, mark in enumerate(marks(after))]
    return find_position(marks(tail), Before(marks(before), cut), numbered, len(before), exact)


def test_the_copy_ends_at_the_recorded_position() -> None:
    assert find("bcd", "abcd", "efg") == Found(4, 3)
    assert find("bcd", "abcd", "") == Found(4, 3)


def test_the_copy_has_more_than_was_recorded() -> None:
    assert find("def", "abcd", "efg") == Found(6, 3)
    assert find("efg", "abcd", "efghi") == Found(7, 3)
    assert find("abcdefg", "", "abcdefgh") == Found(7, 7), "nothing was recorded yet"


def test_an_exact_position_is_taken_though_the_records_repeat() -> None:
    assert find("xxx", "axxx", "xxxx", exact=True) == Found(4, 3)
    undecided = find("xxx", "axxx", "xxxx")
    assert isinstance(undecided, Undecided) and "offset 4 " in undecided.reason and "offset 5:" in undecided.reason


def test_an_exact_position_that_does_not_fit_is_looked_for() -> None:
    assert find("def", "abcd", "efg", exact=True) == Found(6, 3)


def test_a_copy_that_has_something_else_is_not_decided() -> None:
    undecided = find("xbcd", "abcd", "efg")
    assert isinstance(undecided, Undecided)
    assert "only the last 3 records of them are" in undecided.reason and "from 4 to 7" in undecided.reason
    undecided = find("abcx", "abcd", "")
    assert isinstance(undecided, Undecided) and "not even the last" in undecided.reason


def test_a_copy_that_came_twice_is_not_decided() -> None:
    assert isinstance(find("abcdcd", "abcd", "ef"), Undecided)


def test_a_copy_without_the_last_records_is_not_decided() -> None:
    assert isinstance(find("abc", "abcd", "ef"), Undecided)


def test_a_copy_that_is_longer_than_the_source() -> None:
    assert isinstance(find("xxabcd", "abcd", "ef"), Undecided), "the source never had the first ones"
    assert find("xxabcd", "abcd", "ef", cut=True) == Found(4, 4)
    assert find("xxabcdef", "abcd", "efg", cut=True) == Found(6, 6)


def test_nothing_to_compare() -> None:
    assert find("", "abcd", "ef") == Found(4, 0)
    assert find("xyz", "", "abc", cut=True, exact=True) == Found(0, 0)
    assert find("xyz", "", "", cut=True) == Found(0, 0)
    assert find("xab", "", "abc", cut=True) == Found(2, 2)
    assert isinstance(find("xyz", "", "abc"), Undecided)
    assert isinstance(find("xyz", "abc", "", cut=True), Undecided), "there is something to compare, and it differs"


def test_what_came_after_the_recorded_position_may_be_copied_already() -> None:
    """MirrorMaker recorded 1000 and copied up to 1500, the source begins at 1200, somebody else wrote to the copy."""
    after = [(1200, b"a"), (1201, b"b")]
    undecided = find_position([b"x"], Before([], cut=True), after, recorded=1000, exact=False)
    assert isinstance(undecided, Undecided)
    assert "all records before offset 1000" in undecided.reason and "may have been copied since" in undecided.reason
    assert find_position([b"x"], Before([], cut=True), after, recorded=1000, exact=True) == Found(1000, 0)
    assert find_position([b"x"], Before([], cut=True), [], recorded=1000, exact=False) == Found(1000, 0)


def test_agreeing() -> None:
    assert agreeing(marks("abc"), marks("xbc")) == 2
    assert agreeing(marks("abc"), marks("abc")) == 3
    assert agreeing(marks("abc"), marks("")) == 0


@dataclass(frozen=True)
class Case:
    """A source, what was copied of it, and what both logs still have."""

    source: list[Numbered]
    recorded: int  # an index: before it everything was copied
    copied: int  # an index: the truth
    source_start: int  # an index: the source has removed what is before
    most: int  # records to compare
    remote: int  # records that the remote log still has

    @property
    def position(self) -> int:
        """The offset at this index."""
        return self.offset(self.copied)

    def offset(self, index: int) -> int:
        """The position after what comes before the index."""
        return self.source[index - 1][0] + 1 if index else 0

    @property
    def tail(self) -> list[bytes]:
        """The last records of the copy."""
        copied = [mark for _, mark in self.source[: self.copied]]
        return copied[max(0, self.copied - min(self.most, self.remote)) :]

    def find(self, exact: bool = False) -> Found | Undecided:
        """What is found."""
        left = self.source[self.source_start : self.recorded]
        some = left[-len(self.tail) :] if self.tail else []
        cut = self.source_start > 0 and len(some) == len(left)
        before = Before([mark for _, mark in some], cut)
        after = self.source[max(self.recorded, self.source_start) :]
        return find_position(self.tail, before, after, self.offset(self.recorded), exact)


@st.composite
def cases(draw: st.DrawFn, alphabet: int, lossy: bool = True) -> Case:
    gaps = draw(st.lists(st.integers(1, 4), min_size=1, max_size=40))
    offsets = [sum(gaps[: n + 1]) for n in range(len(gaps))]
    unique = alphabet == 0
    marks = [n if unique else draw(st.integers(0, alphabet - 1)) for n in range(len(offsets))]
    copied = draw(st.integers(0, len(offsets)))
    recorded = draw(st.integers(0, copied))
    start = draw(st.integers(0, copied)) if lossy else 0
    source = [(offset, b"%d" % mark) for offset, mark in zip(offsets, marks, strict=True)]
    return Case(source, recorded, copied, start, draw(st.integers(1, 8)), draw(st.integers(0, 50)) if lossy else 50)


@given(cases(0))
def test_with_records_that_differ_the_position_is_found(case: Case) -> None:
    found = case.find()
    if case.tail and case.source_start < case.copied:
        assert isinstance(found, Found) and found.position == case.position and 0 < found.compared <= case.most
    elif case.tail and case.source[max(case.recorded, case.source_start) :]:
        assert isinstance(found, Undecided), "the source may have records that were copied and do not fit"
    else:  # nothing is left to compare on one of the sides: what was recorded counts
        assert found == Found(case.offset(case.recorded), 0)


@given(cases(2, lossy=False))
def test_with_records_that_repeat_the_position_is_found_or_not_decided(case: Case) -> None:
    found = case.find()
    if case.tail:
        assert isinstance(found, Undecided) or found.position == case.position


@given(cases(2))
def test_an_exact_position_is_kept(case: Case) -> None:
    same = Case(case.source, case.copied, case.copied, case.source_start, case.most, case.remote)
    if case.source_start < case.copied or not same.tail:
        found = same.find(exact=True)
        assert isinstance(found, Found) and found.position == case.position
