"""How throttles are divided among the tasks: never more than the throttle together, and nothing for nobody."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence

import pytest

from mirror.control.next_plan import next_plan
from mirror.control.plan import Lineage, Plan
from mirror.control.task_settings import TaskSettings
from mirror.control.throttle_shares import LEAST, OF_FLOW, ROOM, STEADY, Load, Parts, Share, divided, shares, throttles
from mirror.decode import DecodeError
from mirror.model import Partition, Topic
from mirror.settings import TopicSettings
from tests.harness.seeds import seed
from tests.unit.test_naming import flow

A0, A1, A2, B0 = Partition("a", 0), Partition("a", 1), Partition("a", 2), Partition("b", 0)
Slices = Sequence[Sequence[Partition]]


def limit(of_flow: int) -> dict[str, int]:
    return {OF_FLOW: of_flow}


def test_the_throttles_of_a_flow() -> None:
    entries = {name: TopicSettings(None, None, None, None, limit) for name, limit in (("a", 7_000), ("b", None))}
    assert throttles(None, {}) == {} and throttles(None, entries) == {"a": 7_000}
    assert throttles(9_000, entries) == {OF_FLOW: 9_000, "a": 7_000}


@pytest.mark.parametrize(
    ("limits", "slices", "expected"),
    [
        pytest.param({}, [[A0], [B0]], [{}, {}], id="none"),
        pytest.param(limit(4_000), [[A0, A1, A2], [B0]], [{OF_FLOW: 3_000}, {OF_FLOW: 1_000}], id="a flow"),
        pytest.param({"a": 3_000}, [[A0, B0], [A1, A2]], [{"a": 1_000}, {"a": 2_000}], id="a topic"),
        pytest.param({"b": 3_000}, [[A0], [B0]], [{"b": 0}, {"b": 3_000}], id="of which one has nothing"),
        pytest.param({"c": 3_000}, [[A0], [B0]], [{"c": 0}, {"c": 0}], id="a topic that is not there"),
        pytest.param({OF_FLOW: 8_000, "a": 3_000}, [[A0], []], [{OF_FLOW: 8_000, "a": 3_000}, {OF_FLOW: 0, "a": 0}],
                     id="both, and an empty slice"),
    ],
)  # fmt: skip
def test_a_throttle_is_divided_by_the_number_of_partitions(
    limits: dict[str, int], slices: Slices, expected: list[dict[str, float]]
) -> None:
    found = [shares(limits, slices, {}, index) for index in range(len(slices))]
    assert [{name: share.rate for name, share in each.items()} for each in found] == expected


def test_a_throttle_is_divided_as_the_plan_says() -> None:
    parts: dict[str, Parts] = {OF_FLOW: (0.25, 0.75), "a": (1.0,), "other": (0.5, 0.5)}
    found = shares({OF_FLOW: 4_000, "a": 1_000}, [[A0], [A1]], parts, 0)
    assert found == {OF_FLOW: Share(4_000, 1_000.0), "a": Share(1_000, 500.0)}, "that of other slices does not count"


@pytest.mark.parametrize(
    ("slices", "load", "expected"),
    [
        pytest.param([[A0], [B0]], Load(), None, id="nothing is known"),
        pytest.param([[A0], [B0]], Load({A0: 100.0}, {A0, B0}), None, id="all are throttled"),
        pytest.param([[A0, B0]], Load({}, {A0}), None, id="there is one task"),
        pytest.param([[A0], [B0]], Load({A0: 500.0}, {A0}), (1 - LEAST / 2, LEAST / 2), id="one is idle"),
        pytest.param([[A0], [B0]], Load({B0: 200.0}, {A0}), (1 - 0.2 * ROOM, 0.2 * ROOM), id="one needs little"),
        pytest.param([[A0], [B0]], Load({A0: 500.0, B0: 450.0}, {A0}), None, id="one needs nearly its half"),
        pytest.param([[A0, A1], [A2], [B0]], Load({}, {A0, A2}), (0.65, 0.325, 0.025), id="the rest by partitions"),
        pytest.param([[A0], [B0], []], Load({}, {A0}), (1 - LEAST / 2, LEAST / 2, 0.0), id="an empty slice"),
    ],
)  # fmt: skip
def test_who_uses_little_lends_to_who_is_throttled(slices: Slices, load: Load, expected: Parts | None) -> None:
    found = divided(limit(1_000), slices, load, {})
    assert found == ({OF_FLOW: pytest.approx(expected)} if expected else {})


def test_a_small_change_is_no_reason_for_another_plan() -> None:
    slices, load = [[A0], [B0]], Load({B0: 200.0}, {A0})
    before = divided(limit(1_000), slices, load, {})
    assert divided(limit(1_000), slices, Load({B0: 260.0}, {A0}), before) == before
    assert divided(limit(1_000), slices, Load({B0: 300.0}, {A0}), before) != before
    assert divided(limit(1_000), slices, Load({}, {A0, B0}), before) == {}, "as by their number again"
    assert divided({}, slices, load, before) == {}, "the throttle is lifted"


@pytest.mark.parametrize(
    "known", [(1.0, 0.0), (0.9, 0.04), (0.9, 0.05, 0.05)], ids=["nothing", "less than the least", "other slices"]
)
def test_nobody_gets_nothing_because_it_was_so_before(known: Parts) -> None:
    assert divided(limit(1_000), [[A0], [B0]], Load({}, {A0}), {OF_FLOW: known})[OF_FLOW] == pytest.approx((0.95, 0.05))


def test_whatever_is_known_all_shares_together_are_the_throttle() -> None:
    chance = random.Random(seed())
    limits = {OF_FLOW: 10_000, "a": 7_000}
    before: dict[str, Parts] = {}
    for _ in range(200):
        slices: list[list[Partition]] = [[] for _ in range(chance.randint(1, 9))]
        for topic in "abc":
            for number in range(chance.randint(0, 20)):
                chance.choice(slices).append(Partition(topic, number))
        everywhere = [partition for each in slices for partition in each]
        rates = {partition: chance.choice((0.0, 10.0, 3_000.0)) for partition in everywhere}
        load = Load(rates, {partition for partition in everywhere if chance.random() < 0.2})
        before = divided(limits, slices, load, before)
        found = [shares(limits, slices, before, index) for index in range(len(slices))]
        for name, whole in limits.items():
            counts = [sum(name in (OF_FLOW, each.topic) for each in mine) for mine in slices]
            assert sum(each[name].rate for each in found) == pytest.approx(whole if any(counts) else 0)
            for count, each in zip(counts, found, strict=True):
                assert each[name].rate >= 0.99 * LEAST * whole * count / max(1, sum(counts))
                assert (each[name].rate > 0) is (count > 0)


@pytest.mark.parametrize(
    ("demands", "reached"),
    [
        ((9.0, 9.0), (0.5, 0.5)),
        ((9.0, 0.0), (0.95, 0.0)),
        ((9.0, 0.3), (1 - 0.3 * ROOM, 0.3)),
        ((0.7, 0.2), (0.7, 0.2)),
        ((0.2, 0.2), (0.2, 0.2)),
    ],
)
def test_look_after_look_each_gets_what_there_is(demands: tuple[float, ...], reached: tuple[float, ...]) -> None:
    """The shares settle from any beginning, and then they rest. The demands are parts of the throttle."""
    slices = [[A0], [B0]]
    for start in ((0.5, 0.5), (0.05, 0.95), (0.95, 0.05)):
        before: Mapping[str, Parts] = {OF_FLOW: start}
        plans = []
        for _ in range(20):
            parts = before.get(OF_FLOW, (0.5, 0.5))
            used = [min(pair) for pair in zip(demands, parts, strict=True)]
            rates = {A0: 1_000 * used[0], B0: 1_000 * used[1]}
            slowed = {p for p, wants, part in zip((A0, B0), demands, parts, strict=True) if wants > part}
            before = divided(limit(1_000), slices, Load(rates, slowed), before)
            plans.append(before)
        assert used == pytest.approx(reached, abs=STEADY)
        assert plans[10:] == [plans[10]] * 10


def plan_of(load: Load, previous: Plan | None = None) -> Plan:
    settings = TaskSettings.of(flow(throttle=1_000), "info")
    dealt = frozenset({A0}), frozenset({Partition("a", 1)})
    return next_plan(previous, "us", {"a": Topic("r", "id", 2, 2)}, dealt, 1, load, Lineage(), {}, 1.0, settings)


def test_the_plan_carries_it() -> None:
    plan = plan_of(Load())
    assert b"throttle_parts" not in plan.encode()
    hungry, idle = (next(iter(each)) for each in plan.slices)
    lent = plan_of(Load({}, {hungry}), plan)
    assert lent.throttle_parts == {OF_FLOW: pytest.approx((0.95, 0.05))} and idle != hungry
    assert Plan.decode(lent.encode()) == lent
    assert plan_of(Load({}, {hungry}), lent).throttle_parts == lent.throttle_parts


@pytest.mark.parametrize(
    "parts", [{"": [2.0]}, {"": [-1]}, {"": "1"}, {"": None}, {"no/topic": [1]}, [], {"a": [True]}, {"a": ["1"]}]
)
def test_what_a_stranger_has_written_is_refused(parts: object) -> None:
    raw = json.loads(plan_of(Load()).encode()) | {"throttle_parts": parts}
    with pytest.raises(DecodeError, match="throttle_parts"):
        Plan.decode(json.dumps(raw).encode())
