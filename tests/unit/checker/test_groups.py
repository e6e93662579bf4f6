"""The judge of groups judged: right places pass, and each way to be wrong is caught."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checker.groups import GroupHistory, GroupSample, Placed, check_group, check_group_of_both
from tests.checker.history import Record

COUNT = 20
MARKERS = 10  # offsets that the log has after its last record


@st.composite
def copies(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Offsets of the same records on both sides, with the gaps that markers and aborted records leave."""
    steps = st.lists(st.integers(1, 4), min_size=COUNT, max_size=COUNT)
    here, there = draw(steps), draw(steps)
    return [sum(here[: n + 1]) for n in range(COUNT)], [sum(there[: n + 1]) for n in range(COUNT)]


def placed(here: list[int], there: list[int]) -> Placed:
    target = [Record(offset, None, b"%d" % number, (), 0) for number, offset in enumerate(there)]
    source: dict[tuple[object, ...], int] = {(None, b"%d" % number, ()): offset for number, offset in enumerate(here)}
    return Placed(source, target, max(there) + MARKERS)


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


@given(copies(), st.integers(0, COUNT - 1))
def test_an_offset_beyond_the_end_of_the_log(copy: tuple[list[int], list[int]], at: int) -> None:
    """It is after all that was read, and what is copied next would be passed over."""
    here, there = copy
    order, read = placed(here, there), here[-1] + 1
    assert not check_group(history(read, order.end), order) and not check_group_of_both(history(read, order.end), order)
    beyond = history(read, order.end + 1 + at)
    assert len(check_group(beyond, order)) == len(check_group_of_both(beyond, order)) == 1
    for_a_while = replace(beyond, last=GroupSample(order.end, read))
    assert len(check_group(for_a_while, order)) == 1


def test_where_programs_write_on_both_sides_only_passing_over_is_wrong_while_it_runs() -> None:
    """The records at 10 and 11 of the source come after the one at 12 on the target."""
    order = placed([12, 10, 11], [0, 1, 2])
    for read, committed, wrong in ((11, 0, 0), (11, 1, 1), (12, 1, 1), (13, 1, 0), (13, 3, 0), (12, 3, 1)):
        moment = replace(history(read, committed), last=GroupSample(3, 13), read=13)
        assert len(check_group_of_both(moment, order)) == wrong, (read, committed)
    assert len(check_group_of_both(history(11, None), order)) == 1, "groups are synced at all"
    assert check_group(history(11, 0), order), "where the order is the same, more is asked"


def test_where_programs_write_on_both_sides_a_group_has_not_read_what_comes_next_in_the_end() -> None:
    """Records that it has read may come after that one."""
    order = placed([12, 10, 11], [0, 1, 2])
    for read, committed, wrong in ((11, 0, 0), (12, 0, 0), (13, 0, 1), (13, 1, 1), (13, 2, 1), (13, 3, 0)):
        assert len(check_group_of_both(history(read, committed), order)) == wrong, (read, committed)
    stopped = GroupHistory("group", [GroupSample(0, read) for read in (1, 2, 3)], GroupSample(0, 3), 3)
    assert check_group_of_both(stopped, placed([0, 1, 2], [0, 1, 2])), "it has read all, and has never moved"
