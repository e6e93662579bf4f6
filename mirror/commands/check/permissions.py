"""What mirror needs to be allowed, declared once: `mirror check` tests it, and prints the commands that allow it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum

from mirror.groups.flow_back import FlowsBack
from mirror.groups.selected import selected
from mirror.groups.source_groups import taking_part
from mirror.kafka.cluster import ClusterAdmin, chunks
from mirror.kafka.subjects import own_subject
from mirror.settings import Cluster, Flow
from mirror.template import HEARTBEATS

NAMES_MAX = 100  # names in one command
WILDCARD = "*"  # an ACL of this name is about all resources of its kind
READ_SOURCE = frozenset({"DESCRIBE", "READ"})
COPY = frozenset({"DESCRIBE", "READ", "WRITE"})  # Read on the remote topics is needed to commit a position
READ_CONFIGS, CHANGE_CONFIGS = frozenset({"DESCRIBE_CONFIGS"}), frozenset({"ALTER_CONFIGS", "DESCRIBE_CONFIGS"})
POSITIONS, TRANSACTIONS = frozenset({"READ"}), frozenset({"DESCRIBE", "WRITE"})
SEE_ACLS, COPY_ACLS = frozenset({"DESCRIBE"}), frozenset({"ALTER", "DESCRIBE"})
CONTROL_TOPICS, OFFSET_MAPS = "mirror-control.", "mirror-offset-map."  # what their names begin with
CREATE, GROW = frozenset({"CREATE"}), frozenset({"ALTER"})


class Kind(StrEnum):
    """What an ACL is about, in the words of kafka-acls.sh."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Need:
    """Operations on resources of one kind on one cluster."""

    cluster: Cluster
    kind: Kind
    names: tuple[str, ...]  # empty for the cluster itself
    operations: frozenset[str]
    why: str  # what needs it; begins with the setting if one switches it on
    prefixed: bool = False  # True: the names are beginnings of names
    required: bool = True  # False: without it records are copied all the same


def words(operations: Iterable[str]) -> str:
    """Operations for people, and for kafka-acls.sh: `Describe, DescribeConfigs`."""
    return ", ".join(each.title().replace("_", "") for each in sorted(operations))


def needs(
    flow: Flow, remotes: Mapping[str, str], groups: Collection[str], group_back: Collection[str] = ()
) -> Iterator[Need]:
    """All that a flow needs; `remotes` has the remote topic of each topic, `groups` are those that take part.

    `group_back` has the groups of the flows back, with active_active.
    """
    yield from _to_copy(flow, remotes)
    yield from _configurations(flow, remotes)
    why = "to find cycles that other configurations make"
    yield Need(flow.source, Kind.TOPIC, (CONTROL_TOPICS,), READ_SOURCE, why, prefixed=True, required=False)
    yield from beside(flow, groups, group_back)


def beside(flow: Flow, groups: Collection[str], group_back: Collection[str]) -> Iterator[Need]:
    """What the flow leader needs beside the copying; without it records are copied all the same."""
    source, target, names = flow.source, flow.target, tuple(sorted(groups))
    if flow.makes_rounds and names:
        yield Need(source, Kind.GROUP, names, frozenset({"DESCRIBE"}), "groups: their offsets", required=False)
        if flow.groups.sync:
            why = "groups.sync: to commit their offsets"
            yield Need(target, Kind.GROUP, names, POSITIONS, why, required=False)
    if flow.active_active:
        yield from _of_flow_back(flow, group_back)
    if flow.heartbeats.enabled:
        why = "heartbeats.enabled: to write them"
        yield Need(source, Kind.TOPIC, (HEARTBEATS,), COPY | CREATE, why, required=False)
    if flow.canary.enabled:
        yield for_canary(flow)
    if flow.sync_acls:
        why = "sync_acls: to read the ACLs"
        yield Need(source, Kind.CLUSTER, (), SEE_ACLS, why, required=False)
        why = "sync_acls: to compare and create ACLs"
        yield Need(target, Kind.CLUSTER, (), COPY_ACLS, why, required=False)


def _of_flow_back(flow: Flow, groups: Collection[str]) -> Iterator[Need]:
    """What tells of the flow back on the source. Its alias for our target need not be ours, so these are prefixes."""
    source = flow.source
    why = "active_active: to read the plan of the flow back"
    yield Need(source, Kind.TOPIC, (CONTROL_TOPICS,), READ_SOURCE, why, prefixed=True, required=False)
    if flow.makes_rounds:
        why = "active_active: to sync groups by the offset map of the flow back"
        yield Need(source, Kind.TOPIC, (OFFSET_MAPS,), READ_SOURCE, why, prefixed=True, required=False)
        why = "active_active: to sync groups by the position of the flow back"
        yield Need(source, Kind.GROUP, tuple(groups), frozenset({"DESCRIBE"}), why, required=False)


def group_back(flow: Flow) -> tuple[str, ...]:
    """The group of each flow back, with active_active: the plans name them, or else it is the default one.

    Raises ClusterAway or FlowError.
    """
    if not (flow.active_active and flow.makes_rounds):
        return ()
    with closing(FlowsBack(flow)) as finder:
        found = dict.fromkeys(back.flow.group for back in finder.find())
    return tuple(found) or (f"mirror-{flow.target.alias}-{flow.source.alias}",)


def for_canary(flow: Flow) -> Need:
    """What the canary needs on the source; on the target it needs no more than mirror's own topics."""
    why = "canary.enabled: to write and copy it"
    return Need(flow.source, Kind.TOPIC, (flow.canary_topic,), COPY | CREATE, why, required=False)


def _to_copy(flow: Flow, remotes: Mapping[str, str]) -> Iterator[Need]:
    source, target = flow.source, flow.target
    prefixes: tuple[str, ...] = ("mirror-",)
    if remotes:
        yield Need(source, Kind.TOPIC, tuple(sorted(remotes)), READ_SOURCE, "to copy these topics")
        names, prefixed = _named(flow, remotes)
        yield Need(target, Kind.TOPIC, names, COPY | CREATE | GROW, "to create remote topics, write, commit", prefixed)
        prefixes += names if prefixed else ()
    own = COPY | CREATE
    yield Need(target, Kind.TOPIC, ("mirror-",), own, "mirror's own topics, and those of other flows", prefixed=True)
    others = tuple(name for name in flow.own_topics if not name.startswith(prefixes))
    yield Need(target, Kind.TOPIC, others, own, "topics in MirrorMaker's format")
    yield Need(target, Kind.GROUP, (flow.group,), POSITIONS, "to commit positions")
    if flow.exactly_once:
        why = "exactly_once: transactions"
        yield Need(target, Kind.TRANSACTIONAL_ID, (f"{flow.group}/",), TRANSACTIONS, why, prefixed=True)


def _configurations(flow: Flow, remotes: Mapping[str, str]) -> Iterator[Need]:
    target = flow.target
    if remotes:
        why = "to copy configurations, and to warn before retention deletes records"
        yield Need(flow.source, Kind.TOPIC, tuple(sorted(remotes)), READ_CONFIGS, why, required=False)
        names, prefixed = _named(flow, remotes)
        why = "to see whether remote topics replace timestamps or are compacted"
        if flow.sync_topic_configs:
            why = "sync_topic_configs: to keep configurations in step"
        operations = CHANGE_CONFIGS if flow.sync_topic_configs else READ_CONFIGS
        yield Need(target, Kind.TOPIC, names, operations, why, prefixed, required=False)
    why = "to see for how long the target keeps positions"
    yield Need(target, Kind.CLUSTER, (), READ_CONFIGS, why, required=False)
    why = "only for `mirror check`: to see whether the source takes larger batches than the target"
    yield Need(flow.source, Kind.CLUSTER, (), READ_CONFIGS, why, required=False)


def _named(flow: Flow, remotes: Mapping[str, str]) -> tuple[tuple[str, ...], bool]:
    """The remote topics; or their prefix, if all begin with the source's name, so that new topics need no new ACL.

    The canary's topic does not count: like all of mirror's own, it has the prefix `mirror-`.
    """
    prefix = f"{flow.source.alias}."
    if all(name.startswith(prefix) for topic, name in remotes.items() if topic != flow.canary_topic):
        return (prefix,), True
    return tuple(sorted(remotes.values())), False


def commands(need: Need) -> Iterator[str]:
    """The commands that allow it; NAME stands for mirror's user if the configuration does not name it.

    A group whose name would allow all groups has none: any client may make one of this name.
    """
    who = f"User:{need.cluster.properties.get('sasl.username') or own_subject(need.cluster) or 'NAME'}"
    servers = need.cluster.properties["bootstrap.servers"]
    start = ["kafka-acls.sh", "--bootstrap-server", servers, "--add", "--allow-principal", who]
    for operation in words(need.operations).split(", "):
        start += ["--operation", operation]
    end = ["--resource-pattern-type", "prefixed"] if need.prefixed else []
    if need.kind is Kind.CLUSTER:
        yield shlex.join([*start, "--cluster"])
    names = [name for name in need.names if need.kind is not Kind.GROUP or name != WILDCARD]
    for some in chunks(names, NAMES_MAX):
        yield shlex.join([*start, *(part for name in some for part in (f"--{need.kind}", name)), *end])


def asked(flow: Flow) -> list[Need]:
    """What a flow needs now. Asks the source for its topics and groups. Raises ClusterAway or FlowError."""
    source = ClusterAdmin(flow.source)
    groups = taking_part(flow, source.groups()) if flow.makes_rounds else []
    return list(needs(flow, selected(flow, source.partitions()).remotes, groups, group_back(flow)))


_ALL = f"# left out: the {Kind.GROUP} {WILDCARD}, because to Kafka this name means all of them"
_HIDDEN = "# left out: a name in it has characters that can't be shown; --json has this command"


def script(flows: Sequence[tuple[Flow, Sequence[Need]]]) -> str:
    """The commands of all flows as a shell script, each with the reason."""
    lines = [
        "# Add --command-config FILE with an administrator's login to each command if the cluster asks for one.",
        "# User:NAME stands for mirror's user: the configuration does not name it.",
    ]
    for flow, found in flows:
        lines += ["", f"# {flow.name}"]
        for need in found:
            kind = "needed" if need.required else "optional"
            lines += [f"# {need.cluster.alias}, {kind}: {need.why}"]
            lines += [each if each.isprintable() else _HIDDEN for each in commands(need)]
            lines += [_ALL] * (need.kind is Kind.GROUP and WILDCARD in need.names)
    return "\n".join(lines)
