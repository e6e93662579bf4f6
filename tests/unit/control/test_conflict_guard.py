"""A flow announces what it is going to copy, and then looks once more at what others have announced meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mirror.control import other_flows
from mirror.control.conflicts import Finding, Key, OwnFlow, lineage
from mirror.control.other_flows import ConflictGuard, View
from mirror.control.plan import Lineage
from mirror.control.statement import Statement
from mirror.errors import Conflict
from mirror.model import Topic
from tests.unit.control.test_conflicts import KEYS, finding
from tests.unit.test_naming import flow

TOPICS = {"t": Topic("primary.t", "id", 1, 1)}


class World:
    """The flow's leader, and what it sees of others at each look."""

    def __init__(self, key: Key) -> None:
        self.identity = "us"
        self.control = SimpleNamespace(plan=None)
        self.said: list[str] = []
        self.findings: list[Finding] = []
        self.meanwhile: list[Finding] = []  # what others announce while we do
        self._key = key

    def has_planned(self, *_: object) -> bool:
        return False

    def announce(self, _: object, __: Lineage) -> None:
        self.said.append("announced")
        self.findings = self.meanwhile

    def stop(self) -> None:
        self.said.append("withdrawn")

    def look(self, remotes: dict[str, str], _: Statement | None, __: str) -> View:
        self.said.append("looked")
        ours = OwnFlow("primary", "backup", ("id-a", "id-b"), remotes)
        return View(ours, tuple(self.findings), lineage(ours, ()), ())

    def key(self, _: str) -> Key:
        return self._key


def guard(world: World, monkeypatch: pytest.MonkeyPatch) -> ConflictGuard:
    monkeypatch.setattr(other_flows, "OtherFlows", lambda *_, **__: world)
    any_: Any = world
    made = ConflictGuard(flow(), any_)
    made.permit({"t": "primary.t"})
    return made


def test_who_is_alone_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(KEYS[0])
    found = guard(world, monkeypatch).agree(TOPICS)
    assert found == Lineage(("id-a", "id-b"), {"primary.t": ("id-a",)})
    assert world.said == ["looked", "announced", "looked"]


@pytest.mark.parametrize(("own", "others", "gives_way"), [(0, 1, False), (1, 0, True)])
def test_of_two_that_announce_at_once_neither_copies_at_once(
    monkeypatch: pytest.MonkeyPatch, own: int, others: int, gives_way: bool
) -> None:
    """One of them waits until the other has withdrawn."""
    world = World(KEYS[own])
    made = guard(world, monkeypatch)
    world.meanwhile = [finding(KEYS[others], copies=False)]
    with pytest.raises(Conflict) as raised:
        made.agree(TOPICS)
    assert raised.value.gave_way is gives_way
    assert world.said == ["looked", "announced", "looked", *(["withdrawn"] if gives_way else [])]
