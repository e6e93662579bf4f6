"""Commands that can't do their work with active_active: each says why, and asks no cluster."""

from __future__ import annotations

import io
from typing import Any

import pytest

from mirror.commands.adopt.command import adopt
from mirror.commands.hand_back.command import hand_back
from mirror.control.plan import Plan
from mirror.errors import ConfigError, MirrorError
from mirror.records import shared_topics
from mirror.records.shared_topics import Shared, shared_of
from tests.unit.test_naming import flow

MARKED = flow(active_active=True, replication_policy="identity")
ANY: Any = None


def test_positions_are_neither_adopted_nor_handed_back() -> None:
    with pytest.raises(ConfigError, match="primary->backup has active_active: true, and MirrorMaker's copies lack"):
        adopt(MARKED, ANY, io.StringIO())
    with pytest.raises(ConfigError, match="primary->backup has active_active: true, and MirrorMaker would send"):
        hand_back(MARKED, ANY, io.StringIO())


@pytest.mark.parametrize(
    ("plan", "found"),
    [
        (None, None),
        (Plan("us", 1, {}, (), clusters=("id-a", "id-b")), None),
        (Plan("us", 1, {}, (), active_active=True), None),
        (
            Plan("us", 1, {}, (), clusters=("id-a", "id-b"), active_active=True, unmarked={"t": "id"}),
            Shared("primary", "id-a", "id-b", frozenset({"t"})),
        ),
    ],
)
def test_what_verify_needs_to_know_stands_in_the_plan(
    monkeypatch: pytest.MonkeyPatch, plan: Plan | None, found: Shared | None
) -> None:
    monkeypatch.setattr(shared_topics, "newest_plan", lambda _: (plan, {}))
    assert shared_of(flow()) is None
    if found is None:
        with pytest.raises(MirrorError, match="primary->backup has not run with active_active: true yet"):
            shared_of(MARKED)
    else:
        assert shared_of(MARKED) == found
