"""Which partitions can be adopted, and what becomes of the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirror.clock import Clock
from mirror.commands.adopt import stopping
from mirror.commands.adopt.committing import position
from mirror.commands.adopt.comparison import Comparer, Logs
from mirror.commands.adopt.selection import NOT_OURS, NOTHING, OURS, Candidate, Known, select
from mirror.commands.adopt.tail import Found
from mirror.commands.moved_partition import FOREIGN
from mirror.control.decisions import doubt, explain
from mirror.model import Partition, Position, Topic
from mirror.target.connect_offsets import Recorded, Sync
from mirror.target.position_reader import from_committed, to_commit
from mirror.task.known_positions import KnownPositions, StartPoint

HERE, THERE = Partition("orders", 0), Partition("primary.orders", 0)
KNOWN = Known(
    remote={HERE: THERE},
    recorded={HERE: Recorded(42)},
    syncs={HERE: Sync(40, 50)},
    positions={HERE: None},
    starts={THERE: 0},
    ends={THERE: 60},
    existing=frozenset({THERE}),
    exactly_once=True,
)


def test_what_mirrormaker_has_recorded_is_looked_for() -> None:
    assert select(KNOWN) == ([Candidate(HERE, THERE, 42, Sync(40, 50), True)], [])
    (candidate,), _ = select(replace(KNOWN, exactly_once=False, syncs={}))
    assert candidate == Candidate(HERE, THERE, 42, None, False)


def test_without_a_recorded_position_the_newest_sync_is_where_to_begin() -> None:
    assert select(replace(KNOWN, recorded={}))[0] == [Candidate(HERE, THERE, 41, Sync(40, 50), False)]


def test_a_copy_whose_records_are_all_gone_is_adopted_where_mirrormaker_says() -> None:
    assert len(select(replace(KNOWN, starts={THERE: 60}))[0]) == 1


def test_or_where_the_newest_sync_says() -> None:
    emptied = replace(KNOWN, recorded={}, starts={THERE: 60})
    (candidate,), others = select(emptied)
    assert candidate == Candidate(HERE, THERE, 41, Sync(40, 50), False) and not others
    logs = Logs(source_start=30, source_stable=45, source_end=45, remote_start=60, remote_end=60)
    unread: Any = None  # nothing has to be read
    assert Comparer("primary", "backup", 1_000, unread, unread).find_position(candidate, logs) == Found(41, 0)


@pytest.mark.parametrize(
    ("changes", "outcome", "reason"),
    [
        ({"positions": {HERE: Position(42, "id")}}, "left alone", OURS),
        ({"positions": {HERE: Position(7, "id")}, "recorded": {}}, "left alone", OURS),
        ({"positions": {HERE: Position(7, "")}}, "refused", FOREIGN),
        ({"existing": frozenset(), "ends": {}, "starts": {}}, "refused", "the target has no primary.orders-0"),
        ({"existing": frozenset(), "ends": {}, "starts": {}, "recorded": {}}, "left alone", NOTHING),
        ({"recorded": {}, "ends": {THERE: 0}}, "left alone", NOTHING),
        ({"recorded": {}, "syncs": {}}, "refused", "neither a position nor an offset sync"),
        (
            {"recorded": {}, "syncs": {}, "starts": {THERE: 60}},
            "refused",
            "had records, which are gone, but MirrorMaker",
        ),
        ({"recorded": {}, "starts": {THERE: 50}, "ends": {THERE: 50}}, "refused", "ends before MirrorMaker's newest"),
        ({"ends": {}}, "refused", "a transaction stays open"),
        ({"recorded": {HERE: Recorded(-1, "no number")}}, "refused", "no number"),
        ({"ends": {THERE: 0}}, "refused", "never had a record"),
    ],
)
def test_what_is_not_looked_for(changes: dict[str, object], outcome: str, reason: str) -> None:
    candidates, (result,) = select(replace(KNOWN, **changes))  # type: ignore[arg-type]
    assert not candidates
    assert result.outcome == outcome and reason in result.reason and result.position is None
    assert result.as_dict()["topic"] == "orders" and result.as_dict()["remote"] == "primary.orders"


@pytest.mark.parametrize(
    "ours", [Position(7, "id"), Position(42, "id").handed_back("remote"), Position(50, "id").handed_back("remote")]
)
def test_a_position_is_adopted_again_that_mirrormaker_has_passed_or_that_was_handed_back(ours: Position) -> None:
    """It survives on the target: nobody takes it for mirror's own."""
    again = from_committed(to_commit(ours, "primary.orders", 0))
    assert again == ours
    assert len(select(replace(KNOWN, positions={HERE: again}))[0]) == 1


def test_a_position_that_was_handed_back_is_no_position_of_mirrors() -> None:
    ours = Position(42, "source-1").handed_back("remote-1")
    topic = Topic("primary.orders", "source-1", 1, 1, "remote-1")
    incident = doubt(ours, Position(42, "source-1", remote_id="remote-1"), topic, lambda: True)
    assert incident is not None and incident.kind == "position_foreign"
    assert "was handed back to MirrorMaker" in explain(incident, ours, topic, "group")


def test_what_the_flow_does_not_mirror_is_said() -> None:
    other = Partition("others", 3)
    _, (result,) = select(replace(KNOWN, recorded={HERE: Recorded(42), other: Recorded(7)}))
    assert (result.partition, result.outcome, result.reason, result.recorded) == (other, "left alone", NOT_OURS, 7)


def test_the_transactional_ids_of_tasks() -> None:
    ids = ["a-mm2-MirrorSourceConnector-0", "a-mm2-MirrorSourceConnector-12"]
    others = ["a-mm2-MirrorSourceConnector-", "a-mm2-MirrorSourceConnector-01", "a-mm2-MirrorSourceConnector-1-2"]
    others += ["b-a-mm2-MirrorSourceConnector-0", "a.mm2-MirrorSourceConnector-0", "a-mm2-MirrorHeartbeatConnector-0"]
    assert stopping.those_of("a-mm2", "MirrorSourceConnector", [*ids, *others]) == set(ids)
    assert stopping.those_of("a.mm2", "MirrorSourceConnector", [*ids, *others]) == {"a.mm2-MirrorSourceConnector-0"}


@pytest.mark.parametrize(
    "reported", [None, Position(90, "id", remote_id="remote", resets=1), Position(9, "old", resets=3)]
)
def test_a_task_believes_the_position(reported: Position | None) -> None:
    """It does so even if mirror has copied further once, and reported that on the status topic."""
    topic = Topic("primary.orders", "id", 1, 1, "remote")
    found = from_committed(to_commit(position(42, reported, topic), "primary.orders", 0))
    assert found is not None and found.offset == 42
    start = StartPoint(42, found, reported)
    assert doubt(found, start.newest(topic.topic_id), topic, lambda: True) is None
    known = KnownPositions(start, topic, True, 3600, Clock())
    assert known.loaded(found) is False and known.offset == 42
    assert known.next(50).map_end is None, "what MirrorMaker has copied has no entry in the offset map"
