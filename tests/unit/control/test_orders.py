"""Orders: the newest one counts for its whole scope, and for nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.control.orders import Order, Scope, changes, is_paused
from mirror.model import Partition

partitions = st.builds(Partition, st.sampled_from(["a", "b"]), st.integers(0, 2))
whole_topics = st.sampled_from(["a", "b"]).map(Scope)
scopes = st.one_of(st.just(Scope()), whole_topics, partitions.map(lambda p: Scope(*p)))
EVERY = [Partition(topic, number) for topic in ("a", "b", "new") for number in range(4)]


@given(st.lists(st.tuples(scopes, st.booleans()), max_size=8))
def test_the_newest_order_that_covers_a_partition_counts(given: list[tuple[Scope, bool]]) -> None:
    orders: dict[Scope, Order] = {}
    for scope, paused in given:
        for each, order in changes(orders, scope, paused).items():
            if order is None:
                orders.pop(each, None)
            else:
                orders[each] = order
    for partition in EVERY:
        newest = next((paused for scope, paused in reversed(given) if scope.covers(Scope(*partition))), False)
        assert is_paused(orders, partition) is newest


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
