"""Which of mirror's positions `mirror hand-back` marks as handed back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from mirror.commands.hand_back import ending
from mirror.commands.hand_back.selection import HandBackResult, Known
from mirror.control.plan import Plan
from mirror.errors import ClusterAway
from mirror.model import Partition, Position, Topic
from mirror.settings import Flow
from tests.unit.test_naming import flow

ORDERS = [Partition("orders", number) for number in range(3)]
TOPIC = Topic("primary.orders", "source-1", 3, 3, "remote-1")
AT_7 = Position(7, "source-1", remote_id="remote-1")
KNOWN = Known(Plan("leader", 3, {"orders": TOPIC}, (), stop=True), dict.fromkeys(ORDERS, AT_7), {}, {}, {}, {}, {})
HANDED = [HandBackResult(each, Partition("primary.orders", each.partition), "handed back", "", 5, 7) for each in ORDERS]


class Target:
    """In place of the target: what each partition's owner finds there, and what was committed."""

    def __init__(self) -> None:
        self.stands: dict[Partition, Position | Exception | None] = dict.fromkeys(ORDERS, AT_7)

    def commit_as_owner(
        self, _: Flow, partition: Partition, topic: Topic, *__: object, choose: Callable[[Position | None], Any]
    ) -> None:
        assert topic == TOPIC
        found = self.stands[partition]
        if isinstance(found, Exception):
            raise found
        self.stands[partition] = choose(found) or found


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    made = Target()
    monkeypatch.setattr(ending, "commit_as_owner", lambda *args: made.commit_as_owner(*args[:-1], choose=args[-1]))
    monkeypatch.setattr(ending, "PositionReader", lambda *_: None)
    monkeypatch.setattr(ending, "group_reader", lambda *_: None)
    monkeypatch.setattr(ending, "closing", nullcontext)
    return made


def give_up(results: list[HandBackResult]) -> list[tuple[str, str]]:
    done: list[None] = []
    found = ending.give_up(flow(), results, KNOWN, lambda: done.append(None))
    assert len(done) == sum(each.outcome == "handed back" for each in results)
    return [(each.outcome, each.reason) for each in found]


def test_positions_are_marked(target: Target) -> None:
    assert give_up(HANDED) == [("handed back", "")] * 3
    assert target.stands == dict.fromkeys(ORDERS, AT_7.handed_back("remote-1"))


def test_a_position_that_a_service_has_moved_meanwhile_is_refused(target: Target) -> None:
    """Whoever marked it would put it back, and MirrorMaker would copy records a second time."""
    moved = Position(1_100, "source-1", remote_id="remote-1")
    target.stands |= {ORDERS[0]: moved, ORDERS[2]: ClusterAway("backup", "no producer id")}
    first, second, third = give_up(HANDED)
    assert (first, second) == (("refused", ending.MOVED), ("handed back", ""))
    assert third[0] == "refused" and third[1].startswith(ending.NOT_MARKED) and "no producer id" in third[1]
    assert target.stands[ORDERS[0]] == moved


def test_what_was_not_handed_back_is_not_marked(target: Target) -> None:
    others = [HandBackResult(each, None, "refused", "why") for each in ORDERS]
    assert give_up(others) == [("refused", "why")] * 3
    assert target.stands == dict.fromkeys(ORDERS, AT_7)
