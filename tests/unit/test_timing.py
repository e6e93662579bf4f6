"""The bounds between times that depend on each other: whoever changes one sees which others follow."""

from __future__ import annotations

from mirror.control.control_topics import READ_TIMEOUT
from mirror.service import cluster_watch
from mirror.service.flow import CHECK_INTERVAL
from mirror.service.listener import LISTEN_INTERVAL
from mirror.service.shortage import VACANT_AFTER
from mirror.spark.session import HEARTBEAT, VANISHED_AFTER
from mirror.timing import (
    ABORT_INTERVAL,
    ALIVE,
    LEADER_STEP,
    LEADER_TRANSACTION,
    LIFE_SHOWS,
    NO_SERVICE,
    RECENT_REPORTS,
    REPORT_ALL_INTERVAL,
    REPORT_INTERVAL,
    SIGN_INTERVAL,
    SILENCE,
    SOURCE_PATIENCE,
    TAKE_OVER_AFTER,
    TAKE_OVER_LEAST,
)


def test_each_partition_is_among_the_recent_reports_of_two_tasks() -> None:
    assert RECENT_REPORTS >= 2 * (REPORT_ALL_INTERVAL / REPORT_INTERVAL + 1)


def test_a_task_that_misses_two_rounds_of_reports_is_not_silent() -> None:
    assert SILENCE >= 2 * REPORT_ALL_INTERVAL + REPORT_INTERVAL


def test_a_service_whose_tasks_miss_two_rounds_of_reports_still_runs() -> None:
    assert SILENCE >= NO_SERVICE >= 2 * REPORT_ALL_INTERVAL + REPORT_INTERVAL


def test_a_flow_whose_tasks_are_silent_is_not_gone_yet() -> None:
    assert ALIVE >= 1.5 * SILENCE


def test_a_living_flow_that_misses_one_sign_is_heard_meanwhile() -> None:
    assert LIFE_SHOWS > 2 * SIGN_INTERVAL


def test_a_standby_does_not_take_over_from_a_leader_whose_source_was_away_for_everybody() -> None:
    sees_it_late = cluster_watch.LOOK_INTERVAL + 2 * cluster_watch.TIMEOUT
    assert TAKE_OVER_AFTER >= TAKE_OVER_LEAST >= sees_it_late + 2 * SIGN_INTERVAL + LISTEN_INTERVAL


def test_a_source_that_is_silent_at_one_look_keeps_no_leader_from_giving_signs() -> None:
    assert SOURCE_PATIENCE >= cluster_watch.LOOK_INTERVAL + 2 * cluster_watch.TIMEOUT


def test_the_transaction_of_a_leader_that_has_died_hides_no_claim() -> None:
    assert LEADER_STEP < LEADER_TRANSACTION
    assert LEADER_TRANSACTION + ABORT_INTERVAL < TAKE_OVER_AFTER
    assert LEADER_TRANSACTION + ABORT_INTERVAL < TAKE_OVER_LEAST + READ_TIMEOUT, "the claim is read back meanwhile"


def test_the_partitions_of_a_vanished_machine_move_within_15_seconds() -> None:
    """Spark looks at the heartbeats; the flow looks at Spark, and again when the slice is vacant. Then comes a plan."""
    is_vacant = VANISHED_AFTER + HEARTBEAT + CHECK_INTERVAL + (VACANT_AFTER + CHECK_INTERVAL)
    assert is_vacant + 3.0 <= 15.0, "the tasks have to read the plan and to take the partitions over"


def test_an_executor_may_miss_several_heartbeats() -> None:
    assert VANISHED_AFTER >= 5 * HEARTBEAT
