"""What a session tells the target of its records: the same, whether their offsets come as a list or as runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model import MapEnd, Partition, Position, Topic
from mirror.settings import Flow
from mirror.target.offset_map import EVERY, Copied, decode_key, decode_value
from mirror.target.offset_syncs import SyncChooser
from mirror.target.runs import Runs, runs_of
from mirror.target.session_marks import SessionMarks
from tests.unit.test_naming import flow

PARTITION = Partition("t", 3)
TOPIC = Topic("r", "id", 4, 4, "remote-id")
AT = Position(0, "id", remote_id="remote-id", resets=2, map_end=MapEnd())


@st.composite
def parts(draw: st.DrawFn) -> list[range]:
    """Ranges that follow each other, with and without gaps."""
    found, at = [], draw(st.integers(0, 5))
    for _ in range(draw(st.integers(1, 8))):
        length = draw(st.integers(1, 20))
        found.append(range(at, at + length))
        at += length + draw(st.sampled_from([0, 0, 1, 5]))
    return found


@given(parts())
def test_runs_are_the_offsets(given_parts: list[range]) -> None:
    offsets = [offset for part in given_parts for offset in part]
    runs = Runs(given_parts)
    assert list(runs) == offsets and len(runs) == len(offsets) and runs[-1] == offsets[-1]
    assert runs[1:4] == offsets[1:4] and list(runs_of(offsets)) == list(runs_of(runs))
    assert all(before.stop < after.start for before, after in pairwise(runs.runs))
    with pytest.raises(IndexError):
        runs[len(offsets)]


def test_no_offsets_have_no_runs() -> None:
    assert not Runs([]) and not runs_of([])


@given(st.lists(parts(), min_size=1, max_size=4), st.integers(1, 25))
def test_the_same_records_get_syncs(transactions: list[list[range]], lag: int) -> None:
    by_list, by_runs, shift = SyncChooser(lag), SyncChooser(lag), 0
    for made in transactions:
        moved = [range(each.start + shift, each.stop + shift) for each in made]
        shift = moved[-1].stop
        offsets, runs = [offset for part in moved for offset in part], Runs(moved)
        chosen = by_list.choose(offsets)
        assert chosen == by_runs.choose(runs)
        by_list.committed(offsets, chosen)
        by_runs.committed(runs, chosen)


def session_marks(of: Flow | None = None, topic: Topic = TOPIC) -> SessionMarks:
    return SessionMarks(of or flow(), PARTITION, topic)


def test_canaries_have_no_entries() -> None:
    topic = flow().canary_topic
    session = SessionMarks(flow(), Partition(topic, 0), TOPIC)
    marks = session.marks(session.due(Runs([range(5)]), AT), {0: 100, 4: 104})
    assert not marks.entries and marks.position.map_end is None and marks.syncs


def downstream(count: int, first: int = 100) -> dict[int, int]:
    return {index: first + index for index in range(count)}


@pytest.mark.parametrize(
    ("offsets", "at", "topic", "mapped", "end"),
    [
        pytest.param(Runs([range(5, 8)]), AT, TOPIC, 1, MapEnd(100, 0), id="the first of a session"),
        pytest.param(Runs([range(10, 13)]), AT, TOPIC, 0, MapEnd(-1, 3, 3, 103), id="goes on"),
        pytest.param(Runs([range(11, 13)]), AT, TOPIC, 1, MapEnd(100, 0), id="after a gap"),
        pytest.param(Runs([range(10, 12), range(13, 14)]), AT, TOPIC, 1, MapEnd(100, 0), id="with a gap"),
        pytest.param(Runs([range(10, 12)]), replace(AT, map_end=None), TOPIC, 1, MapEnd(100, 0), id="no known end"),
        pytest.param(Runs([range(10, 10 + EVERY)]), AT, TOPIC, 1, MapEnd(100, 0), id="many"),
        pytest.param(Runs([range(10, 12)]), AT, replace(TOPIC, compacted=True), 1, MapEnd(100, 0), id="compacted"),
        pytest.param(Runs([range(10, 12)]), AT, replace(TOPIC, remote_id=""), 0, None, id="a topic without id"),
    ],
)
def test_which_transactions_get_entries(
    offsets: Runs, at: Position, topic: Topic, mapped: int, end: MapEnd | None
) -> None:
    session = session_marks(topic=topic)
    if offsets[0] >= 10:
        before = session.due(range(8, 10), AT)
        session.committed(before, downstream(2))
    due = session.due(offsets, at)
    marks = session.marks(due, downstream(len(offsets)))
    assert len(marks.entries) == mapped and marks.position == replace(at, map_end=end)
    for key, value in marks.entries:
        copied, place = decode_key(key)
        entry = decode_value(place, value)
        assert copied == Copied("t", 3, "id", "remote-id") and (entry.resets, entry.follows) == (2, at.map_end)
        assert [entry.to_upstream(100 + index) for index in range(entry.records)] == list(offsets)


def test_records_of_others_in_between_leave_the_end_unknown() -> None:
    session = session_marks()
    marks = session.marks(session.due(Runs([range(5)]), AT), {0: 100, 4: 107})
    (entry,) = [decode_value(decode_key(key)[1], value) for key, value in marks.entries]
    assert (entry.upstream, entry.downstream, entry.records) == (0, 100, 1) and marks.position.map_end is None


def test_the_last_record_gets_its_sync_when_the_partition_is_idle() -> None:
    session = session_marks(flow(offset_lag_max=100))
    due = session.due(Runs([range(5, 9)]), AT)
    assert list(due.synced) == [0] and list(due.needed) == [0, 3]
    assert session.tail is None
    session.committed(due, {0: 100, 3: 103})
    assert session.tail is not None and (session.tail.upstream, session.tail.downstream) == (8, 103)
    session.settled()
    assert session.tail is None
    assert list(session.due(Runs([range(9, 12)]), AT).synced) == []


def test_a_lone_record_needs_no_other_sync() -> None:
    session = session_marks()
    session.committed(session.due(Runs([range(5, 6)]), AT), {0: 100})
    assert session.tail is None


def test_a_position_says_where_the_records_of_the_transaction_before_it_end() -> None:
    """And where its own do, if that is known before it goes to the target."""
    session, at = session_marks(), AT
    found = []
    for begin, first, known in ((0, 100, True), (2, 103, False), (4, 106, False), (6, 109, True)):
        due = session.due(Runs([range(begin, begin + 2)]), at)
        at = session.marks(due, downstream(2, first) if known else {}).position
        session.committed(due, downstream(2, first))
        found.append(at.map_end)
    assert found == [MapEnd(100), MapEnd(100, 2), MapEnd(100, 4, 2, 105), MapEnd(100, 6, 6, 111)]


@pytest.mark.parametrize(
    ("places", "mapped"),
    [
        pytest.param((103, 104), False, id="next to the last one's marker"),
        pytest.param((104, 105), True, id="after somebody else's"),
        pytest.param((103, 107), True, id="around somebody else's"),
    ],
)
def test_after_a_gap_in_the_remote_partition_the_next_transaction_has_an_entry(
    places: tuple[int, int], mapped: bool
) -> None:
    session = session_marks()
    session.committed(session.due(range(2), AT), downstream(2))
    due = session.due(range(2, 4), AT)
    assert not due.mapped, "where the records will be is not known beforehand"
    session.committed(due, dict(enumerate(places)))
    assert session.due(range(4, 6), AT).mapped == mapped
