"""What a group round commits on the target, and what it says of what it could not commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.groups import target_offsets
from mirror.groups.group_offsets import Committed
from mirror.groups.target_offsets import Stands, TargetOffsets
from mirror.model import Partition
from mirror.wire.offsets import Where
from tests.unit.test_naming import flow

PARTITIONS = [Partition("orders", number) for number in range(3)]
WHERE = [("primary.orders", number) for number in range(3)]
WANTED = {each: Committed(7, "mine") for each in PARTITIONS}
RENEW = 60.0


class Target:
    """In place of the target: `answer` says what becomes of a commit. `commits` are those that came."""

    def __init__(self) -> None:
        self.commits: list[Mapping[Where, Committed]] = []
        self.answer: Callable[[Mapping[Where, Committed]], Any] = lambda offsets: (dict(offsets), {})
        self.ids = {"primary.orders": "id"}

    def ids_now(self, names: Collection[str]) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        return {name: self.ids[name] for name in names if name in self.ids}, {}

    def commit(self, group: str, offsets: Mapping[Where, Committed], *_: object) -> Any:
        self.commits.append(offsets)
        return self.answer(offsets)

    @contextmanager
    def round(self, groups: Collection[str]) -> Iterator[None]:
        yield


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    made = Target()
    monkeypatch.setattr(target_offsets, "GroupCommits", lambda _: made)
    return made


@pytest.fixture
def offsets(target: Target) -> TargetOffsets:
    translator = SimpleNamespace(remote=lambda topic: f"primary.{topic}", remote_id=lambda _: "id")
    return TargetOffsets(flow(), target, translator)  # type: ignore[arg-type]


def commit(offsets: TargetOffsets, before: Mapping[Partition, Committed]) -> Stands:
    return offsets.commit("g", WANTED, before, RENEW, until=0.0, timeout=1.0)


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
