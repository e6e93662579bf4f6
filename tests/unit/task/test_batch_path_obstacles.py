"""What the settings and the plan say of whole batches: a table."""

from __future__ import annotations

from typing import Any

import pytest

from mirror.model import Topic
from mirror.settings import Cluster, Flow, TopicSettings
from mirror.task.batch_path_obstacles import obstacle
from tests.unit import test_naming

TOPIC = Topic("r", "id", 1, 1, "remote-id")
DROPS = {"t": TopicSettings(None, None, None, None, None, "shop.drop")}
KEEPS = {"t": TopicSettings(None, None, None, None, None, "none")}


def flow(**changes: Any) -> Flow:
    return test_naming.flow(**{"data_path": "auto", **changes})


def compressing(name: str, value: str, everywhere: bool = False) -> Flow:
    both = {name: value}
    return flow(target=Cluster("backup", both if everywhere else {}, {}, {} if everywhere else both))


@pytest.mark.parametrize(
    ("of", "topic", "reason"),
    [
        (flow(), TOPIC, ""),
        (flow(throttle=1, accept_log_append_time=True, on_poison_record="skip"), TOPIC, ""),
        (flow(), Topic("r", "id", 1, 1, "remote-id", compacted=True), ""),
        (flow(data_path="records"), TOPIC, "data_path"),
        (flow(exactly_once=False), TOPIC, "without_transactions"),
        (flow(active_active=True), TOPIC, "active_active"),
        (flow(transform="shop.change"), TOPIC, "transform"),
        (flow(topic_settings=DROPS), TOPIC, "transform"),
        (flow(transform="shop.change", topic_settings=KEEPS), TOPIC, ""),
        (flow(compression="zstd"), TOPIC, "compression"),
        (compressing("compression.type", "lz4"), TOPIC, "compression"),
        (compressing("compression.codec", "lz4", everywhere=True), TOPIC, "compression"),
        (compressing("compression.type", "none"), TOPIC, ""),
        (flow(), Topic("r", "id", 1, 1, "remote-id", remote_lost=True), "remote_topic"),
        (flow(), Topic("r", "", 1, 1), "unknown_topic"),
    ],
)
def test_who_needs_the_record_path(of: Flow, topic: Topic, reason: str) -> None:
    assert obstacle(of, "t", topic) == reason
