"""Which groups of the source take part in group rounds, and what becomes of those whose offsets are not given."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pytest

from mirror.errors import ClusterAway
from mirror.groups import source_groups
from mirror.groups.group_offsets import Committed
from mirror.groups.patience import AWAY_AFTER, LONG, SHORT
from mirror.groups.position_groups import OWN_GROUP, POSITIONS, is_position
from mirror.groups.source_groups import SourceGroups, taking_part
from mirror.model import MapEnd, Partition, Position
from mirror.target.position_metadata import encoded, terminated
from tests.unit.test_naming import flow

PARTITION = Partition("orders", 0)


class Source:
    """In place of the source: the groups that brokers list, and those whose coordinator does not answer."""

    listed: Sequence[str] = ()
    are_all = True  # False: a broker does not list its groups
    silent: Collection[str] = ()
    offsets: Mapping[str, Committed] = {}  # by group; others have one without metadata

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.timeouts: list[float] = []  # with which groups were asked
        monkeypatch.setattr(source_groups, "GroupOffsets", lambda _: self)

    def listed_groups(self) -> tuple[Sequence[str], bool]:
        return self.listed, self.are_all

    def partitions(self) -> Mapping[str, int]:
        return {"orders": 1}

    def find_coordinators(self, groups: Iterable[str]) -> None: ...

    def others(self) -> tuple[Mapping[str, str], bool]:
        return {}, True

    def all_of(
        self, group: str, _: object, timeout: float = LONG
    ) -> tuple[Mapping[Partition, Committed], dict[Any, str]]:
        self.timeouts.append(timeout)
        if group in self.silent:
            raise ClusterAway("primary", f"no offsets of group {group}")
        return {PARTITION: self.offsets.get(group, Committed(7, ""))}, {}

    def close(self) -> None: ...

    def groups(self) -> SourceGroups:
        return SourceGroups(flow(), self)  # type: ignore[arg-type]


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    return Source(monkeypatch)


def test_groups_whose_coordinator_does_not_answer_hold_up_no_others(source: Source) -> None:
    """A partition of __consumer_offsets is offline. We do not wait long for many groups that it has."""
    groups = source.groups()
    source.listed = [f"g{number:02}" for number in range(40)]
    source.silent = [*source.listed[:10], *source.listed[11:30]]
    assert set(groups.offsets()) == {"g10", *source.listed[30:]}
    assert groups.refused == {
        each: f"cluster primary does not answer: no offsets of group {each}" for each in source.silent
    }
    assert source.timeouts == 3 * [LONG] + 37 * [SHORT]


@pytest.mark.parametrize(("groups", "asked"), [(40, AWAY_AFTER), (6, 6)])
def test_a_source_of_which_no_coordinator_answers_is_away(source: Source, groups: int, asked: int) -> None:
    some = source.groups()
    source.listed = source.silent = [f"g{number:02}" for number in range(groups)]
    with pytest.raises(ClusterAway):
        some.offsets()
    assert len(source.timeouts) == asked


def test_a_group_is_kept_while_its_broker_lists_none(source: Source, caplog: pytest.LogCaptureFixture) -> None:
    """It is asked for: its coordinator answers, or the group is named with the reason. So it is not forgotten."""
    groups = source.groups()
    source.listed, source.are_all = [], False
    assert not groups.offsets() and not caplog.records, "nobody knows whether a group matches"
    source.listed, source.are_all = ["a", "b", "c"], True
    assert set(groups.offsets()) == {"a", "b", "c"}
    source.listed, source.are_all, source.silent = ["c", "d"], False, ["b"]
    for _ in range(2):
        assert set(groups.offsets()) == {"a", "c", "d"} and groups.refused.keys() == {"b"}
    source.are_all = True
    assert set(groups.offsets()) == {"c", "d"} and not groups.refused, "the others were deleted"


def test_a_group_of_another_type_stays_named_while_its_broker_does_not_answer(
    source: Source, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And the warning is not written again when the broker answers."""
    answer: tuple[Mapping[str, str], bool]
    monkeypatch.setattr(source, "others", lambda: answer)
    groups: Any = source.groups()
    with caplog.at_level(logging.WARNING, source_groups.log.name):
        for answer, left_out in (
            (({"a": "share", "b": "share"}, True), {"a", "b"}),
            (({"b": "share"}, False), {"a", "b"}),
            (({"a": "share", "b": "share"}, True), {"a", "b"}),
            (({"b": "share"}, True), {"b"}),
        ):
            assert answer and not groups.offsets() and set(groups.left_out) == left_out
    assert [record.message for record in caplog.records].count("a group is left out") == 2


def test_a_very_long_id_is_told_cut(
    source: Source, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    long, shared = "x" * 32_767, "y" * 32_767
    groups = source.groups()
    source.listed = source.silent = ["a", long]
    monkeypatch.setattr(source, "others", lambda: ({shared: "share"}, True))
    with caplog.at_level(logging.WARNING):
        groups.offsets()
    assert groups.refused.keys() == {"a", f"{'x' * 60}... (32,767 characters)"}
    assert groups.left_out == {f"{'y' * 60}... (32,767 characters)": "share"}
    assert {len(vars(record)["group"]) for record in caplog.records} == {1, 83}


POSITION = Position(7, "source-id", 3, 4, "remote-id", 1, MapEnd(5, 2, 1, 6))


@pytest.mark.parametrize(
    ("metadata", "is_one"),
    [
        (encoded(POSITION), True),
        (terminated(encoded(POSITION)), True),
        (encoded(Position(7, "source-id")), True),
        (encoded(POSITION.handed_back("remote-id")), True),
        ('{"topic_id":"source-id","of":{"a newer":"mirror"}}', True),
        ("", False),
        ("mine", False),
        ("AgABCQ==", False),
        ("{}", False),
        ('{"topic_id":7}', False),
        ('["topic_id"]', False),
    ],
)
def test_positions_are_known_by_their_metadata(metadata: str, is_one: bool) -> None:
    assert is_position(metadata) is is_one


def test_positions_of_a_flow_are_left_out_and_named(source: Source, caplog: pytest.LogCaptureFixture) -> None:
    """They are offsets of another cluster. The flow's own group is left out whatever it has."""
    groups = source.groups()
    own = flow().group
    source.listed = ["billing", own, "moves"]
    source.offsets = {"moves": Committed(7, terminated(encoded(POSITION)))}
    for _ in range(2):
        assert set(groups.offsets()) == {"billing"}
        assert groups.left_out == {own: OWN_GROUP, "moves": POSITIONS} and not groups.refused
    assert [record.message for record in caplog.records].count("a group is left out") == 2
    assert own not in taking_part(flow(), source.listed)
    source.offsets = {}
    assert set(groups.offsets()) == {"billing", "moves"} and groups.left_out == {own: OWN_GROUP}
