"""The orders and decisions that stand on a control topic, also while the topic lacks some of them. Pure.

Which records they come from is the reader's business: control_reader.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirror.control.decisions import Decision
from mirror.control.orders import Order, Orders, Scope, replayed
from mirror.model import Partition


@dataclass
class SinceRecreation:
    """Orders and decisions on a recreated control topic, until the flow leader writes a plan there."""

    orders: dict[Scope, Order | None] = field(default_factory=dict)  # None: removed
    decisions: dict[Partition, Decision] = field(default_factory=dict)


class KeptOrders:
    """Keeps what records say, one after the other, and publishes it in `orders` and `decisions`.

    Each record changes dictionaries in place. Copying them for each record would take minutes where there are 100,000
    orders. Other threads read what `publish` has copied.
    """

    def __init__(self) -> None:
        self.orders: Orders = {}  # replaced as a whole by `publish`, if an order has come
        self.decisions: Mapping[Partition, Decision] = {}  # replaced as a whole by `publish`, if a decision has come
        self._orders: dict[Scope, Order] = {}
        self._decisions: dict[Partition, Decision] = {}
        self._is_changed = {"orders": False, "decisions": False}
        self._since_recreation: SinceRecreation | None = None
        self._has_lost = False  # True if the topic has lost its first records or its plan, and no plan has come since

    @property
    def awaits_plan(self) -> bool:
        """True if the topic was recreated, or has lost records, and no plan has come since."""
        return self._has_lost or self._since_recreation is not None

    @property
    def orders_since_recreation(self) -> list[Scope]:
        """The scopes of orders that were given after the topic was recreated; empty once it has a plan."""
        return list(self._since_recreation.orders) if self._since_recreation is not None else []

    def order(self, scope: Scope, order: Order | None) -> None:
        """Keep an order; None removes it."""
        if self._since_recreation is not None:
            self._since_recreation.orders.pop(scope, None)  # keeps the newest order last
            self._since_recreation.orders[scope] = order
            return
        self._is_changed["orders"] = True
        if order is None:
            self._orders.pop(scope, None)
        else:
            self._orders[scope] = order

    def decide(self, decision: Decision) -> None:
        """Keep a decision."""
        if self._since_recreation is not None:
            self._since_recreation.decisions[decision.partition] = decision
            return
        self._is_changed["decisions"] = True
        self._decisions[decision.partition] = decision

    def begin_again(self) -> None:
        """From now on keep what a recreated topic says apart from what was known, until `plan_came`."""
        self._since_recreation = SinceRecreation()

    def note_loss(self) -> None:
        """The topic has lost its first records, or its plan. What they have said stays in force."""
        self._has_lost = True

    def plan_came(self) -> None:
        """Switch to what a recreated topic says, now that the flow leader has written the rest and its plan."""
        new, self._since_recreation = self._since_recreation, None
        self._has_lost = False
        if new is not None:
            self._orders = {scope: order for scope, order in new.orders.items() if order is not None}
            self._decisions = new.decisions
            self._is_changed = dict.fromkeys(self._is_changed, True)

    def unwritten(self) -> tuple[dict[Scope, Order | None], list[Decision]]:
        """The orders (None removes one) and decisions that the topic lacks while it awaits a plan.

        Nobody knows which of its records are gone, so after a loss these are all.
        """
        if not self.awaits_plan:
            return {}, []
        new = self._since_recreation or SinceRecreation()
        there = SinceRecreation() if self._has_lost else new
        wanted = replayed(self._orders, new.orders)
        changes = {scope: wanted.get(scope) for scope in wanted.keys() | new.orders.keys()}
        decisions = {**self._decisions, **new.decisions}
        missing = [each for partition, each in decisions.items() if partition not in there.decisions]
        return {scope: order for scope, order in changes.items() if order != there.orders.get(scope)}, missing

    def publish(self) -> None:
        """Let others see what has changed."""
        if self._is_changed["orders"]:
            self.orders = dict(self._orders)
        if self._is_changed["decisions"]:
            self.decisions = dict(self._decisions)
        self._is_changed = dict.fromkeys(self._is_changed, False)
