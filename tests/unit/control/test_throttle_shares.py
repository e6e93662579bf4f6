"""Each task's share of the throttles: in proportion to its partitions, and never more than the throttle together."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from mirror.control.throttle_shares import OF_FLOW, Share, shares
from mirror.model import Partition
from mirror.settings import Flow, TopicSettings
from tests.harness.seeds import seed
from tests.unit.test_naming import flow

A0, A1, A2, B0 = Partition("a", 0), Partition("a", 1), Partition("a", 2), Partition("b", 0)


def throttled(of_flow: int | None, **of_topics: int | None) -> Flow:
    entries = {name: TopicSettings(None, None, None, None, limit) for name, limit in of_topics.items()}
    return flow(throttle=of_flow, topic_settings=entries)


@pytest.mark.parametrize(
    ("settings", "slices", "expected"),
    [
        pytest.param(throttled(None), [[A0], [B0]], [{}, {}], id="none"),
        pytest.param(throttled(None, a=None), [[A0]], [{}], id="an entry without one"),
        pytest.param(throttled(4_000), [[A0, A1, A2], [B0]], [{OF_FLOW: 3_000}, {OF_FLOW: 1_000}], id="a flow"),
        pytest.param(throttled(None, a=3_000), [[A0, B0], [A1, A2]], [{"a": 1_000}, {"a": 2_000}], id="a topic"),
        pytest.param(throttled(None, b=3_000), [[A0], [B0]], [{"b": 0}, {"b": 3_000}], id="of which one has nothing"),
        pytest.param(throttled(None, c=3_000), [[A0], [B0]], [{"c": 0}, {"c": 0}], id="a topic that is not there"),
        pytest.param(throttled(8_000, a=3_000), [[A0], []], [{OF_FLOW: 8_000, "a": 3_000}, {OF_FLOW: 0, "a": 0}],
                     id="both, and an empty slice"),
    ],
)  # fmt: skip
def test_shares(settings: Flow, slices: Sequence[Sequence[Partition]], expected: list[dict[str, float]]) -> None:
    found = [shares(settings, slices, index) for index in range(len(slices))]
    assert [{name: share.rate for name, share in each.items()} for each in found] == expected


def test_a_share_knows_its_throttle() -> None:
    assert shares(throttled(4_000), [[A0], [A1]], 0) == {OF_FLOW: Share(4_000, 2_000.0)}


def test_all_shares_together_are_the_throttle() -> None:
    chance = random.Random(seed())
    for _ in range(50):
        slices: list[list[Partition]] = [[] for _ in range(chance.randint(1, 9))]
        for topic in "abc":
            for number in range(chance.randint(0, 20)):
                chance.choice(slices).append(Partition(topic, number))
        found = [shares(throttled(10_000, a=7_000), slices, index) for index in range(len(slices))]
        everywhere = [partition for each in slices for partition in each]
        assert sum(each[OF_FLOW].rate for each in found) == pytest.approx(10_000 if everywhere else 0)
        assert sum(each["a"].rate for each in found) == pytest.approx(7_000 if Partition("a", 0) in everywhere else 0)
        for mine, each in zip(slices, found, strict=True):
            assert (each[OF_FLOW].rate > 0) is bool(mine), "no partition gets nothing"
