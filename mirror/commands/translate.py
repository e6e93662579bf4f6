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
from mirror.groups.selected import not_mirrored, unmirrored
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

    A partition whose offset the cluster has refused is in the result, too, without an offset. Of a group, so is one
    whose topic the flow does not mirror. Otherwise such a topic raises ConfigError. Raises ClusterAway, PartitionError,
    FlowError.
    """
    asked = offsets if isinstance(offsets, GroupAnswer) else GroupAnswer(offsets, {})
    others = unmirrored(flow, {p.topic for p in (*asked.offsets, *asked.refused)})
    if others and asked is not offsets:
        topic, why = next(iter(others.items()))
        raise ConfigError([f"flow {flow.name} does not mirror topic {topic}: {why or 'see its topics and exclude'}"])
    mirrored = {partition: offset for partition, offset in asked.offsets.items() if partition.topic not in others}
    with closing(Translator(flow)) as translator:
        translator.refresh(list(mirrored))
        one = translator.to_upstream if reverse else translator.to_downstream
        found = [one(partition, offset) for partition, offset in mirrored.items()]
        for partition, offset in asked.offsets.items() - mirrored.items():
            found.append(Translation(partition, "", offset, None, not_mirrored(others[partition.topic])))
        for partition, reason in asked.refused.items():
            remote = "" if partition.topic in others else translator.remote(partition.topic)
            found.append(Translation(partition, remote, None, None, reason))
    return sorted(found, key=lambda each: each.partition)


def of_group(flow: Flow, group: str, reverse: bool = False) -> GroupAnswer:
    """The committed offsets of a group on the source, or if `reverse` on the target, of the mirrored topics.

    On the source also those of topics that are not mirrored because their remote topics can't have their names. Raises
    ConfigError for a group of positions, ClusterAway, PartitionError, FlowError.
    """
    policy, remotes = ReplicationPolicy.of(flow), RemoteNames(flow)
    remotes.refresh()
    counts = {name: n for name, n in ClusterAdmin(flow.source).partitions().items() if policy.is_chosen(name)}
    # Where its remote topic can't have its name, that name is another topic's on the target.
    others = unmirrored(flow, counts) if reverse else {}
    chosen = [Partition(name, n) for name, count in counts.items() if name not in others for n in range(count)]
    names = {p: (remotes.of(p.topic) if reverse else p.topic, p.partition) for p in chosen}
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
    rows = [[str(t.partition), t.offset, _there(t), t.translated, t.reason or ABSENT] for t in found]
    if reverse:
        rows = [[row[2], row[1], row[0], row[3], row[4]] for row in rows]
    return table(["partition", "offset", "there", "offset there", "reason"], rows)


def _there(found: Translation) -> str:
    return f"{found.remote}-{found.partition.partition}" if found.remote else ABSENT
