"""What becomes of a group's translated offset."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.errors import ClusterAway
from mirror.groups import group_sync
from mirror.groups.group_choice import GroupOutcome, choose, is_due
from mirror.groups.group_offsets import Committed
from mirror.groups.group_sync import GroupSync
from mirror.groups.patience import AWAY_AFTER, LONG, SHORT
from mirror.groups.translated import Translation
from mirror.groups.translation import Unknown
from mirror.model import Partition
from tests.unit.test_naming import flow

PARTITION = Partition("orders", 0)


def translation(translated: int | None, reason: str = "") -> Translation:
    return Translation(PARTITION, "primary.orders", 100, translated, reason)


EXACT = translation(70)
NOT_COPIED = translation(None, Unknown.NOT_COPIED.value)
END = translation(90)
LOST = translation(None, Unknown.BEFORE_THE_MAP.value)


@pytest.mark.parametrize(
    ("found", "before", "active", "downstream", "outcome", "is_committed"),
    [
        (EXACT, None, False, 70, GroupOutcome.EXACT, True),
        (EXACT, 69, False, 70, GroupOutcome.EXACT, True),
        (EXACT, 70, False, 70, GroupOutcome.EXACT, True),  # again, before the target forgets it
        (EXACT, 71, False, 70, GroupOutcome.BACKWARDS, False),
        (EXACT, None, True, 70, GroupOutcome.ACTIVE, False),
        (EXACT, 69, True, 70, GroupOutcome.ACTIVE, False),
        (EXACT, 71, True, 70, GroupOutcome.BACKWARDS, False),  # its members have read on
        (EXACT, 70, True, 70, GroupOutcome.EXACT, True),
        (translation(60, "why"), 59, False, 60, GroupOutcome.EARLIER, True),
        (translation(60, "why"), 61, False, 60, GroupOutcome.BACKWARDS, False),
        (translation(60, "why"), 59, True, 60, GroupOutcome.ACTIVE, False),
        (NOT_COPIED, None, False, 90, GroupOutcome.AHEAD, True),
        (NOT_COPIED, 91, False, 90, GroupOutcome.BACKWARDS, False),
        (LOST, None, False, None, GroupOutcome.UNTRANSLATED, False),
        (LOST, 5, True, None, GroupOutcome.UNTRANSLATED, False),
    ],
)
def test_what_becomes_of_a_translated_offset(
    found: Translation,
    before: int | None,
    active: bool,
    downstream: int | None,
    outcome: GroupOutcome,
    is_committed: bool,
) -> None:
    choice = choose(found, END, before, active)
    assert (choice.downstream, choice.outcome, choice.may_be_committed) == (downstream, outcome, is_committed)
    assert bool(choice.reason) is (outcome is not GroupOutcome.EXACT)


def test_a_copy_without_a_known_end_leaves_the_offset_unknown() -> None:
    choice = choose(NOT_COPIED, LOST, None, False)
    assert (choice.downstream, choice.outcome, choice.reason) == (
        None,
        GroupOutcome.UNTRANSLATED,
        Unknown.NOT_COPIED.value,
    )


@pytest.mark.parametrize(
    ("before", "age", "due"),
    [
        (None, None, True),
        (Committed(69, "mine"), 1.0, True),
        (Committed(70, "other"), 1.0, True),  # the metadata is kept, too
        (Committed(70, "mine"), None, True),  # another leader committed it, and nobody knows when
        (Committed(70, "mine"), 59.0, False),
        (Committed(70, "mine"), 61.0, True),  # the target would forget it one day
    ],
)
def test_when_an_offset_is_committed(before: Committed | None, age: float | None, due: bool) -> None:
    assert is_due(before, Committed(70, "mine"), age, renew_interval=60.0) is due


class Source:
    """In place of the source: the groups that brokers list, and those whose coordinator does not answer."""

    listed: Sequence[str] = ()
    are_all = True  # False: a broker does not list its groups
    silent: Collection[str] = ()

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.timeouts: list[float] = []  # with which groups were asked
        monkeypatch.setattr(group_sync, "GroupOffsets", lambda _: self)
        monkeypatch.setattr(group_sync, "ClusterAdmin", lambda _: self)
        for name in ("Translator", "GroupCommits"):
            monkeypatch.setattr(group_sync, name, lambda _: SimpleNamespace())

    def listed_groups(self) -> tuple[Sequence[str], bool]:
        return self.listed, self.are_all

    def partitions(self) -> Mapping[str, int]:
        return {"orders": 1}

    def find_coordinators(self, groups: Iterable[str]) -> None: ...

    def others(self) -> tuple[Mapping[str, str], bool]:
        return {}, True

    def of(self, group: str, _: object, timeout: float = LONG) -> tuple[Mapping[Partition, Committed], dict[Any, str]]:
        self.timeouts.append(timeout)
        if group in self.silent:
            raise ClusterAway("primary", f"no offsets of group {group}")
        return {PARTITION: Committed(7, "")}, {}

    def close(self) -> None: ...


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    return Source(monkeypatch)


def test_groups_whose_coordinator_does_not_answer_hold_up_no_others(source: Source) -> None:
    """A partition of __consumer_offsets is offline. We do not wait long for many groups that it has."""
    sync = GroupSync(flow())
    source.listed = [f"g{number:02}" for number in range(40)]
    source.silent = [*source.listed[:10], *source.listed[11:30]]
    assert set(sync._offsets()) == {"g10", *source.listed[30:]}
    assert sync.refused == {
        each: f"cluster primary does not answer: no offsets of group {each}" for each in source.silent
    }
    assert source.timeouts == 3 * [LONG] + 37 * [SHORT]


@pytest.mark.parametrize(("groups", "asked"), [(40, AWAY_AFTER), (6, 6)])
def test_a_source_of_which_no_coordinator_answers_is_away(source: Source, groups: int, asked: int) -> None:
    sync = GroupSync(flow())
    source.listed = source.silent = [f"g{number:02}" for number in range(groups)]
    with pytest.raises(ClusterAway):
        sync._offsets()
    assert len(source.timeouts) == asked


def test_a_group_is_kept_while_its_broker_lists_none(source: Source, caplog: pytest.LogCaptureFixture) -> None:
    """It is asked for: its coordinator answers, or the group is named with the reason. So it is not forgotten."""
    sync = GroupSync(flow())
    source.listed, source.are_all = [], False
    assert not sync._offsets() and not caplog.records, "nobody knows whether a group matches"
    source.listed, source.are_all = ["a", "b", "c"], True
    assert set(sync._offsets()) == {"a", "b", "c"}
    source.listed, source.are_all, source.silent = ["c", "d"], False, ["b"]
    for _ in range(2):
        assert set(sync._offsets()) == {"a", "c", "d"} and sync.refused.keys() == {"b"}
    source.are_all = True
    assert set(sync._offsets()) == {"c", "d"} and not sync.refused, "the others were deleted"


def test_a_group_of_another_type_stays_named_while_its_broker_does_not_answer(
    source: Source, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And the warning is not written again when the broker answers."""
    answer: tuple[Mapping[str, str], bool]
    monkeypatch.setattr(source, "others", lambda: answer)
    sync: Any = GroupSync(flow())
    with caplog.at_level(logging.WARNING, group_sync.log.name):
        for answer, left_out in (
            (({"a": "share", "b": "share"}, True), {"a", "b"}),
            (({"b": "share"}, False), {"a", "b"}),
            (({"a": "share", "b": "share"}, True), {"a", "b"}),
            (({"b": "share"}, True), {"b"}),
        ):
            assert answer and not sync.round(60.0) and set(sync.left_out) == left_out
    assert [record.message for record in caplog.records].count("a group is left out") == 2
