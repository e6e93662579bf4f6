"""Orders that operators give to a flow: pause, and resume. Pure.

The control topic has one record for each scope; it is compacted, so the newest order of a scope stays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mirror import decode
from mirror.model import Partition

KEY = "order/"
ALL = "*"  # stands for every topic or partition: no topic's name has this character
VALUE_MAX = 2**16  # bytes


class Scope(NamedTuple):
    """What an order applies to: one partition, a whole topic (no partition), or the whole flow (no topic either)."""

    topic: str | None = None
    partition: int | None = None

    def covers(self, other: Scope) -> bool:
        """True if `other` is part of this scope, or equal to it."""
        return self.topic in (None, other.topic) and self.partition in (None, other.partition)

    def key(self) -> bytes:
        """The record key: `order/orders/3`, `order/orders/*`, `order/*/*`."""
        partition = ALL if self.partition is None else self.partition
        return f"{KEY}{self.topic or ALL}/{partition}".encode()

    @staticmethod
    def decode(key: bytes) -> Scope:
        """Decode a key that `key` made. Raises DecodeError for any other key."""
        if key == Scope().key():
            return Scope()
        topic, partition = key_parts(key, KEY)
        return Scope(topic, None if partition == ALL else decode.number_of_key(partition))

    def __str__(self) -> str:
        if self.topic is None:
            return "all topics"
        return f"topic {self.topic}" if self.partition is None else f"partition {self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Order:
    """The order for a scope. If several scopes cover a partition, the order of the narrowest one applies."""

    paused: bool  # False: copy, although an order for a wider scope says pause

    def encode(self) -> bytes:
        """The record value, JSON."""
        return json.dumps({"paused": self.paused}).encode()

    @staticmethod
    def decode(value: bytes) -> Order:
        """Decode a value that `encode` made. Raises DecodeError."""
        return Order(**decode.fields(decode.parsed(value, VALUE_MAX), {"paused": decode.flag}))


Orders = Mapping[Scope, Order]


def key_parts(key: bytes, kind: str) -> tuple[str, str]:
    """Split a record key `<kind><topic>/<rest>` into topic and rest. Raises DecodeError."""
    if not key.startswith(kind.encode()):
        raise decode.DecodeError(f"the key does not begin with {kind}")
    topic, _, rest = key.removeprefix(kind.encode()).decode("latin-1").rpartition("/")
    return decode.topic_name(topic), rest


def is_paused(orders: Orders, partition: Partition) -> bool:
    """True if the orders pause the partition."""
    scopes = (Scope(*partition), Scope(partition.topic), Scope())
    return next((orders[scope].paused for scope in scopes if scope in orders), False)


def changes(orders: Orders, scope: Scope, paused: bool) -> dict[Scope, Order | None]:
    """The records to write so that all of `scope` is paused, or none of it; None removes an order.

    Nothing outside of `scope` changes. Topics and partitions that appear in `scope` later obey the new order, too.
    Readers obey one record after the other, and the writer may end in between. So the widest scope comes first: each
    partition goes from its old state to the new one, and is never in a state that nobody has ordered.
    """
    own = None if _inherited(orders, scope) == paused else Order(paused)
    covered = orders if scope.partition is None else ()  # nothing is narrower than a partition
    narrower = sorted((each for each in covered if each != scope and scope.covers(each)), key=_narrowness)
    return {scope: own, **dict.fromkeys(narrower)}


def replayed(orders: Orders, newer: Mapping[Scope, Order | None]) -> Orders:
    """The orders that result when `newer` ones, the oldest first, are applied to `orders`; None removes an order.

    Whoever gave the newer ones did not know of `orders`: a removal means what the newer ones before it say of the wider
    scopes.
    """
    result, known = dict(orders), dict[Scope, Order]()
    for scope, order in newer.items():
        paused = _inherited(known, scope) if order is None else order.paused
        for each, change in changes(result, scope, paused).items():
            if change is None:
                result.pop(each, None)
            else:
                result[each] = change
        if order is not None:
            known[scope] = order
    return result


def _inherited(orders: Orders, scope: Scope) -> bool:
    """True if the narrowest order for a wider scope pauses this one."""
    wider = [] if scope == Scope() else [Scope()] if scope.partition is None else [Scope(scope.topic), Scope()]
    return next((orders[each].paused for each in wider if each in orders), False)


def _narrowness(scope: Scope) -> int:
    return sum(part is not None for part in scope)
