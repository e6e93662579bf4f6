"""Plans: their encoding, how partitions are assigned to slices, where partitions begin."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.control.next_plan import merge_initial_partitions, next_generation, unmarked
from mirror.control.plan import PARTITIONS_MAX, Lineage, Plan, WrongPlan
from mirror.control.slices import Slice, assign, slice_count
from mirror.decode import DecodeError
from mirror.model import Partition, Topic
from mirror.settings import TopicSettings

names = st.text("abcdefgh._-", min_size=1, max_size=8).filter(lambda name: name not in (".", ".."))
partitions = st.builds(Partition, names, st.integers(0, 20))
counts = st.integers(1, 50), st.integers(0, 50)
topics = st.dictionaries(
    names,
    st.builds(Topic, names, names, *counts, compacted=st.booleans(), largest=st.integers(0, 2**31 - 1)),
    max_size=5,
)
slices = st.lists(st.frozensets(partitions, max_size=6), max_size=4).map(tuple)
ids = st.lists(names, max_size=3).map(tuple)
origins = st.dictionaries(names, ids, max_size=3)
plans = st.builds(
    lambda topics, slices, unmarked, configs_from, **rest: Plan(
        topics=topics | known(slices),
        slices=disjoint(slices),
        active_active=bool(unmarked),
        unmarked=unmarked,
        configs_from=configs_from if unmarked else (),
        **rest,
    ),
    service_id=names,
    generation=st.integers(1, 2**63 - 1),
    topics=topics,
    slices=slices,
    stop=st.booleans(),
    clusters=st.just(()) | st.tuples(names, names),
    origins=origins,
    unmarked=st.dictionaries(names, names, max_size=2),
    configs_from=ids,
)
weights = st.dictionaries(partitions, st.floats(0, 1e9))


def known(slices: tuple[Slice, ...]) -> dict[str, Topic]:
    """The topics of all these partitions."""
    return {partition.topic: topic(1) for each in slices for partition in each}


@given(plans)
def test_a_plan_survives_encoding(plan: Plan) -> None:
    assert Plan.decode(plan.encode()) == plan


def changed(plan: Plan, **changes: Any) -> bytes:
    """The plan as another version of mirror might write it; None leaves a field out."""
    raw = json.loads(plan.encode()) | changes
    return json.dumps({name: each for name, each in raw.items() if each is not None}).encode()


@given(plans)
def test_fields_of_a_newer_mirror_in_a_plan_are_ignored(plan: Plan) -> None:
    more = {name: [*fields, "more", 1] for name, fields in json.loads(plan.encode())["topics"].items()}
    assert Plan.decode(changed(plan, topics=more, added=[1])) == plan
    assert Plan.decode(changed(plan, stop=None)) == replace(plan, stop=False)


@given(plans)
def test_a_plan_of_an_older_mirror_does_not_say_where_its_records_come_from(plan: Plan) -> None:
    assert Plan.decode(changed(plan, clusters=None, origins=None)) == replace(plan, clusters=(), origins={})


@pytest.mark.parametrize(
    "changes",
    [
        {"leader": None},
        {"generation": None},
        {"generation": [7]},
        {"topics": None},
        {"topics": {"a": ["remote", "id", 2]}},
        {"topics": {"a": ["remote", "id", 2, None]}},
        {"slices": None},
        {"slices": [["a", 0]]},
        {"slices": [{"a": [None]}]},
        {"generation": 2**63},
        {"generation": -1},
    ],
)
def test_a_plan_without_a_required_field_is_refused(changes: dict[str, Any]) -> None:
    """Defaults would make it a plan of another generation, or partitions would begin at the flow's `start` again."""
    with pytest.raises(DecodeError):
        Plan.decode(changed(plan({"a": topic(2)}), **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"slices": [{"a": [0]}, {"a": [1]}, {"a": [0]}]},
        {"slices": [{"b": [0]}]},
        {"clusters": ["id"]},
        {"clusters": ["id", "id", "id"]},
        {"topics": {"a": ["remote", "id", PARTITIONS_MAX + 1, 0]}},
        {"retired": {name: ["remote", "id", PARTITIONS_MAX // 2, 0] for name in "bc"}},
    ],
)
def test_a_plan_that_contradicts_itself_is_told_from_one_that_cannot_be_decoded(changes: dict[str, Any]) -> None:
    with pytest.raises(WrongPlan):
        Plan.decode(changed(plan({"a": topic(2)}), **changes))


@given(st.none() | plans)
def test_every_generation_that_can_be_decoded_has_another_one_after_it(previous: Plan | None) -> None:
    after = next_generation(previous)
    assert 1 <= after < 2**63 and (previous is None or after != previous.generation)


def test_after_the_highest_generation_mirror_counts_from_one() -> None:
    assert [next_generation(replace(plan({}), generation=n)) for n in (1, 2**63 - 2, 2**63 - 1)] == [2, 2**63 - 1, 1]


def test_a_large_plan_stays_small() -> None:
    wanted = [Partition(f"topic-{n}", p) for n in range(100) for p in range(100)]
    plan = Plan("leader", 1, {}, assign(wanted, 8, (), {}))
    assert len(plan.encode()) < 60_000


lineages = st.builds(Lineage, ids, origins)


@given(lineages, lineages)
def test_a_lineage_covers_its_own_origins_and_no_more(one: Lineage, other: Lineage) -> None:
    both = {name: (*one.origins.get(name, ()), *other.origins.get(name, ())) for name in {*one.origins, *other.origins}}
    assert one.covers(one) and Lineage((), both).covers(one) and one.covers(one.of(set(other.origins)))
    same = {name: set(each) for name, each in both.items()} == {n: set(each) for n, each in one.origins.items()}
    assert one.covers(other) == same


@given(plans)
def test_a_stopped_plan_differs_in_nothing_else(plan: Plan) -> None:
    stopped = Plan.decode(plan.stopped().encode())
    assert stopped.stop
    assert (stopped.slices, stopped.topics, stopped.generation) == (plan.slices, plan.topics, plan.generation)


@given(st.sets(partitions, max_size=40), st.integers(1, 5), slices, weights)
def test_each_partition_is_in_exactly_one_slice(
    wanted: set[Partition], count: int, previous: tuple[Slice, ...], weight: dict[Partition, float]
) -> None:
    owned = disjoint(previous)
    dealt = assign(wanted, count, owned, weight)
    assert len(dealt) == count
    assert sorted(p for each in dealt for p in each) == sorted(wanted)


@given(st.sets(partitions, max_size=40), st.sets(partitions, max_size=10), st.integers(2, 5), weights, st.data())
def test_a_partition_stays_in_its_slice(
    before: set[Partition], new: set[Partition], count: int, weight: dict[Partition, float], data: st.DataObject
) -> None:
    dealt = assign(before, count, (), weight)
    after = new | {partition for partition in sorted(before) if data.draw(st.booleans())}
    again = assign(after, count, dealt, {})
    for had, has in zip(dealt, again, strict=True):
        assert had & after <= has


@given(st.dictionaries(partitions, st.none() | st.integers(0, 10**9), min_size=1, max_size=40), st.integers(1, 5))
def test_slices_are_balanced(wanted: dict[Partition, int | None], count: int) -> None:
    weight = {partition: float(rate) for partition, rate in wanted.items() if rate is not None}
    # The heaviest partition goes to the lightest slice: so no slice exceeds the lightest by more than one partition.
    dealt = assign(wanted, count, (), weight)
    busy = [rate for rate in weight.values() if rate > 0]
    average = sum(busy) / len(busy) if busy else 1.0
    loads = [[max(weight.get(p, average), average / 10) for p in each] for each in dealt]
    lightest = min(map(sum, loads))
    for load in loads:
        assert not load or sum(load) - min(load) <= lightest * (1 + 1e-9) + 1e-9


@given(st.sets(partitions, max_size=40), st.integers(1, 5))
def test_without_weights_slices_differ_by_one_partition_at_most(wanted: set[Partition], count: int) -> None:
    sizes = [len(each) for each in assign(wanted, count, (), {})]
    assert max(sizes) - min(sizes) <= 1


def test_a_new_partition_goes_to_the_lightest_slice() -> None:
    busy, quiet, new = Partition("busy", 0), Partition("quiet", 0), Partition("new", 0)
    dealt = assign([busy, quiet, new], 2, (frozenset({busy}), frozenset({quiet})), {busy: 1e6, quiet: 1.0})
    assert dealt == (frozenset({busy}), frozenset({quiet, new}))


@given(st.integers(0, 100), st.none() | st.integers(1, 50), st.integers(0, 200), st.integers(0, 100))
def test_never_more_slices_than_slots_or_tasks(slots: int, most: int | None, partitions: int, current: int) -> None:
    count = slice_count(slots, most, partitions, current)
    assert 1 <= count <= max(1, min(slots, most or slots))


def test_a_running_count_changes_only_for_a_reason() -> None:
    assert slice_count(8, None, 100, 0) == 8
    assert slice_count(8, 3, 100, 0) == 3
    assert slice_count(8, None, 1, 0) == 2, "a second slice costs little, a change costs a pause"
    assert slice_count(1, None, 100, 0) == 1
    assert slice_count(8, None, 7, 4) == 4, "not worth a pause"
    assert slice_count(8, None, 8, 4) == 8, "could double"
    assert slice_count(3, None, 100, 4) == 3, "no longer fits"
    assert slice_count(8, None, 2, 8) == 8, "topics went, but slices are cheap"


def topic(partitions: int, topic_id: str = "id") -> Topic:
    return Topic("remote", topic_id, partitions, partitions)


def plan(known: Mapping[str, Topic]) -> Plan:
    return Plan("leader", 1, known, ())


def test_initial_partitions_are_those_of_the_first_plan() -> None:
    first = merge_initial_partitions({"a": topic(2)}, None, {})
    assert first["a"].initial_partitions == 2
    grown = merge_initial_partitions({"a": topic(5), "new": topic(3)}, plan(first), {})
    assert (grown["a"].partitions, grown["a"].initial_partitions) == (5, 2)
    assert grown["new"].initial_partitions == 0
    again = merge_initial_partitions({"a": topic(6), "new": topic(4)}, plan(grown), {"new": STARTS})
    assert (again["a"].initial_partitions, again["new"].initial_partitions) == (2, 0)


STARTS = TopicSettings(None, "latest", None, None, None)


def test_a_topic_that_comes_later_begins_where_its_own_start_points() -> None:
    own = {"new": STARTS, "other": replace(STARTS, start=None, on_data_loss="skip")}
    later = merge_initial_partitions({"new": topic(3), "other": topic(3)}, plan({"a": topic(2)}), own)
    assert (later["new"].initial_partitions, later["other"].initial_partitions) == (3, 0)
    grown = merge_initial_partitions({"new": topic(5)}, plan(later), own)
    assert grown["new"].initial_partitions == 3, "nobody has seen what is in the others"
    back = merge_initial_partitions({"new": topic(5)}, replace(plan({}), retired=grown), own)
    assert back["new"].initial_partitions == 3, "it is not new"


def test_a_recreated_topic_is_a_new_one() -> None:
    moved = {"a": replace(topic(2), remote="elsewhere.a")}
    assert merge_initial_partitions(moved, plan({"a": topic(2)}), {"a": STARTS})["a"].initial_partitions == 0, (
        "it has nothing yet"
    )
    again = merge_initial_partitions({"a": topic(2, "second")}, plan({"a": topic(2, "first")}), {"a": STARTS})
    assert again["a"].initial_partitions == 0


def disjoint(previous: tuple[Slice, ...]) -> tuple[Slice, ...]:
    """No plan has a partition twice."""
    seen: set[Partition] = set()
    result = []
    for each in previous:
        result.append(frozenset(each - seen))
        seen |= each
    return tuple(result)


def remote(name: str, remote_id: str) -> Topic:
    return Topic(name, "id", 1, 1, remote_id)


BEFORE = Plan(
    "us", 1, {"t": remote("t", "1"), "u": remote("u", "")}, (), retired={"v": remote("v", "3")}, unmarked={"w": "4"}
)
THERE = {"t": "1", "u": "2", "v": "3", "w": "4", "x": "5"}


@pytest.mark.parametrize(
    ("previous", "ids", "found"),
    [
        (None, THERE, {}),
        (BEFORE, THERE, {"t": "1", "u": "2", "v": "3", "w": "4"}),
        (replace(BEFORE, active_active=True), THERE, {"w": "4"}),
        (replace(BEFORE, active_active=True), {}, {"w": "4"}),
        (replace(BEFORE, active_active=True), {"w": "9"}, {}),
        (BEFORE.stopped(), {"t": "9", "v": "3", "w": ""}, {"u": "", "v": "3", "w": "4"}),
        (BEFORE, {}, {"t": "1", "u": "", "v": "3", "w": "4"}),
    ],
)
def test_which_remote_topics_have_copies_from_before_the_mark(
    previous: Plan | None, ids: dict[str, str], found: dict[str, str]
) -> None:
    """A remote topic has such copies until another topic has its name. A look may miss a topic."""
    assert unmarked(previous, ids) == found
