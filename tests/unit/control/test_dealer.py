"""Which slices the partitions are in while Spark has fewer slots than slices, and afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from mirror.control.slices import Capacity, Dealer, Slice, lend
from mirror.model import Partition, Topic


def named(partitions: dict[str, int]) -> dict[str, Topic]:
    return {name: Topic(f"primary.{name}", "id", number, 0) for name, number in partitions.items()}


def topics(partitions: int) -> dict[str, Topic]:
    return named({"t": partitions})


def dealing(partitions: int, tasks_max: int | None = None) -> Callable[..., tuple[Slice, ...]]:
    """Deals so many partitions, each time after what it has dealt before."""
    dealer, plans = Dealer(), [tuple[Slice, ...]()]

    def deal(slots: int, *vacant: int, gives_way: bool = False) -> tuple[Slice, ...]:
        capacity = Capacity(slots, frozenset(vacant), gives_way)
        plans.append(dealer.deal(topics(partitions), capacity, tasks_max, plans[-1], len(plans) > 1, {}))
        return plans[-1]

    return deal


def test_the_others_take_what_a_lost_slice_had_and_give_it_back() -> None:
    deal = dealing(9)
    before = deal(3)
    assert deal(2) == before, "Spark may start the task elsewhere"
    lent = deal(2, 1)
    assert [len(each) for each in lent] in ([5, 0, 4], [4, 0, 5])
    assert before[0] <= lent[0] and before[2] <= lent[2], "those of the others stay"
    assert deal(2, 1) == lent and deal(3, 1) == lent, "until its task has claimed it"
    assert deal(3) == before


def test_another_loss_moves_what_was_lent_on() -> None:
    deal = dealing(9)
    before = deal(3)
    deal(2, 1)
    assert deal(1, 1, 2) == (frozenset().union(*before), frozenset(), frozenset())
    assert deal(0, 0, 1, 2) == before == deal(3)


def test_more_slots_than_ever_before_make_more_slices() -> None:
    deal = dealing(9)
    assert [len(deal(slots)) for slots in (2, 1, 2, 3, 2)] == [2, 2, 2, 3, 3]
    assert [len(each) for each in deal(4, 1)] == [3, 2, 2, 2], "another Spark epoch begins, and each slice gets a task"


def test_fewer_tasks_are_run_if_they_are_to_be_fewer() -> None:
    deal = dealing(9)
    assert len(deal(4)) == 4
    assert len(deal(2, gives_way=True)) == 2
    assert len(deal(4)) == 4


def test_a_changed_limit_takes_effect_also_if_it_is_a_little_higher() -> None:
    dealer, slices, counts = Dealer(), tuple[Slice, ...](), []
    for slots, tasks_max in ((8, 4), (8, 4), (8, 6), (5, 6), (5, 7), (8, None), (8, 3)):
        slices = dealer.deal(topics(9), Capacity(slots), tasks_max, slices, bool(slices), {})
        counts.append(len(slices))
    assert counts == [4, 4, 6, 6, 7, 8, 3]


def test_all_tasks_have_to_end_when_the_number_of_slices_changes_and_when_the_plan_was_not_ours() -> None:
    """A task that has seen neither the change nor the change back would go on, while the others have ended."""
    dealer, slices, counts = Dealer(), tuple[Slice, ...](), []
    for slots, runs in ((4, False), (4, True), (2, True), (4, True), (4, True), (4, False), (4, True)):
        gives_way = slots == 2
        slices = dealer.deal(topics(9), Capacity(slots, frozenset(), gives_way), None, slices, runs, {})
        counts.append((len(slices), dealer.restarts))
    assert counts == [(4, 1), (4, 1), (2, 2), (4, 3), (4, 3), (4, 4), (4, 4)]


def test_what_another_service_has_lent_is_dealt_anew() -> None:
    first, second = (frozenset(Partition("t", number) for number in numbers) for numbers in ((0, 1), (2, 3)))
    lent, whole = (first | second, frozenset[Partition]()), (second, first)

    def taken_over(previous: tuple[Slice, ...]) -> tuple[Slice, ...]:
        return Dealer().deal(topics(4), Capacity(2), None, previous, False, {})

    assert [len(each) for each in taken_over(lent)] == [2, 2]
    assert taken_over(whole) == whole


def dealt(partitions: dict[str, int], previous: tuple[Slice, ...], weight: dict[Partition, float]) -> tuple[Slice, ...]:
    """What two slots get of topics with so many partitions, after what they had."""
    dealer, slots = Dealer(), Capacity(2)
    had = named(Counter(each.topic for slice_ in previous for each in slice_))
    assert dealer.deal(had, slots, None, previous, False, weight) == previous
    return dealer.deal(named(partitions), slots, None, previous, True, weight)


def test_new_partitions_are_spread_although_the_others_differ_in_weight() -> None:
    """Nobody knows yet what they weigh. If they counted little, both would go to the lighter slice."""
    heavy, light = Partition("old", 0), Partition("old", 1)
    slices = dealt({"old": 2, "new": 2}, (frozenset({heavy}), frozenset({light})), {heavy: 100.0, light: 60.0})
    assert [len(each) for each in slices] == [2, 2]


def test_idle_partitions_are_spread_too() -> None:
    """Also if they come one after another, and each is known to be idle when the next one comes."""
    dealer, slices, weight = Dealer(), tuple[Slice, ...](), {Partition("busy", 0): 100.0, Partition("busy", 1): 60.0}
    for idle in range(40):
        weight |= {Partition(f"idle{number}", 0): 0.0 for number in range(idle)}
        known = named({"busy": 2, **{f"idle{number}": 1 for number in range(idle + 1)}})
        slices = dealer.deal(known, Capacity(2), None, slices, bool(slices), weight)
    assert min(len(each) for each in slices) > 15


def test_a_slice_whose_topics_were_deleted_gets_another_partition() -> None:
    """One of the slice that has the most to do; nothing else moves, and a slice is not emptied for another.

    What the deleted ones took does not count any more: with it, all others would look as idle as each other.
    """
    gone, stays, moves = Partition("gone", 0), Partition("stays", 1), Partition("stays", 0)
    slices = dealt({"stays": 2}, (frozenset({stays, moves}), frozenset({gone})), {stays: 1.0, moves: 2.0, gone: 900.0})
    assert slices == (frozenset({stays}), frozenset({moves}))
    assert dealt({"stays": 1}, slices, {}) == (frozenset(), frozenset({moves}))


homes = st.integers(1, 5).flatmap(
    lambda count: st.lists(st.integers(0, count - 1), max_size=30).map(
        lambda owners: tuple(
            frozenset(Partition("t", number) for number, owner in enumerate(owners) if owner == index)
            for index in range(count)
        )
    )
)


@given(homes, st.sets(st.integers(0, 4)), st.sets(st.integers(0, 4)))
def test_a_partition_moves_only_out_of_a_vacant_slice(home: tuple[Slice, ...], one: set[int], two: set[int]) -> None:
    first, second = ({index for index in each if index < len(home)} for each in (one, two))
    before = lend(home, first, home, {})
    after = lend(home, second, before, {})
    assert sorted(p for each in after for p in each) == sorted(p for each in home for p in each)
    if len(second) == len(home):
        assert after == home
        return
    for index, (own, had, has) in enumerate(zip(home, before, after, strict=True)):
        assert not has if index in second else own <= has
        lent = had - own
        back = frozenset().union(*(each for other, each in enumerate(home) if other not in second))
        assert index in second or lent - back <= has, "what was lent is not lent anew"
