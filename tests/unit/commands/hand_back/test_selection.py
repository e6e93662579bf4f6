"""Which positions `mirror hand-back` hands back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirror.commands import moved_partition
from mirror.commands.hand_back import selection
from mirror.commands.hand_back.selection import HandBackResult, Known, needed, select
from mirror.control.decisions import Incident
from mirror.control.orders import Order, Scope
from mirror.control.plan import Plan
from mirror.model import Partition, Position, Topic
from mirror.settings import TopicSettings
from mirror.target.connect_offsets import Recorded
from tests.unit.test_naming import OWN, flow

HERE = Partition("orders", 0)
TOPIC = Topic("primary.orders", "source-1", 1, 1, "remote-1")
PLAN = Plan("leader", 3, {"orders": TOPIC}, (), stop=True)
AT_7 = Position(7, "source-1", remote_id="remote-1")
KNOWN = Known(PLAN, {HERE: AT_7}, {}, {}, {}, {}, {})


def result(overwrite: bool = False, **changes: Any) -> HandBackResult:
    (found,) = select(flow(), replace(KNOWN, **changes), overwrite)
    return found


def test_a_position_is_handed_back() -> None:
    assert result() == HandBackResult(HERE, Partition("primary.orders", 0), "would be handed back", "", None, 7)
    assert result(recorded={HERE: Recorded(5)}).recorded == 5


@pytest.mark.parametrize(
    ("changes", "outcome", "reason"),
    [
        ({"positions": {HERE: None}}, "left alone", selection.NOTHING),
        ({"positions": {HERE: None}, "recorded": {HERE: Recorded(5)}}, "left alone", selection.STAYS),
        ({"positions": {HERE: AT_7.handed_back("remote-1")}}, "left alone", selection.DONE),
        ({"positions": {HERE: Position(7, "")}}, "refused", moved_partition.FOREIGN),
        ({"positions": {HERE: replace(AT_7, topic_id="source-0")}}, "refused", "was deleted"),
        ({"positions": {HERE: replace(AT_7, remote_id="remote-0")}}, "refused", "not the topic that had the copy"),
        ({"positions": {HERE: None}, "reported": {HERE: AT_7}}, "refused", "is gone"),
        ({"reported": {HERE: replace(AT_7, offset=9)}}, "refused", "went back from 9 to 7"),
        ({"positions": {}, "problems": {HERE: "no answer"}}, "refused", "no answer"),
        ({"recorded": {HERE: Recorded(8)}}, "refused", selection.AHEAD),
    ],
)
def test_what_is_not_handed_back(changes: dict[str, Any], outcome: str, reason: str) -> None:
    found = result(**changes)
    assert found.outcome == outcome and reason in found.reason


def test_mirrormakers_position_is_overwritten_on_demand_and_if_it_is_the_same() -> None:
    assert result(overwrite=True, recorded={HERE: Recorded(8)}).outcome == "would be handed back"
    assert result(recorded={HERE: Recorded(7)}).outcome == "would be handed back"
    assert result(recorded={HERE: Recorded(-1, "can't be decoded")}).outcome == "would be handed back"


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"positions": {HERE: replace(AT_7, offset=0)}}, selection.FROM_START),
        ({"orders": {Scope("orders"): Order(paused=True)}}, selection.PAUSED),
        ({"plan": replace(PLAN, topics={}, retired={"orders": TOPIC})}, selection.RETIRED),
        ({"incidents": {HERE: Incident("deleted", "source-1")}}, selection.LOST),
        ({"incidents": {HERE: Incident("refused", "source-1")}}, selection.REFUSED),
    ],
)
def test_what_mirrormaker_does_otherwise_is_told(changes: dict[str, Any], note: str) -> None:
    found = result(**changes)
    assert (found.outcome, found.reason) == ("would be handed back", note)


def test_without_exactly_once_a_crash_leaves_doubt() -> None:
    crashed = replace(KNOWN, plan=replace(PLAN, stop=False))
    (found,) = select(flow(exactly_once=False), crashed, False)
    assert (found.outcome, found.reason) == ("would be handed back", selection.UNSURE)
    for sure in (select(flow(), crashed, False), select(flow(exactly_once=False), KNOWN, False)):
        assert not sure[0].reason


def test_what_mirrormaker_has_besides_stays() -> None:
    other = Partition("strange", 0)
    found = select(flow(), replace(KNOWN, recorded={other: Recorded(5)}), False)
    assert found[-1] == HandBackResult(other, None, "left alone", selection.STAYS, 5)


def test_mirrormaker_needs_the_same_names() -> None:
    assert not any("replication.policy" in each for each in needed(flow()))
    assert f"primary->backup.replication.policy.class = {selection.IDENTITY}" in needed(
        flow(replication_policy="identity")
    )
    assert "replication.policy.separator = _" in needed(flow(separator="_"))
    assert "replication.policy.separator = _" in needed(flow(remote_topic="{source}_{topic}"))
    assert needed(flow(remote_topic="{topic}")) == needed(flow(replication_policy="identity"))
    settings = {"orders": TopicSettings("eu", None, None, None, None), "b": TopicSettings(None, 0, None, None, None)}
    assert "(a policy class of yours that names the remote topics of orders: eu)" in needed(
        flow(topic_settings=settings)
    )
    own = "primary->backup.replication.policy.class = (a class of yours that names remote topics eu-{topic})"
    assert own in needed(flow(remote_topic="eu-{topic}"))
    asked = "primary->backup.replication.policy.class = (a class of yours that does what tests.unit.test_naming.Dashes"
    assert f"{asked} does)" in needed(flow(**OWN))
