"""How much of what a flow selects on the source exists on the target: whether the mirror is complete. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Coverage:
    """Numbers of topics and partitions. `remote_` ones exist on the target as copies of selected ones."""

    topics: int
    partitions: int
    remote_topics: int
    remote_partitions: int

    @property
    def is_complete(self) -> bool:
        """True if the target has all of them. That says nothing of their records: lag does."""
        return self.partitions == self.remote_partitions and self.topics == self.remote_topics


def coverage(selected: Mapping[str, int], remote: Mapping[str, int]) -> Coverage:
    """Compare partition counts by source topic. Partitions that only the target has do not count."""
    there = {name: min(count, remote.get(name, 0)) for name, count in selected.items()}
    found = sum(name in remote for name in selected)
    return Coverage(len(selected), sum(selected.values()), found, sum(there.values()))
