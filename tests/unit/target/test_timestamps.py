"""Which remote topics are asked for their timestamps at a look."""

from __future__ import annotations

from typing import Any

from mirror.target.timestamps import LARGEST, TimestampCheck, due


def test_all_are_asked_for_at_first_however_many() -> None:
    assert due({"b", "a", "c"}, [], max_topics=1) == ["a", "b", "c"]


def test_what_was_well_is_asked_for_in_turn() -> None:
    kept = ["a", "b", "c", "d"]
    seen = []
    for _ in range(4):
        asked = due(set(kept), kept, max_topics=2)
        seen += asked
        kept = [name for name in kept if name not in asked] + asked
    assert seen == ["a", "b", "c", "d"] * 2


def test_what_was_refused_or_is_new_is_asked_for_each_time() -> None:
    assert due({"a", "b", "new", "refused"}, ["b", "a"], max_topics=3) == ["new", "refused", "b"]
    assert due({"a", "new", "refused"}, ["a"], max_topics=1) == ["new", "refused"]


def test_what_is_gone_is_not_asked_for() -> None:
    assert due({"a"}, ["gone", "a"]) == ["a"]


def test_the_largest_batch_is_what_was_said_last() -> None:
    """A topic that is created anew without a limit of its own has the brokers' one, which the next look brings."""
    unused: Any = None
    check = TimestampCheck(unused, unused)
    check.note({"a": {LARGEST: "5"}, "b": {LARGEST: "7"}, "c": {}})
    check.note({"a": {}, "b": {LARGEST: "8"}})
    assert check.largest == {"b": 8}
    check.note({"a": {LARGEST: "9" * 5_000}, "b": {LARGEST: "none"}, "c": {LARGEST: "-1"}, "d": {LARGEST: str(2**31)}})
    assert not check.largest, "none of these is a number of bytes"
