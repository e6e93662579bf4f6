"""`mirror translate`: where an offset of the source is on the target, or the other way round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from mirror.commands.text_table import table
from mirror.errors import ConfigError
from mirror.groups.group_offsets import offsets_of
from mirror.groups.position_groups import POSITIONS, is_position
from mirror.groups.remote_names import RemoteNames
from mirror.groups.selected import unmirrored
from mirror.groups.translated import Translation
from mirror.groups.translator import Translator
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition
from mirror.naming import ReplicationPolicy
from mirror.settings import Flow
from mirror.text import ABSENT


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """What a cluster says of a group's offsets, by source partition."""

    offsets: Mapping[Partition, int]
    refused: Mapping[Partition, str]  # why the cluster does not give an offset


def translate(flow: Flow, offsets: Mapping[Partition, int] | GroupAnswer, reverse: bool = False) -> list[Translation]:
    """Translate offsets of the source, or if `reverse` of the target, by source partition.

    A partition whose offset the cluster has refused is in the result, too, without an offset. Raises ConfigError for a
    topic that the flow does not mirror, ClusterAway, PartitionError, FlowError.
    """
    asked = offsets if isinstance(offsets, GroupAnswer) else GroupAnswer(offsets, {})
    for topic, why in unmirrored(flow, {p.topic for p in (*asked.offsets, *asked.refused)}).items():
        raise ConfigError([f"flow {flow.name} does not mirror topic {topic}: {why or 'see its topics and exclude'}"])
    with closing(Translator(flow)) as translator:
        translator.refresh(list(asked.offsets))
        one = translator.to_upstream if reverse else translator.to_downstream
        found = [one(partition, offset) for partition, offset in asked.offsets.items()]
        found += [Translation(p, translator.remote(p.topic), None, None, why) for p, why in asked.refused.items()]
    return sorted(found, key=lambda each: each.partition)


def of_group(flow: Flow, group: str, reverse: bool = False) -> GroupAnswer:
    """The committed offsets of a group on the source, or if `reverse` on the target, of the mirrored topics.

    Raises ConfigError for a group of positions, ClusterAway, PartitionError, FlowError.
    """
    policy, remotes = ReplicationPolicy.of(flow), RemoteNames(flow)
    remotes.refresh()
    counts = ClusterAdmin(flow.source).partitions()
    mirrored = [Partition(name, n) for name, count in counts.items() if policy.is_mirrored(name) for n in range(count)]
    names = {p: (remotes.of(p.topic) if reverse else p.topic, p.partition) for p in mirrored}
    found, refused = offsets_of(flow.target if reverse else flow.source, group, names)
    if group == flow.group or any(is_position(at.metadata) for at in found.values()):
        raise ConfigError([f"group {group} is no consumer group: it has {POSITIONS}"])
    return GroupAnswer({partition: at.offset for partition, at in found.items()}, refused)


def no_offsets(flow: Flow, group: str, reverse: bool) -> str:
    """What to say of a group that has no offsets."""
    here, there = (flow.target, flow.source) if reverse else (flow.source, flow.target)
    other = "without --reverse" if reverse else "with --reverse"
    return (
        f"{flow.name}: group {group} has no offsets of mirrored topics on {here.alias}: check its name; "
        f"{other} it is looked for on {there.alias}"
    )


def shown(found: Sequence[Translation], reverse: bool) -> str:
    """The translations as a table, for people."""
    rows = [
        [str(t.partition), t.offset, f"{t.remote}-{t.partition.partition}", t.translated, t.reason or ABSENT]
        for t in found
    ]
    if reverse:
        rows = [[row[2], row[1], row[0], row[3], row[4]] for row in rows]
    return table(["partition", "offset", "there", "offset there", "reason"], rows)
