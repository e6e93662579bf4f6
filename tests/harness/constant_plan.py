"""A plan that never changes, for copiers that run without the service."""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import dataclass

from mirror.control.decisions import Decision
from mirror.model import BATCH_BYTES, Partition
from mirror.settings import Flow


@dataclass(frozen=True)
class ConstantPlan:
    """A plan that gives every partition to us, and in which nobody decides anything."""

    flow: Flow
    renew_interval: float = 3600.0
    clusters: tuple[str, ...] = ()
    batch_bytes: int = BATCH_BYTES

    def largest(self, topic: str) -> int:
        return self.batch_bytes

    def decision(self, partition: Partition) -> Decision | None:
        return None

    def still_ours(self, partitions: Collection[Partition]) -> Set[Partition]:
        return frozenset(partitions)
