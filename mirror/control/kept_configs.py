"""Finds flows with active_active that would undo each other's changes of topic configurations. Pure.

Two flows in opposite directions, or the flows of a ring, would set back what the other ones have brought. Each says in
its plan which clusters' configurations it brings to its target. So the flow that would close the circle knows it, and
the one whose source has the highest cluster id leaves the configurations alone. All of them agree on that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mirror.control.conflicts import Note, OtherFlow, OwnFlow, comes_back


def configs_from(ours: OwnFlow, others: Iterable[OtherFlow]) -> tuple[str, ...]:
    """Ids of the clusters whose topic configurations our flow brings to its target; empty if it brings none."""
    others = list(others)
    if not _brings(ours) or keeper(ours, others) is not None:
        return ()
    ids = {ours.clusters[0]}.union(*(other.statement.configs_from for other in _feeding(ours, others)))
    return tuple(sorted(ids))


def keeper(ours: OwnFlow, others: Iterable[OtherFlow]) -> OtherFlow | None:
    """A flow that brings our target's topic configurations back, and keeps ours from bringing any; None if none is."""
    if not _brings(ours):
        return None
    source, target = ours.clusters
    for other in _feeding(ours, others):
        ids = other.statement.configs_from
        if target in ids and source == max(source, *ids) and comes_back(ours, other.statement):
            return other
    return None


def kept_note(ours: OwnFlow, other: OtherFlow) -> Note:
    """The note that our flow leaves topic configurations alone."""
    return Note(
        f"flow {ours.name} leaves topic configurations alone, although sync_topic_configs is true: flow {other.name} "
        "brings them the other way, and each would undo the other's changes",
        "set sync_topic_configs: false in the flow that is not to keep them in step",
    )


def _brings(ours: OwnFlow) -> bool:
    return ours.sync_configs and ours.active_active and bool(ours.clusters)


def _feeding(ours: OwnFlow, others: Iterable[OtherFlow]) -> Iterator[OtherFlow]:
    """The living flows that write topics which we copy."""
    return (
        other
        for other in others
        if other.at_source and other.alive and not other.statement.written.isdisjoint(ours.remotes)
    )
