"""What an order or a decision has come to: whether the tasks obey it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mirror.control.orders import Scope
from mirror.model import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Obeyed:
    """The part that all such results share. What was ordered or decided stays on the control topic in any case."""

    flow: str
    scope: Scope
    waiting: tuple[Partition, ...]  # whose task has not reported in time that it obeys
    served: bool  # True if a service runs the flow

    @property
    def failed(self) -> bool:
        """True if a service runs the flow, but its tasks have not obeyed in time."""
        return self.served and bool(self.waiting)

    def printed(self, **own: Any) -> dict[str, Any]:
        """What is printed with --json; `own` is what only this kind of result has."""
        waiting = [str(each) for each in self.waiting]
        return {"flow": self.flow, **self.scope._asdict(), **own, "waiting": waiting, "served": self.served}
