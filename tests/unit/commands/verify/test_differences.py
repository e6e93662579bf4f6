"""What the comparison of two sequences of records says of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.commands.verify.differences import Difference, Unmatched, gaps, judge, reordered, unmatched
from mirror.commands.verify.digests import RecordDigest

digests = st.lists(st.integers(0, 12), max_size=30)


def entries(numbers: Sequence[object], first: int = 0) -> list[RecordDigest]:
    """Records that differ by their number alone, at offsets that follow each other."""
    return [RecordDigest(first + at, str(number).encode(), 0) for at, number in enumerate(numbers)]


def found(source: Sequence[object], target: Sequence[object]) -> list[Difference]:
    ours, theirs = entries(source), entries(target, 100)
    moved, left = reordered(list(unmatched(ours, theirs)))
    return [*moved, *judge(left, {entry.digest: entry.offset for entry in ours})]


@pytest.mark.parametrize(
    ("source", "target", "kinds"),
    [
        ([], [], {}),
        ([1, 2, 5, 9], [1, 2, 5, 9], {}),
        ([1, 2, 3], [], {"lost": 3}),
        ([1, 2, 3], [1, 3], {"lost": 1}),
        ([1, 2, 3], [2, 3], {"lost": 1}),
        ([1, 2, 3], [1, 2], {"lost": 1}),
        ([1, 2, 3], [1, 2, 2, 3], {"duplicated": 1}),
        ([1, 2, 3], [1, 2, 3, 1, 2, 3], {"duplicated": 3}),
        ([1, 2, 3], [1, 3, 2], {"reordered": 1}),
        ([1, 2, 3], [1, 3, 2, 2], {"reordered": 1, "duplicated": 1}),
        ([1, 3], [1, 2, 3], {"extra": 1}),
        ([1, 3], [1, 3, 4], {"extra": 1}),
        ([1, 2, 3], [1, 9, 3], {"altered": 1}),
        ([7, 7, 7], [7, 7], {"lost": 1}),
        ([7, 7], [7, 7, 7], {"duplicated": 1}),
        ([1, 2, 3, 4, 5], [5, 1, 2, 3, 4], {"reordered": 1}),
    ],
)
def test_kinds(source: list[int], target: list[int], kinds: dict[str, int]) -> None:
    assert Counter(difference.kind for difference in found(source, target)) == kinds


def test_offsets_of_both_sides_are_told() -> None:
    assert set(found([1, 2, 3, 4, 5], [1, 3, 9, 5, 1])) == {
        Difference("altered", 3, 102),
        Difference("lost", 1, None),
        Difference("duplicated", 0, 104),
    }


@given(digests, digests)
def test_what_is_no_gap_is_the_same(a: list[int], b: list[int]) -> None:
    ours, theirs = [b"%d" % n for n in a], [b"%d" % n for n in b]
    i = j = 0
    for gap in gaps(ours, theirs):
        assert ours[i : gap.a_from] == theirs[j : gap.b_from]
        assert gap.a_from < gap.a_to or gap.b_from < gap.b_to
        i, j = gap.a_to, gap.b_to
    assert ours[i:] == theirs[j:]


@given(digests, digests)
def test_differences_account_for_every_record(source: list[int], target: list[int]) -> None:
    kinds = Counter(difference.kind for difference in found(source, target))
    assert len(source) - kinds["lost"] + kinds["duplicated"] + kinds["extra"] == len(target)
    assert bool(kinds) == (source != target)


@given(st.lists(st.integers(), unique=True, min_size=1, max_size=200), st.data())
def test_one_planted_fault_is_one_difference(source: list[int], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(source) - 1))
    assert found(source, source[:place] + source[place + 1 :]) == [Difference("lost", place, None)]
    (altered,) = found(source, [*source[:place], "x", *source[place + 1 :]])
    assert altered == Difference("altered", place, 100 + place)
    (double,) = found(source, [*source, source[place]])
    assert (double.kind, double.upstream) == ("duplicated", place)


timed = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12)  # content and timestamp


@given(timed, timed)
def test_each_record_is_altered_to_the_first_that_is_left_of_its_time(
    a: list[tuple[int, int]], b: list[tuple[int, int]]
) -> None:
    source, target = (
        [RecordDigest(first + at, b"%d" % content, timestamp) for at, (content, timestamp) in enumerate(some)]
        for first, some in ((0, a), (100, b))
    )
    originals = {b"0": 7}
    added, left = [entry for entry in target if entry.digest != b"0"], list(source)
    expected = [Difference("duplicated", 7, entry.offset) for entry in target if entry.digest == b"0"]
    even = len(left) == len(added)
    for entry in added:
        same = next((each for each in left if even or each.timestamp == entry.timestamp), None)
        if same is not None:
            left.remove(same)
        kind = "extra" if same is None else "altered"
        expected.append(Difference(kind, None if same is None else same.offset, entry.offset))
    expected += [Difference("lost", entry.offset, None) for entry in left]
    assert list(judge([Unmatched(source, target)], originals)) == expected


@pytest.mark.parametrize("added", [50_000, 49_999])
def test_many_differences_take_no_longer_each_than_few(added: int) -> None:
    """With a loop over all others for each record, 250,000 of them took hours."""
    source = [RecordDigest(n, b"%d" % n, n) for n in range(50_000)]
    target = [RecordDigest(n, b"x%d" % n, n) for n in range(added)]
    begun = time.process_time()
    kinds = Counter(each.kind for each in judge([Unmatched(source, target)], {}))
    assert kinds["altered"] == added and time.process_time() - begun < 5


def test_many_equal_records_elsewhere_take_no_longer_each_than_few() -> None:
    many = [RecordDigest(n, b"same", 0) for n in range(300_000)]
    begun = time.process_time()
    moved, left = reordered([Unmatched(many, []), Unmatched([], many)])
    assert [each.upstream for each in moved] == list(range(300_000)) and not left
    assert time.process_time() - begun < 5
