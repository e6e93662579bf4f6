"""How much of what a flow selects on the source exists on the target: whether the mirror is complete. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from mirror.topic_selection import TopicSelection


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


def covered(
    selection: TopicSelection,
    found: Mapping[str, int],
    existing: Mapping[str, int],
    made: Mapping[str, int],
    lost: Collection[str],
) -> Coverage:
    """What the target has of a selection. It lacks, too, the topics that it can't have because of their names.

    Partitions are counted by topic: `found` on the source, and `existing` on the target before some were made there.
    `made` counts them afterwards, by source topic. `lost` are source topics whose remote topics were deleted.
    """
    unnamed = (name for names in selection.unnamed.values() for name in names)
    there = {name: existing.get(remote, 0) for name, remote in selection.remotes.items()} | dict(made)
    return coverage(
        {name: found[name] for name in (*selection.remotes, *unnamed)},
        {name: count for name, count in there.items() if count and name not in lost},
    )
