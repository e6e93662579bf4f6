"""The judge of groups judged: right places pass, and each way to be wrong is caught."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checker.groups import GroupHistory, GroupSample, Placed, check_group, check_group_of_both
from tests.checker.history import Record

COUNT = 20


@st.composite
def copies(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Offsets of the same records on both sides, with the gaps that markers and aborted records leave."""
    steps = st.lists(st.integers(1, 4), min_size=COUNT, max_size=COUNT)
    here, there = draw(steps), draw(steps)
    return [sum(here[: n + 1]) for n in range(COUNT)], [sum(there[: n + 1]) for n in range(COUNT)]


def placed(here: list[int], there: list[int]) -> Placed:
    target = [Record(offset, None, b"%d" % number, (), 0) for number, offset in enumerate(there)]
    return Placed({(None, b"%d" % number, ()): offset for number, offset in enumerate(here)}, target)


def history(read: int, committed: int | None) -> GroupHistory:
    last = None if committed is None else GroupSample(committed, read)
    return GroupHistory("group", [] if last is None else [last], last, read)


@given(copies(), st.integers(1, COUNT - 1))
def test_the_next_record_on_both_sides(copy: tuple[list[int], list[int]], at: int) -> None:
    """It does not matter what markers are between two records, before the offset or after it."""
    here, there = copy
    for read in range(here[at - 1] + 1, here[at] + 1):
        for committed in range(there[at - 1] + 1, there[at] + 1):
            assert not check_group(history(read, committed), placed(here, there))


@given(copies(), st.integers(1, COUNT - 2))
def test_a_record_too_late_or_too_early_or_none(copy: tuple[list[int], list[int]], at: int) -> None:
    here, there = copy
    late = check_group(history(here[at], there[at] + 1), placed(here, there))
    assert len(late) == 2, "at that moment, and in the end"
    early = history(here[at], there[at - 1])
    assert len(check_group(early, placed(here, there))) == 1
    assert len(check_group(history(here[at], None), placed(here, there))) == 1
    moments = replace(early, last=GroupSample(there[at], here[at]))
    assert not check_group(moments, placed(here, there)), "while group sync lags, a group may stand too early"


def test_an_offset_that_goes_back_is_wrong_although_each_is_right() -> None:
    """There are markers between the two records, so both offsets are before the same one."""
    copy, samples = placed([10, 11], [0, 5]), [GroupSample(4, 11), GroupSample(3, 11)]
    forth = GroupHistory("group", samples[::-1], samples[0], 11)
    assert not check_group(forth, copy) and not check_group_of_both(forth, copy)
    back = GroupHistory("group", samples, samples[1], 11)
    assert len(check_group(back, copy)) == len(check_group_of_both(back, copy)) == 1


@pytest.mark.parametrize(("read", "wrong"), [(3, 0), (10, 0), (11, 1)])
def test_no_offset_where_nothing_that_was_read_is_on_the_target(read: int, wrong: int) -> None:
    """Such as after the remote topic was made again: copying went on later, and the offset is not in the map."""
    assert len(check_group(history(read, None), placed([10, 11], [0, 1]))) == wrong


def test_where_programs_write_on_both_sides_only_passing_over_is_wrong() -> None:
    """The records at 10 and 11 of the source come after the one at 12 on the target."""
    order = placed([12, 10, 11], [0, 1, 2])
    for read, committed, wrong in ((11, 0, 0), (11, 1, 1), (12, 1, 1), (13, 1, 0), (13, 3, 0), (12, 3, 1)):
        assert len(check_group_of_both(history(read, committed), order)) == wrong, (read, committed)
    assert len(check_group_of_both(history(11, None), order)) == 1, "groups are synced at all"
    assert check_group(history(11, 0), order), "where the order is the same, more is asked"
