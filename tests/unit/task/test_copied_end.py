"""Where to begin to compare what was copied, and what a difference says. Pure: no record is read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.model import MapEnd, Position
from mirror.records.consumed import Record
from mirror.records.undecided import Undecided
from mirror.task.copied_end import Begin, Differs, Logs, Matched, begin, has_no_more, is_end, match
from mirror.task.last_entries import LastEntry

# Upstream 100 to 109 are at 200 to 209 and have the last entry, a marker follows.
LAST = LastEntry(110, 200, 210, 1)
LOGS = Logs(source_start=0, source_end=1_000, remote_start=0, remote_end=300)
KNOWN = Position(113, "id", remote_id="remote-id", resets=1, map_end=MapEnd(200, 3))  # at 211 to 213, and a marker
PLACED = replace(KNOWN, map_end=MapEnd(200, 3, 3, 214))
TWICE = replace(KNOWN, offset=115, map_end=MapEnd(200, 5, 3, 214))  # then a marker, 215, 216, and a marker


@pytest.mark.parametrize(
    ("known", "end"),
    [
        (replace(KNOWN, offset=110, map_end=MapEnd(200)), 211),
        (KNOWN, 215),
        (PLACED, 215),
        (TWICE, 218),
    ],
)
def test_nothing_more_was_copied_if_the_copy_ends_where_the_position_says(known: Position, end: int) -> None:
    assert is_end(known, LAST, replace(LOGS, remote_end=end))
    for other in (end + 1, end + 2, end - 1):
        assert not is_end(known, LAST, replace(LOGS, remote_end=other))
    assert not is_end(replace(known, map_end=None), LAST, replace(LOGS, remote_end=end))
    assert not is_end(known, LAST._replace(downstream=201), replace(LOGS, remote_end=end)), "an entry is not known"


def test_the_source_may_say_that_it_has_no_more() -> None:
    reported = replace(KNOWN, map_end=None)
    assert not is_end(reported, LAST, replace(LOGS, source_end=113)), "it may be a deposed leader"
    for last in (LAST, None):
        assert has_no_more(reported, last, replace(LOGS, source_end=113))
        assert not has_no_more(reported, last, replace(LOGS, source_end=114))
    assert not has_no_more(replace(reported, offset=109), LAST, replace(LOGS, source_end=109)), "the map knows better"
    assert not has_no_more(reported, LAST._replace(resets=2), replace(LOGS, source_end=113)), "it was reset since"


def test_nothing_was_copied_to_a_partition_that_never_had_a_record() -> None:
    assert is_end(replace(KNOWN, map_end=None), None, replace(LOGS, remote_end=0))


@pytest.mark.parametrize(
    ("known", "logs", "wanted"),
    [
        (None, LOGS, Begin(110, 210)),
        (KNOWN, LOGS, Begin(110, 210)),
        (PLACED, LOGS, Begin(110, 210)),
        (PLACED, replace(LOGS, source_start=112), Begin(112, 210, 0, 2)),
        (PLACED, replace(LOGS, remote_start=211), Begin(110, 210)),
        (PLACED, replace(LOGS, remote_start=212), Begin(113, 214, 3)),
        (PLACED, replace(LOGS, source_start=115, remote_start=215), Begin(115, 214, 3, 2)),
    ],
)
def test_where_to_begin(known: Position | None, logs: Logs, wanted: Begin) -> None:
    assert begin(known, LAST, logs, countable=True) == wanted


@pytest.mark.parametrize(
    ("known", "last", "logs", "reason"),
    [
        (None, None, LOGS, "the offset map has nothing of this partition"),
        (KNOWN, None, LOGS, "the offset map has nothing of this partition"),
        (replace(KNOWN, map_end=None), None, LOGS, "the offset map has nothing of this partition"),
        (KNOWN, LAST, replace(LOGS, remote_start=212), "it has lost what followed offset 210: it begins at 212"),
        (PLACED, LAST, replace(LOGS, remote_start=216), "it has lost what followed offset 214: it begins at 216"),
        (KNOWN, LAST, replace(LOGS, remote_end=205), "it ends at offset 205, but the offset map says"),
    ],
)
def test_where_nothing_can_be_compared(known: Position | None, last: LastEntry | None, logs: Logs, reason: str) -> None:
    found = begin(known, last, logs, countable=True)
    assert isinstance(found, Undecided) and reason in found.reason


def test_what_can_t_be_counted_is_not_passed_over() -> None:
    gone = replace(LOGS, source_start=112)
    found = begin(KNOWN, LAST, gone, countable=False)
    assert (
        isinstance(found, Undecided)
        and "the source has lost what followed offset 110: it begins at 112" in found.reason
    )
    assert begin(KNOWN, LAST, replace(gone, remote_end=211), countable=False) == Begin(112, 210, 0, 2), "only a marker"


def test_a_partition_of_which_nothing_was_copied_yet_is_compared_from_its_beginning() -> None:
    start = Position(40, "id", remote_id="remote-id", map_end=MapEnd())
    assert begin(start, None, LOGS, countable=True) == Begin(40, 0)


def records(first: int, *contents: bytes | None, at: int = 1_000) -> list[Record]:
    return [(first + number, at + number, content) for number, content in enumerate(contents)]


HERE = Begin(5, 50)


def test_the_copy_ends_after_the_last_record_that_is_the_same() -> None:
    source, target = records(5, b"a", b"b", b"c", b"d"), records(50, b"a", b"b", b"c")
    assert match(HERE, source, target, timestamps=True) == Matched(3, 8)
    assert match(HERE, source, [], timestamps=True) == Matched(0, 5)


def test_nothing_of_the_source_is_read_if_the_target_has_nothing_more() -> None:
    def never() -> Record:
        raise AssertionError

    assert match(HERE, iter(never, None), iter(()), timestamps=True) == Matched(0, 5)


def test_what_is_not_copied_is_passed_over() -> None:
    """Its headers can't be read, or the transform fails for it."""
    source = records(5, b"a", None, None, b"d", None, b"f")
    assert match(HERE, source, [(50, 1_000, b"a"), (51, 1_003, b"d")], timestamps=True) == Matched(2, 9)


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ([(50, 1_000, b"a"), (51, 1_001, b"x")], Differs(51, 6)),
        ([(50, 1_000, b"a"), (51, 7, b"b")], Differs(51, 6)),
        ([(50, 1_000, b"a"), (51, 1_001, None)], Differs(51, 6)),
        ([(50, 1_000, b"b")], Differs(50, 5)),
        ([(50, 1_000, b"a"), (51, 1_001, b"b"), (52, 1_002, b"c")], Differs(52, None)),
    ],
)
def test_the_first_record_that_is_no_copy_is_named(target: list[Record], wanted: Differs) -> None:
    assert match(HERE, records(5, b"a", b"b"), target, timestamps=True) == wanted


def test_timestamps_that_the_target_has_set() -> None:
    source, target = records(5, b"a", b"b"), records(50, b"a", b"b", at=7)
    assert match(HERE, source, target, timestamps=False) == Matched(2, 7)
    without = [(5, -1, b"a"), (6, 0, b"b")]
    assert match(HERE, without, target, timestamps=True) == Matched(2, 7), "these had none"


def test_what_the_source_has_lost_is_counted() -> None:
    begun = Begin(8, 50, 0, 3)
    target = records(50, b"5", b"6", b"7", b"8", at=1_005)
    assert match(begun, records(8, b"8", b"9", at=1_008), target, timestamps=True) == Matched(4, 9)
    assert match(begun, [], target[:2], timestamps=True) == Matched(2, 7)
