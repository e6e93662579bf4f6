"""Which transform a topic has."""

from __future__ import annotations

from mirror.settings import Heartbeats, TopicSettings
from mirror.topic_transform import transform_of
from tests.unit.test_naming import flow


def test_the_transform_of_a_topic() -> None:
    own = {"plain": "none", "special": "shop.special", "named": None}
    settings = {topic: TopicSettings(None, None, None, None, None, path) for topic, path in own.items()}
    some = flow(transform="shop.masked", topic_settings=settings, heartbeats=Heartbeats(True, 1.0))
    topics = ("other", "named", "plain", "special", "heartbeats", "a.heartbeats", "mirror-canary.primary.internal")
    assert [transform_of(some, topic) for topic in topics] == [
        *["shop.masked"] * 2,
        None,
        "shop.special",
        *[None] * 3,
    ]
    assert some.transforms == ("shop.masked", "shop.special")
    assert transform_of(flow(), "other") is None and flow().transforms == ()
    beats = Heartbeats(True, 1.0)
    own_policy = flow(transform="shop.masked", replication_policy="no_such_module.Policy", heartbeats=beats)
    assert [transform_of(own_policy, topic) for topic in ("a.heartbeats", "other")] == [None, "shop.masked"]
