"""What becomes of a group's translated offset."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from mirror.errors import ClusterAway
from mirror.groups import group_sync, patience
from mirror.groups.group_choice import GroupOutcome, choose, is_due
from mirror.groups.group_offsets import Committed
from mirror.groups.group_sync import GroupSync
from mirror.groups.patience import LONG_MAX, TOO_SLOW
from mirror.groups.source_groups import SourceGroups
from mirror.groups.target_offsets import Stands
from mirror.groups.translated import Translation
from mirror.groups.translation import Unknown
from mirror.kafka.cluster import ClusterAdmin, GroupStates
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


class Counted(dict[Partition, Committed]):
    """The offsets of a group; it counts how often one goes through them."""

    gone_through = 0

    def __iter__(self) -> Iterator[Partition]:
        self.gone_through += 1
        return super().__iter__()

    def items(self) -> Any:
        self.gone_through += 1
        return super().items()


@pytest.mark.parametrize("topics", [1, 50])
def test_the_offsets_of_a_group_are_gone_through_as_often_with_many_topics(
    topics: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group may read thousands of topics that are not mirrored."""
    names = [f"other-{n:02}" for n in range(topics)]
    offsets = Counted({Partition(name, n): Committed(n, "") for n in range(2) for name in reversed(names)})

    def unmirrored(_: object, used: Iterable[str]) -> dict[str, str]:
        return dict.fromkeys(used, "excluded")

    monkeypatch.setattr(SourceGroups, "offsets", lambda _: {"billing": offsets})
    monkeypatch.setattr(ClusterAdmin, "offsets", lambda *_: {})
    monkeypatch.setattr(group_sync, "unmirrored", unmirrored)
    sync = GroupSync(flow(), commits=False)
    found = sync.round(60.0)
    assert [each.partition for each in found] == [Partition(name, n) for name in names for n in range(2)]
    assert {(each.outcome, each.reason) for each in found} == {
        (GroupOutcome.UNTRANSLATED, "the topic is not mirrored: excluded")
    }
    assert offsets.gone_through <= 4


GROUPS = [f"g{number}" for number in range(2 * LONG_MAX)]
PARTITIONS = [Partition("orders", 0), Partition("orders", 1), Partition("clicks", 0)]


class World:
    """In place of both clusters: each group has an offset in each partition. It is a translator, too."""

    gives_metadata = True

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.translates = 0.0  # seconds that a translation takes
        self.away: Collection[str] = ()  # groups whose coordinators on the target are away
        self.answers = 1.0  # seconds after which that shows
        self.stands = Stands({}, {}, False)
        self.before: dict[Partition, Committed] = {}
        monkeypatch.setattr(group_sync, "time", self)
        monkeypatch.setattr(patience, "time", self)
        monkeypatch.setattr(group_sync, "unmirrored", lambda *_: {})
        monkeypatch.setattr(ClusterAdmin, "offsets", lambda *_: {})
        monkeypatch.setattr(ClusterAdmin, "group_states", lambda _: GroupStates())
        monkeypatch.setattr(SourceGroups, "offsets", lambda _: {name: self.offsets() for name in GROUPS})
        for name in ("Translator", "TargetOffsets"):
            monkeypatch.setattr(group_sync, name, lambda *_: self)
        one = flow()
        self.sync = GroupSync(flow(groups=replace(one.groups, sync=True)))

    def offsets(self) -> dict[Partition, Committed]:
        return {each: Committed(100, "") for each in PARTITIONS}

    def monotonic(self) -> float:
        return self.now

    def refresh(self, _: object) -> None: ...

    def forget_others(self, _: object) -> None: ...

    def to_downstream(self, partition: Partition, upstream: int) -> Translation:
        self.now += self.translates
        return replace(EXACT, partition=partition)

    def remote_id(self, _: object) -> str:
        return "old"

    @contextmanager
    def round(self, *_: object) -> Iterator[None]:
        yield

    def read(self, group: str, *_: object) -> Any:
        self.now += self.answers
        if group in self.away:
            raise ClusterAway("backup", "no answer in time")
        return self.before, {}

    def commit(self, *_: object) -> Stands:
        return self.stands


def test_a_round_does_not_end_because_translations_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may wait for transactions that are open. Some coordinators are away meanwhile, and others are not."""
    world = World(monkeypatch)
    world.translates, world.away = TOO_SLOW, GROUPS[1:]
    found = world.sync.round(60.0)
    assert {each.group for each in found if each.outcome is GroupOutcome.DENIED} == set(GROUPS[1:])
    world.answers = 2 * TOO_SLOW
    with pytest.raises(ClusterAway):
        world.sync.round(60.0)


def test_of_a_topic_that_was_created_again_no_offset_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would become a checkpoint, and is one of the old topic. Another offset that is denied may become one."""
    world = World(monkeypatch)
    world.stands = Stands({}, {PARTITIONS[2]: "not allowed"}, False, gone={"orders": "another topic"})
    world.before = {PARTITIONS[1]: Committed(99, "")}
    found = {each.partition: each for each in world.sync.round(60.0) if each.group == GROUPS[0]}
    said = [(found[each].outcome, found[each].reason, found[each].downstream) for each in PARTITIONS]
    assert said == [
        (GroupOutcome.DENIED, "another topic", None),
        (GroupOutcome.DENIED, "another topic", None),
        (GroupOutcome.DENIED, "not allowed", 70),
    ]
