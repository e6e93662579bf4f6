"""What becomes of a position: started, loaded, committed, renewed, doubted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.clock import Clock
from mirror.model import MapEnd, Position, Topic
from mirror.task.known_positions import KnownPositions, StartPoint

TOPIC = Topic("r", "id", 1, 1, "remote-id")
HINT = Position(5, "id", 3, remote_id="remote-id", resets=1)
INTERVAL = 100.0


class SetClock(Clock):
    """A clock that stands still unless it is moved."""

    time = 1_000.0

    def monotonic(self) -> float:
        return self.time

    def now(self) -> float:
        return self.time


def known(start: StartPoint, clock: Clock | None = None, early: bool = True) -> KnownPositions:
    return KnownPositions(start, TOPIC, early, INTERVAL, clock or SetClock())


def test_a_fresh_start_has_nothing_to_keep() -> None:
    fresh = known(StartPoint(7))
    assert (fresh.offset, fresh.to_report.topic_id, fresh.may_be_committed, fresh.renew_at, fresh.is_old) == (
        -1,
        "",
        False,
        None,
        False,
    )
    assert fresh.resume_from == Position(7, "")
    fresh.nothing_committed()
    assert (
        fresh.position == Position(7, "id", remote_id="remote-id", map_end=MapEnd()) and fresh.to_report.topic_id == ""
    )


@pytest.mark.parametrize("hint", [None, Position(50, "id")])
def test_the_newest_position_is_reported_before_anything_is_loaded(hint: Position | None) -> None:
    """A report replaces the last one. If the target has lost what was committed, nobody else knows the position."""
    newest = Position(100, "id")
    it = known(StartPoint(5, hint, reported=newest))
    assert it.to_report == newest and it.position == (hint or Position(-1, ""))


def test_what_pins_the_start() -> None:
    """`latest` or a timestamp would move it; and so would a position that the target does not tell now."""
    assert [known(StartPoint(7), early=early).must_commit_start for early in (True, False)] == [False, True]
    assert [known(StartPoint(5, HINT), early=early).must_commit_start for early in (True, False)] == [False, False]
    unread = known(StartPoint(7, unread=True))
    assert unread.must_commit_start and unread.may_be_committed


def test_a_commit_ends_what_was_open() -> None:
    clock = SetClock()
    it = known(StartPoint(7), clock, early=False)
    it.delivered = it.next(9)
    assert it.resume_from.offset == 9 and it.uncommitted == it.delivered
    it.committed(it.next(10, 4), INTERVAL)
    assert it.position == it.newest == Position(10, "id", 4, -1, "remote-id")
    assert vars(it)["delivered"] is None and it.uncommitted is None
    assert (it.must_commit_start, it.may_be_committed, it.last_commit, it.to_report.topic_id) == (
        False,
        True,
        clock.time,
        "id",
    )
    assert it.resume_from == it.position


def test_a_position_grows_old_and_is_renewed() -> None:
    clock = SetClock()
    it = known(StartPoint(5, HINT), clock)
    clock.time += INTERVAL / 10
    assert it.is_old, "soon after joining, for nobody knows when it was committed last"
    it.renewed(INTERVAL)
    assert not it.is_old and it.position == HINT
    clock.time += INTERVAL
    assert it.is_old


def test_a_position_without_the_remote_topics_id_is_adopted() -> None:
    it = known(StartPoint(5, HINT))
    assert not it.loaded(HINT) and it.position == HINT
    assert it.loaded(replace(HINT, remote_id="")) and it.position == HINT and it.is_old


def test_the_newest_position_is_of_the_present_topic() -> None:
    former = Position(500, "former", remote_id="remote-id")
    assert StartPoint(5, former, HINT).newest("id") == HINT, "the report knows more than the hint"
    assert StartPoint(5, HINT, former).newest("id") == HINT
    assert StartPoint(5, HINT, former).newest("one that nobody has copied") == HINT


def test_what_is_not_believed_shows_the_newest_that_is_known() -> None:
    reported = Position(9, "id", remote_id="remote-id", resets=1)
    it = known(StartPoint(5, HINT, reported))
    it.not_believed()
    assert it.position == it.newest == reported
