"""Which flows conflict, and that two conflicting flows never both copy: the rules, and a model of their use."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mirror.control.conflicts import (
    ConflictingFlow,
    Key,
    OtherFlow,
    OwnFlow,
    conflict,
    copied_before,
    copied_before_refusal,
    has_unknown_origin,
    is_relevant,
    lineage,
    old_copies,
    old_copies_refusal,
    refusal,
    rule,
    warning,
)
from mirror.control.plan import Lineage, Plan
from mirror.control.statement import ORIGINS_MAX, Statement
from mirror.kafka.clients import INTERNAL_MAX
from mirror.model import Topic

A, B, C, D = "id-a", "id-b", "id-c", "id-d"


def ours(*topics: str, prefix: str = "", clusters: tuple[str, ...] = (A, B), siblings: tuple[str, ...] = ()) -> OwnFlow:
    return OwnFlow("a", "b", clusters, {topic: prefix + topic for topic in topics}, siblings)


def plan(clusters: tuple[str, ...], origins: dict[str, tuple[str, ...]], *topics: str, prefix: str = "") -> Plan:
    known = {topic: Topic(prefix + topic, "id", 1, 1) for topic in topics}
    return Plan("them", 7, known, (), clusters=clusters, origins=origins)


def other(made: Plan, at_source: bool = False) -> OtherFlow:
    on = "a" if at_source else "b"
    key = Key("them", A if at_source else B, "mirror-control.x.internal")
    return OtherFlow(key, f"x->{on}", on, at_source, Statement.decode(made.encode()), True)


ONE_WAY = ours("t", "u")


@pytest.mark.parametrize(
    ("flow", "met", "why"),
    [
        # At the source: records that come back.
        (ONE_WAY, other(plan((B, A), {"t": (B,)}, "t"), True), "t of a comes from b"),
        (ONE_WAY, other(plan((C, A), {"t": (C, B)}, "t"), True), "t of a comes from b"),
        (ONE_WAY, other(plan((C, A), {"t": (C, D)}, "t"), True), ""),
        (ONE_WAY, other(plan((B, A), {"other": (B,)}, "other"), True), ""),
        (ONE_WAY, other(plan((B, A), {}, "t"), True), "t of a comes from b"),
        (ours("b.t", prefix="a."), other(plan((B, A), {"b.t": (B,)}, "t", prefix="b."), True), "b.t of a comes from b"),
        (ours("t", prefix="a."), other(plan((B, A), {"b.t": (B,)}, "t", prefix="b."), True), ""),
        (ONE_WAY, other(plan((), {}, "t"), True), ""),
        (ours("t", clusters=()), other(plan((B, A), {"t": (B,)}, "t"), True), ""),
        # At the target: two flows that write one topic, and one cluster that is copied twice.
        (ONE_WAY, other(plan((C, B), {"t": (C,)}, "t")), "both write to t on b"),
        (ours("b.t", prefix="a."), other(plan((C, B), {}, "t", prefix="a.b.")), "both write to a.b.t on b"),
        (ONE_WAY, other(plan((), {}, "t")), "both write to t on b"),
        (ONE_WAY, other(plan((C, B), {}, "t", prefix="c.")), ""),
        (ONE_WAY, other(plan((A, B), {}, "t", prefix="x.")), "both copy t from one cluster (id-a), under two aliases"),
        (ours("t", siblings=("them",)), other(plan((A, B), {}, "t", prefix="x.")), ""),
        (ours("t", siblings=("them",)), other(plan((A, B), {}, "t")), "both write to t on b"),
        (ONE_WAY, other(plan((A, B), {}, "v", prefix="x.")), ""),
        (ONE_WAY, other(plan((), {}, "t", prefix="x.")), ""),
        (ONE_WAY, other(plan((C, B), {}, "b")), ""),
    ],
)
def test_which_flows_conflict(flow: OwnFlow, met: OtherFlow, why: str) -> None:
    found = conflict(flow, met)
    assert found.endswith(why) and bool(found) == bool(why)
    assert not found or is_relevant(flow, met)


MARKED = replace(ONE_WAY, active_active=True, not_from_end={"t"})
BACK = plan((B, A), {"t": (B,), "u": (B,)}, "t", "u")
MARKED_BACK = replace(BACK, active_active=True)


@pytest.mark.parametrize(
    ("flow", "met", "why"),
    [
        (MARKED, MARKED_BACK, ""),
        (MARKED, replace(MARKED_BACK, clusters=(C, A), origins={"t": (C, B)}), ""),
        (ONE_WAY, MARKED_BACK, "because only one of the flows has active_active: true: t of a comes from b"),
        (MARKED, BACK, "because only one of the flows has active_active: true: t of a comes from b"),
        (ONE_WAY, BACK, "in a cycle: t of a comes from b"),
    ],
)
def test_a_cycle_is_accepted_if_both_flows_carry_the_mark(flow: OwnFlow, met: Plan, why: str) -> None:
    found = conflict(flow, other(met, True))
    assert found.endswith(why) and bool(found) == bool(why)


OLD = replace(MARKED_BACK, unmarked={"t": "id"})


@pytest.mark.parametrize(
    ("flow", "met", "topic"),
    [
        (MARKED, MARKED_BACK, None),
        (MARKED, BACK, "t"),
        (MARKED, BACK.stopped(), "t"),
        (MARKED, replace(BACK, topics={}, retired=BACK.topics), "t"),
        (MARKED, replace(BACK, topics={}), None),
        (MARKED, replace(MARKED_BACK, topics={}, retired=BACK.topics), None),
        (MARKED, OLD, "t"),
        (MARKED, replace(OLD, topics={}, origins={}), "t"),
        (MARKED, replace(MARKED_BACK, unmarked={"u": "id"}), None),
        (MARKED, replace(OLD, origins={"t": (C,), "u": (B,)}), None),
        (replace(MARKED, not_from_end={"u"}), OLD, None),
        (replace(MARKED, active_active=False), BACK, None),
        (replace(MARKED, clusters=()), BACK, None),
    ],
)
def test_copies_from_before_the_mark_come_back_to_a_flow_that_does_not_begin_at_the_end(
    flow: OwnFlow, met: Plan, topic: str | None
) -> None:
    found = old_copies(flow, Statement.decode(met.encode()))
    assert found == topic
    note = str(old_copies_refusal(flow, "t", "b->a"))
    assert "flow a->b: records of t on a would come back to b" in note
    assert "set start: latest for t in topic_settings of flow a->b and start its service again" in note
    note = str(old_copies_refusal(replace(flow, resumed={"t"}), "t", "b->a"))
    assert "whatever start says: give a a new alias in it, with a new group and start: latest for t" in note


NEW = replace(MARKED, new={"t"})
SAME_WAY = plan((A, B), {"t": (A,), "u": (A,)}, "t", "u").stopped()


@pytest.mark.parametrize(
    ("flow", "met", "topic"),
    [
        (NEW, SAME_WAY, "t"),
        (NEW, replace(SAME_WAY, active_active=True), "t"),
        (NEW, plan((A, B), {}, "t", prefix="x."), None),
        (NEW, plan((C, B), {}, "t"), None),
        (NEW, plan((), {}, "t"), None),
        (MARKED, SAME_WAY, None),
        (replace(NEW, active_active=False), SAME_WAY, None),
        (replace(NEW, clusters=()), SAME_WAY, None),
    ],
)
def test_with_the_mark_what_an_ended_flow_has_copied_is_not_copied_again(
    flow: OwnFlow, met: Plan, topic: str | None
) -> None:
    assert copied_before(flow, Statement.decode(met.encode())) == topic
    note = str(copied_before_refusal(flow, "t", "x->b"))
    assert "flow a->b: records of t that flow x->b has copied to b would be copied again; set start: latest" in note


def test_the_mark_changes_nothing_for_flows_that_write_to_one_topic() -> None:
    met = replace(plan((C, B), {"t": (C,)}, "t"), active_active=True)
    assert conflict(MARKED, other(met)) == "both write to t on b", "a record could come on two ways"


def test_in_an_accepted_cycle_each_flow_knows_the_origins_of_both() -> None:
    found = lineage(MARKED, [other(MARKED_BACK, True)])
    assert found == Lineage((A, B), {"t": (A, B), "u": (A, B)})
    again = replace(MARKED_BACK, origins=dict.fromkeys(("t", "u"), (A, B)))
    assert lineage(MARKED, [other(again, True)]) == found, "they do not grow for ever"


@pytest.mark.parametrize("mark", ["true", 1, None, [True]])
def test_a_mark_that_is_no_mark_does_not_count(mark: Any) -> None:
    value = json.dumps({**json.loads(BACK.encode()), "active_active": mark}).encode()
    assert not Statement.decode(value).active_active


@pytest.mark.parametrize("unmarked", [["t"], "t", 7, {"": "id"}, {"t" * 250: "id"}])
def test_a_list_of_unmarked_topics_that_is_none_makes_no_plan(unmarked: Any) -> None:
    value = json.dumps({**json.loads(MARKED_BACK.encode()), "unmarked": unmarked}).encode()
    with pytest.raises(ValueError):
        Statement.decode(value)


def test_only_an_older_plan_for_our_topics_has_an_unknown_origin() -> None:
    assert has_unknown_origin(ONE_WAY, other(plan((), {}, "t"), True))
    assert not has_unknown_origin(ONE_WAY, other(plan((), {}, "v"), True))
    assert not has_unknown_origin(ONE_WAY, other(plan((), {}, "t")))
    assert not has_unknown_origin(ONE_WAY, other(plan((B, A), {}, "t"), True))


def test_origins_are_the_source_and_whatever_is_copied_into_it() -> None:
    feeds = [
        other(plan((C, A), {"t": (C, D)}, "t"), True),
        replace(other(plan((B, A), {"u": (B,)}, "u"), True), alive=False),
        other(plan((D, B), {"t": (D,)}, "t")),  # at the target: it feeds nothing of ours
    ]
    assert lineage(ours("t", "u", prefix="a."), feeds) == Lineage((A, B), {"a.t": (A, C, D), "a.u": (A,)})
    assert lineage(ours("t", clusters=()), feeds) == Lineage()


def test_a_flow_that_conflicts_changes_no_lineage() -> None:
    """If it did, its late announcement would make a plan in force look incomplete, and that flow would give way."""
    back = other(plan((B, A), {"t": (B,)}, "t"), True)
    assert conflict(ONE_WAY, back)
    assert lineage(ONE_WAY, [back]) == Lineage((A, B), {"t": (A,), "u": (A,)})


def test_a_refusal_names_both_flows_and_what_to_do() -> None:
    met = other(plan((B, A), {"t": (B,)}, "t"), True)
    found = ConflictingFlow(met, conflict(ONE_WAY, met))
    for note in (refusal(ONE_WAY, found), warning(ONE_WAY, found)):
        assert note.problem.startswith(
            "flow a->b conflicts with flow x->a (mirror-control.x.internal on a): records would"
        )
    assert "stop one of the two" in str(refusal(ONE_WAY, found)) and "silent" in str(warning(ONE_WAY, found))


KEYS = [Key("1", A, "t"), Key("2", A, "t"), Key("2", B, "t"), Key("2", B, "u")]


def conflicting(key: Key, copies: bool, alive: bool = True) -> ConflictingFlow:
    return ConflictingFlow(replace(other(plan((C, B), {}, "t")), key=key, copies=copies, alive=alive), "why")


@pytest.mark.parametrize(("smaller", "larger"), [*combinations(KEYS, 2)])
def test_of_two_that_have_announced_the_smaller_key_waits_and_the_other_gives_way(smaller: Key, larger: Key) -> None:
    for_smaller = rule(smaller, [conflicting(larger, False)], True, True)
    for_larger = rule(larger, [conflicting(smaller, False)], True, True)
    assert for_smaller and not for_smaller.gives_way
    assert for_larger and for_larger.gives_way


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("announced", [True, False])
def test_a_flow_that_copies_takes_precedence_over_flows_that_have_announced(new: bool, announced: bool) -> None:
    copies = rule(KEYS[0], [conflicting(KEYS[1], True)], new, announced)
    assert copies and copies.gives_way
    assert rule(KEYS[0], [conflicting(KEYS[1], True, alive=False)], new, announced) is None
    assert rule(KEYS[3], [conflicting(KEYS[0], False)], False, announced) is None, "it gives way to what we copy"
    assert rule(KEYS[0], [], new, announced) is None


@pytest.mark.parametrize("new", [True, False])
def test_a_service_that_starts_in_place_of_a_dead_one_is_waited_for_but_stops_no_flow_that_copies(new: bool) -> None:
    """It has no plan yet, and that of the dead one does not say stop."""
    theirs = conflicting(KEYS[1], True)
    ruling = rule(KEYS[0], [replace(theirs, other=replace(theirs.other, by_successor=True))], new, False)
    assert (ruling is not None) == new


# Plans that other programs write.


def test_a_plan_of_an_older_mirror_is_decoded() -> None:
    raw = json.loads(plan((A, B), {"t": (A,)}, "t").encode())
    del raw["clusters"], raw["origins"]
    said = Statement.decode(json.dumps(raw).encode())
    assert (said.clusters, said.origins, said.remotes) == ((), {}, {"t": "t"})


GOOD = json.loads(plan((A, B), {"t": (A,)}, "t").encode())


@pytest.mark.parametrize(
    "changes",
    [
        {"leader": None},
        {"leader": 7},
        {"leader": "x" * 250},
        {"leader": "line\nbreak"},
        {"generation": "7"},
        {"topics": []},
        {"topics": {"t": {}}},
        {"topics": {"t": []}},
        {"topics": {"t": [7]}},
        {"topics": {"t" * 250: ["t"]}},
        {"clusters": "id"},
        {"clusters": [A]},
        {"clusters": [A, B, C]},
        {"clusters": [A, 7]},
        {"clusters": [A, ""]},
        {"origins": []},
        {"origins": {"t": "id"}},
        {"origins": {"t": [7]}},
        {"origins": {"t": [str(n) for n in range(ORIGINS_MAX + 1)]}},
    ],
)
def test_an_invalid_plan_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Statement.decode(json.dumps(GOOD | changes).encode())


@pytest.mark.parametrize(
    "value", [b"", b"\xff", b"7", b"[]", b"[" * 100_000, b'"' + b"x" * INTERNAL_MAX + b'"', b"1" * 9_999]
)
def test_a_value_that_is_not_an_object_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        Statement.decode(value)


# A model of flows that announce, look and copy. Their steps interleave in any order.


@dataclass
class Topics:
    """The topics that all flows read. A write is visible at once."""

    plans: dict[int, Statement] = field(default_factory=dict)
    intents: dict[int, Statement] = field(default_factory=dict)


@dataclass
class ModelFlow:
    """A flow that takes the steps of ConflictGuard and FlowLeader. At each yield other flows may take theirs."""

    number: int
    service_id: str
    source: str
    target: str
    prefix: str
    flows: list[ModelFlow]
    shared: Topics
    copies: bool = False

    @property
    def key(self) -> Key:
        return Key(self.service_id, self.target, str(self.number))

    def topics(self) -> dict[str, str]:
        return {topic: self.prefix + topic for topic in ("t",)}

    def view(self) -> tuple[OwnFlow, list[ConflictingFlow], Lineage]:
        mine = OwnFlow(self.source, self.target, (self.source, self.target), self.topics())
        others = []
        for each in self.flows:
            for posted, copies in ((self.shared.plans, True), (self.shared.intents, False)):
                if each is not self and each.number in posted:
                    said = posted[each.number]
                    sides = [(self.target, False), (self.source, True)]
                    others += [OtherFlow(each.key, "", "", s, said, copies) for on, s in sides if on == each.target]
        conflicting_flows = [ConflictingFlow(each, why) for each in others if (why := conflict(mine, each))]
        return mine, conflicting_flows, lineage(mine, others)

    def states(self, says: Lineage) -> bool:
        mine = self.shared.plans.get(self.number)
        return mine is not None and Lineage(mine.clusters, mine.origins).covers(says)

    def says(self, says: Lineage) -> Statement:
        return Statement(self.service_id, 1, False, self.topics(), says.clusters, says.origins)

    def run(self) -> Iterator[None]:
        while True:
            yield
            _, conflicting_flows, says = self.view()
            yield
            if self.refused(conflicting_flows, says, announced=False):
                continue
            said: Lineage | None = None
            refused = False
            while not refused and not self.states(says) and not (said and said.covers(says)):
                said = says
                yield
                self.shared.intents[self.number] = self.says(says)
                yield
                _, conflicting_flows, says = self.view()
                yield
                refused = self.refused(conflicting_flows, says, announced=True)
            if not refused:
                yield
                self.shared.plans[self.number] = self.says(says)
                self.shared.intents.pop(self.number, None)
                self.copies = True

    def refused(self, conflicting_flows: list[ConflictingFlow], says: Lineage, announced: bool) -> bool:
        ruling = rule(self.key, conflicting_flows, not self.states(says), announced)
        if ruling and ruling.gives_way:
            self.shared.intents.pop(self.number, None)
            self.shared.plans.pop(self.number, None)
            self.copies = False
        return ruling is not None


def world(*ways: tuple[str, str, str], leaders: str = "") -> list[ModelFlow]:
    flows: list[ModelFlow] = []
    shared = Topics()
    for number, (source, target, prefix) in enumerate(ways):
        flows.append(ModelFlow(number, (leaders or "xxxx")[number], source, target, prefix, flows, shared))
    return flows


PAIRS: dict[str, Callable[[str], list[ModelFlow]]] = {
    "circle": lambda leaders: world((A, B, ""), (B, A, ""), leaders=leaders),
    "one topic": lambda leaders: world((A, C, ""), (B, C, ""), leaders=leaders),
    "twice": lambda leaders: world((A, B, "x."), (A, B, "y."), leaders=leaders),
}
CYCLES: dict[str, Callable[[str], list[ModelFlow]]] = {
    "of two": PAIRS["circle"],
    "of three": lambda leaders: world((A, B, ""), (B, C, ""), (C, A, ""), leaders=leaders),
    "of four": lambda leaders: world((A, B, ""), (B, C, ""), (C, D, ""), (D, A, ""), leaders=leaders),
}
# Which flow takes a step next.
orders = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 10)), max_size=30).map(
    lambda turns: [who for who, count in turns for _ in range(count)]
)
identities = st.permutations("1234").map("".join) | st.just("1111")


@pytest.mark.parametrize("kind", PAIRS)
@given(leaders=identities, order=orders)
@example(leaders="1111", order=[0, 1] * 30)
def test_two_conflicting_flows_never_both_copy(kind: str, leaders: str, order: list[int]) -> None:
    flows = PAIRS[kind](leaders)
    running = [flow.run() for flow in flows]
    for step in order:
        next(running[step % 2])
        assert not all(flow.copies for flow in flows)


@pytest.mark.parametrize("kind", [*PAIRS, *CYCLES])
@given(leaders=identities, order=orders)
@example(leaders="1111", order=[])
def test_in_the_end_all_but_one_copy_and_no_cycle_closes(kind: str, leaders: str, order: list[int]) -> None:
    flows = {**PAIRS, **CYCLES}[kind](leaders)
    running = [flow.run() for flow in flows]
    for step in order:
        next(running[step % len(flows)])
    for _ in range(40):  # each flow at its own pace, as with back-off
        for number, each in enumerate(running):
            for _ in range(7 + 2 * number):
                next(each)
    assert sum(flow.copies for flow in flows) == len(flows) - 1
    settled = [flow.copies for flow in flows]
    for _ in range(30):
        for each in running:
            next(each)
    assert [flow.copies for flow in flows] == settled
