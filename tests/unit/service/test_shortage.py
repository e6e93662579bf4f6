"""From when to when a slice counts as vacant, and when a flow gives up slots for another."""

from __future__ import annotations

from mirror.service.shortage import VACANT_AFTER, WAITS_AFTER, Shortage
from mirror.spark.running_epoch import RunningEpoch


def epoch(*waiting: int, job: int = 1) -> RunningEpoch:
    return RunningEpoch(job, 3 - len(waiting), frozenset(waiting))


def lost() -> Shortage:
    """Slice 1 has just become vacant."""
    shortage = Shortage()
    assert not shortage.vacant(epoch(1), {0: "a", 1: "b"}, 0.0), "Spark may start it again at once"
    assert shortage.vacant(epoch(1), {0: "a", 1: "b"}, VACANT_AFTER) == {1}
    return shortage


def test_a_slice_is_vacant_until_a_new_task_has_claimed_it() -> None:
    shortage = lost()
    assert shortage.vacant(epoch(), {0: "a", 1: "b"}, 10.0) == {1}, "its process starts"
    assert shortage.vacant(epoch(), {0: "a", 1: "c"}, 11.0) == set()


def test_a_slice_whose_new_task_is_lost_too_stays_vacant() -> None:
    shortage = lost()
    assert shortage.vacant(epoch(1), {0: "a", 1: "c"}, 10.0) == {1}
    assert shortage.vacant(epoch(), {0: "a", 1: "c"}, 11.0) == {1}
    assert shortage.vacant(epoch(), {0: "a", 1: "d"}, 12.0) == set()


def test_a_task_that_spark_starts_again_at_once_leaves_nothing_vacant() -> None:
    shortage = Shortage()
    for at, waiting in ((0.0, [1]), (VACANT_AFTER / 2, []), (VACANT_AFTER, [1]), (2 * VACANT_AFTER - 0.1, [1])):
        assert not shortage.vacant(epoch(*waiting), {1: "b"}, at)


def test_nothing_is_vacant_while_no_task_runs_or_in_another_spark_epoch() -> None:
    assert not lost().vacant(None, {1: "b"}, 10.0)
    assert not lost().vacant(epoch(1, job=2), {1: "b"}, 10.0)


def test_another_flow_has_to_wait_for_a_while() -> None:
    shortage = Shortage()
    looks = ((0.0, True), (WAITS_AFTER - 1, True), (WAITS_AFTER, False), (20.0, True), (20.0 + WAITS_AFTER, True))
    assert [shortage.lasts(waits, at) for at, waits in looks] == [False, False, False, False, True]
