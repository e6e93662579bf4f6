"""Which of the flows in a circle leaves topic configurations alone: one of them, and all agree on that."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mirror.control.conflicts import OtherFlow, OwnFlow
from mirror.control.kept_configs import configs_from, keeper, kept_note
from mirror.control.plan import Plan
from mirror.control.statement import Statement
from tests.unit.control.test_conflicts import A, B, C, other, ours, plan

T_ALL: dict[str, tuple[str, ...]] = {"t": (A, B, C)}


def flow(source: str, target: str, syncs: bool = True, marked: bool = True) -> OwnFlow:
    return replace(ours("t", clusters=(source, target)), active_active=marked, sync_configs=syncs)


def told(by: OwnFlow, configs: tuple[str, ...]) -> OtherFlow:
    """The flow as it is seen at its target."""
    made: Plan = replace(plan(by.clusters, T_ALL, "t"), active_active=by.active_active, configs_from=configs)
    return other(made, at_source=True)


def settled(*flows: OwnFlow) -> list[tuple[str, ...]]:
    """What the flows, each of which feeds the next one, say once nothing changes any more."""
    said: list[tuple[str, ...]] = [() for _ in flows]
    for _ in range(9):
        before = list(said)
        for number, each in enumerate(flows):
            said[number] = configs_from(each, [told(flows[number - 1], said[number - 1])])
        if said == before:
            return said
    raise AssertionError(said)


@pytest.mark.parametrize(
    ("flows", "said"),
    [
        ((flow(A, B), flow(B, A)), [(A,), ()]),
        ((flow(B, A), flow(A, B)), [(), (A,)]),
        ((flow(A, B), flow(B, A, syncs=False)), [(A,), ()]),
        ((flow(A, B, syncs=False), flow(B, A)), [(), (B,)]),
        ((flow(A, B), flow(B, C), flow(C, A)), [(A,), (A, B), ()]),
        ((flow(B, C), flow(C, A), flow(A, B)), [(A, B), (), (A,)]),
        ((flow(A, B, syncs=False), flow(B, C), flow(C, A)), [(), (B,), (B, C)]),
        ((flow(A, B), flow(B, C), flow(C, A, syncs=False)), [(A,), (A, B), ()]),
        ((flow(A, B, marked=False), flow(B, A, marked=False)), [(), ()]),
    ],
)
def test_in_a_circle_one_flow_leaves_configurations_alone(
    flows: tuple[OwnFlow, ...], said: list[tuple[str, ...]]
) -> None:
    assert settled(*flows) == said
    for number, each in enumerate(flows):
        found = keeper(each, [told(flows[number - 1], said[number - 1])])
        assert (found is not None) == (each.sync_configs and each.active_active and not said[number])


def test_only_a_living_flow_that_brings_a_topic_of_ours_back_keeps_its_configuration() -> None:
    mine, back = flow(B, A), told(flow(A, B), (A,))
    assert keeper(mine, [back]) is back and "flow x->a brings them the other way" in str(kept_note(mine, back))
    assert keeper(mine, [replace(back, alive=False)]) is None
    assert keeper(mine, [replace(back, at_source=False)]) is None
    assert keeper(replace(mine, remotes={"u": "u"}), [back]) is None
    assert keeper(replace(mine, clusters=()), [back]) is None
    assert configs_from(mine, [replace(back, alive=False)]) == (B,)


@pytest.mark.parametrize("said", ["a", 7, [1], [""], None])
def test_a_plan_that_says_nonsense_is_none(said: object) -> None:
    made = replace(plan((A, B), T_ALL, "t"), active_active=True, configs_from=("x",)).encode()
    with pytest.raises(ValueError):
        Statement.decode(json.dumps({**json.loads(made), "configs_from": said}).encode())
