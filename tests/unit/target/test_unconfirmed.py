"""Whether a position belongs to the records of a transaction whose outcome nobody knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.model import MapEnd, Position, Topic
from mirror.target.unconfirmed import Unconfirmed, UnconfirmedTransactions

BEFORE = Position(5, "id", 2, remote_id="remote", resets=3, map_end=MapEnd(7, 2))
AFTER = replace(BEFORE, offset=9, epoch=3)
LAST = Unconfirmed(BEFORE, AFTER, 40)


@pytest.mark.parametrize(
    ("found", "visible", "offset"),
    [
        (BEFORE, True, 9),
        (AFTER, False, 5),
        (AFTER, True, None),
        (BEFORE, False, None),
        (BEFORE, None, None),
        (AFTER, None, None),
        (None, True, None),  # there was a position, so that is doubted in any case
        (replace(BEFORE, offset=4), True, None),
        (replace(AFTER, offset=10), False, None),  # another owner has gone on
        (replace(BEFORE, resets=4), True, None),  # somebody has decided meanwhile
        (replace(AFTER, remote_id="another"), False, None),
        (replace(AFTER, map_end=MapEnd(50, 2)), False, None),  # another owner has copied the same records again
        (replace(BEFORE, topic_id="another"), True, None),
    ],
)
def test_a_torn_transaction_is_told_by_both_of_its_parts(
    found: Position | None, visible: bool | None, offset: int | None
) -> None:
    belongs = LAST.belonging(found, visible)
    assert (None if belongs is None else belongs.offset) == offset
    if belongs is not None:
        assert (belongs.resets, belongs.map_end, belongs.topic_id) == (4, None, "id")
        assert belongs.epoch == (3 if visible else 2), "the epoch is that of the record before it"


@pytest.mark.parametrize(
    ("found", "visible", "offset"),
    [(None, True, 9), (None, False, None), (None, None, None), (AFTER, False, 5), (AFTER, True, None)],
)
def test_the_first_transaction_of_a_partition(found: Position | None, visible: bool | None, offset: int | None) -> None:
    belongs = replace(LAST, is_first=True).belonging(found, visible)
    assert (None if belongs is None else (belongs.offset, belongs.resets)) == (offset and (offset, 4))


def test_only_a_position_of_this_transaction_is_looked_into() -> None:
    """The records of another one may be anywhere."""
    first = replace(LAST, is_first=True)
    assert LAST.concerns(BEFORE) and LAST.concerns(AFTER) and first.concerns(None) and first.concerns(AFTER)
    for each in (None, replace(AFTER, offset=10), replace(AFTER, map_end=None)):
        assert not LAST.concerns(each)
    assert not first.concerns(BEFORE)


@pytest.mark.parametrize(("remote_id", "known"), [("remote", True), ("", True), ("another", False)])
def test_nothing_is_to_be_found_in_a_topic_that_was_created_again(remote_id: str, known: bool) -> None:
    """Its log ends before the record, so a take-over that waited for it would wait for ever."""
    all_of_task = UnconfirmedTransactions()
    all_of_task.note(("remote", 0), BEFORE, (AFTER, 40), is_first=False)
    topic = Topic("remote", "id", 1, 1, remote_id)
    assert all_of_task.of(topic, 0) == (LAST if known else None)
    assert (("remote", 0) in all_of_task) is known and all_of_task.of(topic, 1) is None
