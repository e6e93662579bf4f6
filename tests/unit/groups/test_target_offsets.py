"""What a group round commits on the target, and what it says of what it could not commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from mirror.groups import target_offsets
from mirror.groups.group_commits import PART_MAX, TooLate
from mirror.groups.group_offsets import Committed
from mirror.groups.target_offsets import Stands, TargetOffsets
from mirror.kafka.cluster import GroupStates
from mirror.model import Partition
from mirror.wire.offsets import Where
from tests.unit.test_naming import flow

PARTITIONS = [Partition("orders", number) for number in range(3)]
WHERE = [("primary.orders", number) for number in range(3)]
WANTED = {each: Committed(7, "mine") for each in PARTITIONS}
RENEW = 60.0
NO_GROUPS = GroupStates()


class Target:
    """In place of the target: `answer` says what becomes of a commit. `commits` are those that came."""

    def __init__(self) -> None:
        self.commits: list[Mapping[Where, Committed]] = []
        self.answer: Callable[[Mapping[Where, Committed]], Any] = lambda offsets: (dict(offsets), {})
        self.ids = {"primary.orders": "id"}
        self.config: Mapping[str, str] | None = {"offsets.retention.minutes": "30"}
        self.kept: Mapping[str, float] = {}
        self.are_stable: list[bool] = []  # for each question for offsets

    def ids_now(self, names: Collection[str]) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        return {name: self.ids[name] for name in names if name in self.ids}, {}

    def commit(self, group: str, offsets: Mapping[Where, Committed], *_: object) -> Any:
        self.commits.append(offsets)
        return self.answer(offsets)

    @contextmanager
    def round(self, groups: Collection[str], keep: Mapping[str, float]) -> Iterator[None]:
        self.kept = keep
        yield

    def of(self, group: str, names: Mapping[Partition, Where], timeout: float, stable: bool = False) -> Any:
        self.are_stable.append(stable)
        return {}, {}

    def brokers(self) -> list[int]:
        return [1]

    def broker_config(self, broker: int) -> Mapping[str, str]:
        if self.config is None:
            raise KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED))
        return self.config


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    made = Target()
    monkeypatch.setattr(target_offsets, "GroupCommits", lambda _: made)
    reader = SimpleNamespace(find_coordinators=lambda _: None, of=made.of, close=lambda: None)
    monkeypatch.setattr(target_offsets, "GroupOffsets", lambda _: reader)
    return made


@pytest.fixture
def offsets(target: Target) -> TargetOffsets:
    translator = SimpleNamespace(remote=lambda topic: f"primary.{topic}", remote_id=lambda _: "id")
    return TargetOffsets(flow(), target, translator)  # type: ignore[arg-type]


def commit(
    offsets: TargetOffsets,
    before: Mapping[Partition, Committed],
    states: GroupStates = NO_GROUPS,
    wanted: Mapping[Partition, Committed] = WANTED,
) -> Stands:
    with offsets.round(["g"], states, RENEW):
        return offsets.commit("g", wanted, before, until=0.0, timeout=1.0)


def test_members_of_a_group_are_no_error_of_a_partition_even_where_another_one_has_an_error(
    target: Target, offsets: TargetOffsets
) -> None:
    first, second, third = PARTITIONS
    target.answer = lambda _: ({WHERE[0]: WANTED[first]}, {WHERE[1]: "not allowed"})
    assert commit(offsets, {}) == Stands({first: WANTED[first]}, {second: "not allowed"}, has_members=True)
    target.answer = lambda _: None
    before = {first: WANTED[first]}
    assert commit(offsets, before) == Stands({first: WANTED[first]}, {}, has_members=True)
    assert target.commits[-1].keys() == {WHERE[1], WHERE[2]}, "the first one was just committed"
    assert third not in commit(offsets, {}).offsets


def test_offsets_of_a_group_that_had_members_are_committed_with_the_time_for_which_they_are_kept(
    target: Target, offsets: TargetOffsets
) -> None:
    """Otherwise Kafka counts that time from when the last member has left."""
    emptied = GroupStates(emptied={"g"})
    for states, config, keep in (
        (NO_GROUPS, "30", {}),
        (GroupStates(are_all=False), "30", {"g": 1800.0}),
        (emptied, "30", {"g": 1800.0}),
        (emptied, "1", {"g": 600.0}),  # the interval was learned before somebody has altered it
        (emptied, "?", {"g": 600.0}),
    ):
        target.config = {"offsets.retention.minutes": config}
        assert commit(offsets, {}, states).offsets == WANTED and target.kept == keep
    target.config = None
    assert commit(offsets, {}, emptied).offsets == WANTED and target.kept == {"g": 600.0}


def test_an_offset_that_stays_the_same_is_committed_again_when_it_is_due(
    target: Target, offsets: TargetOffsets, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    for clock.now, commits in ((0.0, 1), (RENEW, 1), (RENEW + 1, 2), (RENEW + 2, 2)):
        commit(offsets, WANTED)
        assert len(target.commits) == commits
    offsets.forget_others(())
    commit(offsets, WANTED)
    assert len(target.commits) == 3, "nobody knows when it was committed"


def test_an_offset_that_a_transaction_still_holds_is_not_taken_for_the_group_s(
    target: Target, offsets: TargetOffsets
) -> None:
    """A commit that is made before the transaction's marker comes would undo the transaction's."""
    with offsets.round(["g"], NO_GROUPS, RENEW):
        offsets.read("g", PARTITIONS, 1.0)
    assert target.are_stable == [True]


def test_of_a_topic_that_was_created_again_meanwhile_nothing_is_committed(
    target: Target, offsets: TargetOffsets
) -> None:
    """No partition of it, even if it is not due. Other topics get their offsets."""
    other = Partition("clicks", 0)
    wanted = {**WANTED, other: Committed(8, "mine")}
    target.ids = {"primary.orders": "another", "primary.clicks": "id"}
    before = dict.fromkeys(PARTITIONS[:1], WANTED[PARTITIONS[0]])
    offsets._written["g", PARTITIONS[0]] = time.monotonic()
    reason = "primary.orders is gone, or another topic has its name since the group round began"
    stands = commit(offsets, before, wanted=wanted)
    assert stands == Stands({other: wanted[other]}, {}, has_members=False, gone={"orders": reason})
    assert [list(each) for each in target.commits] == [[("primary.clicks", 0)]]


LARGE = {each: Committed(7, PART_MAX // 2 * "x") for each in PARTITIONS}  # each one needs a commit of its own


def test_what_is_too_much_for_one_commit_is_committed_in_parts(target: Target, offsets: TargetOffsets) -> None:
    assert commit(offsets, {}, wanted=LARGE) == Stands(LARGE, {}, has_members=False)
    assert [list(each) for each in target.commits] == [[where] for where in WHERE]
    target.commits.clear()
    target.answer = lambda _: None
    assert commit(offsets, {}, wanted=LARGE) == Stands({}, {}, has_members=True)
    assert len(target.commits) == 1, "the group has members for the other parts, too"


def test_the_parts_before_one_that_comes_too_late_are_not_committed_again(
    target: Target, offsets: TargetOffsets
) -> None:
    """Otherwise the parts that take longest would come too late each time."""

    def late(made: Mapping[Where, Committed]) -> Any:
        if WHERE[2] in made:
            raise TooLate("backup", "its offsets there were read too long ago")
        return dict(made), {}

    target.answer = late
    with pytest.raises(TooLate):
        commit(offsets, {}, wanted=LARGE)
    target.commits.clear()
    target.answer = lambda made: (dict(made), {})
    before = {each: LARGE[each] for each in PARTITIONS[:2]}
    assert commit(offsets, before, wanted=LARGE).offsets == LARGE
    assert [list(each) for each in target.commits] == [[WHERE[2]]]
