"""`mirror translate`: where an offset of the source is on the target, or the other way round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing

from mirror.commands.text_table import table
from mirror.errors import ConfigError
from mirror.groups.group_offsets import offsets_of
from mirror.groups.position_groups import POSITIONS, is_position
from mirror.groups.remote_names import RemoteNames
from mirror.groups.translated import Translation
from mirror.groups.translator import Translator
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition
from mirror.naming import ReplicationPolicy
from mirror.settings import Flow
from mirror.text import ABSENT


def translate(flow: Flow, offsets: Mapping[Partition, int], reverse: bool = False) -> list[Translation]:
    """Translate offsets of the source, or if `reverse` of the target, by source partition.

    Raises ConfigError for a topic that the flow does not mirror, ClusterAway, PartitionError, FlowError.
    """
    mirrored = ReplicationPolicy.of(flow).is_mirrored
    strange = sorted({partition.topic for partition in offsets if not mirrored(partition.topic)})
    if strange:
        raise ConfigError([f"flow {flow.name} does not mirror topic {strange[0]}: see its topics and exclude"])
    with closing(Translator(flow)) as translator:
        translator.refresh(list(offsets))
        one = translator.to_upstream if reverse else translator.to_downstream
        return [one(partition, offset) for partition, offset in sorted(offsets.items())]


def of_group(flow: Flow, group: str, reverse: bool = False) -> dict[Partition, int]:
    """The committed offsets of a group on the source, or if `reverse` on the target, of the mirrored topics.

    By source partition. Raises ConfigError for a group of positions, ClusterAway, PartitionError, FlowError.
    """
    policy, remotes = ReplicationPolicy.of(flow), RemoteNames(flow)
    remotes.refresh()
    counts = ClusterAdmin(flow.source).partitions()
    mirrored = [Partition(name, n) for name, count in counts.items() if policy.is_mirrored(name) for n in range(count)]
    names = {p: (remotes.of(p.topic) if reverse else p.topic, p.partition) for p in mirrored}
    found, _ = offsets_of(flow.target if reverse else flow.source, group, names)
    if group == flow.group or any(is_position(at.metadata) for at in found.values()):
        raise ConfigError([f"group {group} is no consumer group: it has {POSITIONS}"])
    return {partition: at.offset for partition, at in found.items()}


def shown(found: Sequence[Translation], reverse: bool) -> str:
    """The translations as a table, for people."""
    rows = [
        [str(t.partition), t.offset, f"{t.remote}-{t.partition.partition}", t.translated, t.reason or ABSENT]
        for t in found
    ]
    if reverse:
        rows = [[row[2], row[1], row[0], row[3], row[4]] for row in rows]
    return table(["partition", "offset", "there", "offset there", "reason"], rows)
