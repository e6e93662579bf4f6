"""What of a new plan an operator may not have meant."""

from __future__ import annotations

import logging
from dataclasses import replace

from mirror.control.plan import Plan
from mirror.model import Topic
from mirror.service.plan_changes import GONE, PlanChange, plan_changes
from mirror.target import timestamps

TOPIC = Topic("a.t", "id", 2, 2, "remote id")
PLAN = Plan("us", 7, {"t": TOPIC}, ())


def changes(topics: dict[str, Topic], *replacing: str) -> list[PlanChange]:
    return list(plan_changes(PLAN, topics, replacing, "backup"))


def test_nothing_to_tell() -> None:
    assert not changes({"t": TOPIC, "new": TOPIC}) and not list(plan_changes(None, {"t": TOPIC}, (), "backup"))


def test_a_topic_that_left_the_plan_has_its_reason() -> None:
    (gone,), (replacing,) = changes({}), changes({}, "a.t")
    assert gone.level == logging.WARNING and gone.fields == {"topic": "t", "reason": GONE}
    assert replacing.fields["reason"] == timestamps.REASON and replacing.event and timestamps.REASON in replacing.event


def test_another_remote_topic() -> None:
    (renamed,) = changes({"t": replace(TOPIC, remote="b.t")})
    assert (renamed.fields["before"], renamed.fields["now"], renamed.event) == ("a.t", "b.t", None)
    (again,) = changes({"t": replace(TOPIC, remote_id="another")})
    assert again.event == "a.t was deleted and created again"


def test_a_deleted_remote_topic_is_an_error_once() -> None:
    lost = replace(TOPIC, remote_lost=True)
    (change,) = changes({"t": lost})
    assert change.level == logging.ERROR and change.event and "backup" in change.event
    assert not list(plan_changes(replace(PLAN, topics={"t": lost}), {"t": lost}, (), "backup"))
