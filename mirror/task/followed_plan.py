"""What copiers ask of the newest plan, on either data path."""

from __future__ import annotations

from collections.abc import Collection, Set
from typing import Protocol

from mirror.control.decisions import Decision
from mirror.model import Partition
from mirror.settings import Flow


class PlanView(Protocol):
    """What a copier asks of the control topic."""

    @property
    def flow(self) -> Flow:
        """The flow's settings as they are now."""

    @property
    def renew_interval(self) -> float:
        """Seconds between two commits of a position that stays the same."""

    @property
    def clusters(self) -> tuple[str, ...]:
        """The ids of source and target, of the newest plan that has them; empty if none had."""

    def largest(self, topic: str) -> int:
        """Bytes of the largest batch that the copy of a source topic takes."""

    def decision(self, partition: Partition) -> Decision | None:
        """The last decision about an incident of the partition; None if there is none."""

    def still_ours(self, partitions: Collection[Partition]) -> Set[Partition]:
        """Read the control topic to its end. Those of the partitions that the newest plan gives to this task."""
