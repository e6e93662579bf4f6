"""What a look at the clusters finds of the partitions whose offsets are translated."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from confluent_kafka.admin import OffsetSpec

from mirror.errors import ClusterAway
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition, Position
from mirror.target.timestamps import may_be_compacted

RECREATED = "not known: the source topic was created again, and the new one is not copied yet"
REMOTE_RECREATED = "not known: the remote topic was created again, and nothing is copied to the new one yet"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the last refresh has found of a partition."""

    position: Position | None
    log_start: int | None  # of the remote log
    log_end: int | None  # its last stable offset
    compacted: bool  # True also if that is not known
    recreated: str = ""  # why the position says nothing: one of the two topics was created again


def look(
    source: ClusterAdmin,
    target: ClusterAdmin,
    remotes: Mapping[Partition, Partition],
    positions: Mapping[tuple[str, int], Position | None],
) -> dict[Partition, Seen]:
    """What is to be seen of each source partition, after the positions were read. Raises ClusterAway.

    The ids are asked for last. So if a position's topic still exists then, the log's bounds are that topic's, too.
    """
    names = {remote.topic for remote in remotes.values()}
    starts = target.offsets(dict.fromkeys(remotes.values(), OffsetSpec.earliest()))
    ends = target.offsets(dict.fromkeys(remotes.values(), OffsetSpec.latest()))
    configs, _ = target.topic_configs(names, own=False)
    kept = {name for name, config in configs.items() if not may_be_compacted(config)}
    remote_ids, _ = target.ids_now(names)
    # If the source is lost, each topic counts as the one that was copied: a lost source gets no new topics.
    source_ids: Mapping[str, str] = {}
    with suppress(ClusterAway):
        source_ids, _ = source.ids_now({partition.topic for partition in remotes})
    found: dict[Partition, Seen] = {}
    for each, at in remotes.items():
        position = positions.get(at)
        why = _recreated(position, source_ids.get(each.topic), remote_ids.get(at.topic))
        found[each] = Seen(position, starts.get(at), ends.get(at), at.topic not in kept, why)
    return found


def _recreated(position: Position | None, source_id: str | None, remote_id: str | None) -> str:
    """Why the position says nothing. The ids are those of the topics now; None: not known."""
    if position is None:
        return ""
    if position.topic_id and source_id not in (None, position.topic_id):
        return RECREATED
    return REMOTE_RECREATED if position.remote_id and remote_id not in (None, position.remote_id) else ""
