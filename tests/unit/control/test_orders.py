"""Orders: the newest one counts for its whole scope, and for nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.control.orders import Order, Scope, changes, is_paused, replayed
from mirror.model import Partition

partitions = st.builds(Partition, st.sampled_from(["a", "b"]), st.integers(0, 2))
whole_topics = st.sampled_from(["a", "b"]).map(Scope)
scopes = st.one_of(st.just(Scope()), whole_topics, partitions.map(lambda p: Scope(*p)))
EVERY = [Partition(topic, number) for topic in ("a", "b", "new") for number in range(4)]


given_orders = st.lists(st.tuples(scopes, st.booleans()), max_size=8)


def obey(orders: dict[Scope, Order], scope: Scope, order: Order | None) -> None:
    if order is None:
        orders.pop(scope, None)
    else:
        orders[scope] = order


def result_of(given: list[tuple[Scope, bool]]) -> dict[Scope, Order]:
    orders: dict[Scope, Order] = {}
    for scope, paused in given:
        for each, order in changes(orders, scope, paused).items():
            obey(orders, each, order)
    return orders


@given(given_orders)
def test_the_newest_order_that_covers_a_partition_counts(given: list[tuple[Scope, bool]]) -> None:
    orders = result_of(given)
    for partition in EVERY:
        newest = next((paused for scope, paused in reversed(given) if scope.covers(Scope(*partition))), False)
        assert is_paused(orders, partition) is newest


def test_a_pause_of_more_than_before_resumes_nothing_on_the_way() -> None:
    orders = {Scope("t", 3): Order(True), Scope("pay"): Order(True)}
    assert list(changes(orders, Scope(), paused=True).items()) == [
        (Scope(), Order(True)),
        (Scope("pay"), None),
        (Scope("t", 3), None),
    ]


@given(given_orders, scopes, st.booleans())
def test_between_two_records_each_partition_is_as_before_or_as_ordered(
    given: list[tuple[Scope, bool]], scope: Scope, paused: bool
) -> None:
    """Readers obey record by record, and the writer may be killed after any of them."""
    before = result_of(given)
    orders = dict(before)
    for each, order in changes(before, scope, paused).items():
        obey(orders, each, order)
        for partition in EVERY:
            ordered = [paused] if scope.covers(Scope(*partition)) else []
            assert is_paused(orders, partition) in [is_paused(before, partition), *ordered]


@given(given_orders, given_orders)
def test_orders_by_somebody_who_did_not_know_the_others_count_all_the_same(
    given: list[tuple[Scope, bool]], since: list[tuple[Scope, bool]]
) -> None:
    newer: dict[Scope, Order | None] = {}
    known: dict[Scope, Order] = {}
    for scope, paused in since:
        for each, order in changes(known, scope, paused).items():
            newer.pop(each, None)
            newer[each] = order
            obey(known, each, order)
    orders = replayed(result_of(given), newer)
    for partition in EVERY:
        assert is_paused(orders, partition) is is_paused(result_of(given + since), partition)


@given(scopes)
def test_a_scope_survives_encoding(scope: Scope) -> None:
    assert Scope.decode(scope.key()) == scope


def test_the_encoding_of_orders() -> None:
    assert [Scope().key(), Scope("a.b").key(), Scope("a.b", 3).key()] == [b"order/*/*", b"order/a.b/*", b"order/a.b/3"]
    assert Order.decode(Order(True).encode()) == Order(True)


@pytest.mark.parametrize(
    "key", [b"order/", b"order/a", b"order/3", b"order//3", b"order/*/3", b"order/a/", b"order/a/+3", b"order/\xff/3"]
)
def test_a_key_that_is_not_an_orders_is_refused(key: bytes) -> None:
    with pytest.raises(ValueError):
        Scope.decode(key)


def test_fields_of_a_newer_mirror_are_ignored() -> None:
    assert Order.decode(b'{"paused":true,"until":1}') == Order(True)


def test_resuming_everything_removes_every_order() -> None:
    orders = {Scope(): Order(True), Scope("a"): Order(False), Scope("a", 1): Order(True)}
    assert changes(orders, Scope(), paused=False) == dict.fromkeys(orders)
