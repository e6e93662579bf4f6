"""Orders that people give to a flow: pause, copy again, pass over. Pure; they stand on the control topic by key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mirror.plan import Partition

KEY = "order/"
ALL = "*"  # no topic's name has this character


class Scope(NamedTuple):
    """What an order is about: a partition, a topic (no partition), or the whole flow (no topic either)."""

    topic: str | None = None
    partition: int | None = None

    def covers(self, other: Scope) -> bool:
        """Is `other` a part of this, or the same?"""
        return self.topic in (None, other.topic) and self.partition in (None, other.partition)

    def key(self) -> bytes:
        """The record key: `order/orders/3`, `order/orders/*`, `order/*/*`."""
        partition = ALL if self.partition is None else self.partition
        return f"{KEY}{self.topic or ALL}/{partition}".encode()

    @staticmethod
    def decode(key: bytes) -> Scope:
        """The scope that `key` made. Raises ValueError for any other key."""
        topic, _, partition = key.decode().removeprefix(KEY).rpartition("/")
        scope = Scope(None if topic == ALL else topic, None if partition == ALL else int(partition))
        if scope.key() != key or (scope.topic is None and scope.partition is not None):
            raise ValueError("no scope has this key")
        return scope

    def __str__(self) -> str:
        if self.topic is None:
            return "all topics"
        return f"topic {self.topic}" if self.partition is None else f"partition {self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Order:
    """What stands for a scope; of several that cover a partition the narrowest counts."""

    paused: bool  # False: copy, though a wider order says pause

    def encode(self) -> bytes:
        """The record value, JSON."""
        return json.dumps({"paused": self.paused}).encode()

    @staticmethod
    def decode(value: bytes) -> Order:
        """The order that `encode` wrote. Raises ValueError, KeyError or TypeError."""
        return Order(bool(json.loads(value)["paused"]))


Orders = Mapping[Scope, Order]

SKIP_KEY = "skip/"


@dataclass(frozen=True, slots=True)
class Skip:
    """The choice to pass over what can't be copied at this position; it says nothing about another position."""

    partition: Partition
    position: int  # upstream offset

    def key(self) -> bytes:
        """The record key: one for each partition."""
        return f"{SKIP_KEY}{self.partition.topic}/{self.partition.partition}".encode()

    def encode(self) -> bytes:
        """The record value, JSON."""
        return json.dumps({"position": self.position}).encode()

    @staticmethod
    def decode(key: bytes, value: bytes) -> Skip:
        """The choice that `key` and `encode` made. Raises ValueError, KeyError or TypeError."""
        topic, _, partition = key.decode().removeprefix(SKIP_KEY).rpartition("/")
        skip = Skip(Partition(topic, int(partition)), int(json.loads(value)["position"]))
        if skip.key() != key or not topic:
            raise ValueError("no partition has this key")
        return skip


def is_paused(orders: Orders, partition: Partition) -> bool:
    """Is the partition not to be copied now?"""
    scopes = (Scope(*partition), Scope(partition.topic), Scope())
    return next((orders[scope].paused for scope in scopes if scope in orders), False)


def changes(orders: Orders, scope: Scope, paused: bool) -> dict[Scope, Order | None]:
    """What to write so that all of `scope` is paused, or none of it; None lifts an order.

    Nothing outside of `scope` changes, and what comes into it later follows it too.
    """
    lifted: dict[Scope, Order | None] = {each: None for each in orders if scope.covers(each)}
    wider = [each for each in orders if each != scope and each.covers(scope)]
    inherited = orders[max(wider, key=_narrowness)].paused if wider else False
    return lifted | {scope: None if inherited == paused else Order(paused)}


def _narrowness(scope: Scope) -> int:
    return sum(part is not None for part in scope)
