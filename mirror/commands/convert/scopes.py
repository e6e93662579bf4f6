"""Says what each key is about: a flow, a client of a cluster, a worker. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from mirror.commands.convert.entries import ROLES, ClusterScope, FlowName, FlowScope, InputEntry, Item, Judged, Role
from mirror.commands.convert.group_settings import EMITTED, GROUPS
from mirror.commands.convert.setting import look_up
from mirror.commands.convert.table import CLIENTS, CONNECTORS, STRIMZI, WORKERS

# MirrorClientConfig.CLIENT_CONFIG_DEF: what stands for all clients without consumer., producer. or admin. before it.
COMMON = ("bootstrap.servers", "security.protocol", "ssl.", "sasl.")
# Settings of workers in the connectors' table. MirrorMaker reads them under a cluster.
OF_WORKERS = frozenset({"offset.flush.interval.ms", "offset.flush.timeout.ms", "topic.creation.enable"})
SYNC_PRODUCER = (
    "MirrorMaker uses it for its producer of offset syncs only; for records write <target>.producer. or "
    "<source>-><target>.producer.override. before the property"
)
SYNC_CONSUMER = (
    "MirrorMaker uses it for its consumers of checkpoints and offset syncs only; for records write source.consumer. "
    "before the property"
)
OVERRIDE = (
    "only clients of Kafka Connect itself have it, and MirrorMaker's do not; to have it, write source.consumer. or "
    "admin. before the property"
)
# Settings that only one of the three connectors reads.
OWNERS: Mapping[str, frozenset[str]] = {
    "MirrorSourceConnector": frozenset({"topics", "topics.exclude", "topics.blacklist", "topic.filter.class"}),
    "MirrorCheckpointConnector": frozenset(row.name for row in GROUPS),
    "MirrorHeartbeatConnector": frozenset(row.name for row in EMITTED),
}
HEARTBEATS = OWNERS["MirrorHeartbeatConnector"]
IGNORED = "MirrorMaker ignores it here, and so it is left out; to have it, write consumer. or producer. before it"

UNKNOWN = "unknown key: neither MirrorMaker's nor Kafka Connect's"

# Of a rank the higher wins: what a file's cluster overrules, the whole file, a cluster, a flow, a flow's client by its
# full name.
BELOW, FILE, CLUSTER, FLOW, EXACT = range(-1, 4)


# What `mirror adopt` has to be told if it is not MirrorMaker's own name: the option, and that name.
ADOPT: Mapping[str, tuple[str, str]] = {
    "offset.storage.topic": ("--offsets-topic", "mm2-offsets.{source}.internal"),
    "offsets.storage.topic": ("--offsets-topic", "mm2-offsets.{source}.internal"),
    "spec.target.offsetStorageTopic": ("--offsets-topic", ""),
    "group.id": ("--worker-group", "{source}-mm2"),
    "spec.target.groupId": ("--worker-group", ""),
    "name": ("--connector", "MirrorSourceConnector"),
}


def for_adopt(entry: InputEntry, name: str, flows: Collection[FlowName] = ()) -> Judged:
    """A setting of the workers of these flows, or a connector's name: not needed, but for `mirror adopt`."""
    option, usual = ADOPT[name]
    setting = next(found for table in (CONNECTORS, WORKERS, STRIMZI) if (found := look_up(table, name)))
    why, value = setting.why.partition("; mirror adopt")[0], entry.value.strip()
    if value in {usual.format(source=source) for source, _ in flows}:
        return Judged(entry, name, f"{why}; mirror adopt knows this name", "not needed")
    return Judged(entry, name, f"{why}; give it to mirror adopt: {option} {value}", "not needed")


def is_common(name: str) -> bool:
    """True for a property of connection or security, which holds for every client of a cluster."""
    return name.startswith(COMMON)


def not_read(name: str, kind: str) -> str:
    """Why a setting says nothing to mirror in a connector of this class; empty if it does."""
    owner = next((each for each, names in OWNERS.items() if name in names), kind)
    if owner == kind:
        return ""
    if (owner, kind) == ("MirrorSourceConnector", "MirrorCheckpointConnector"):
        return "mirror translates the groups' offsets in all topics that the flow copies"
    return f"MirrorMaker reads it in a {owner} only"


def of_known_flow(each: Item | Judged, flows: Collection[FlowName]) -> Item | Judged:
    """A setting of a flow that is not there, as one that is not needed."""
    if not isinstance(each, Item) or not isinstance(each.scope, FlowScope) or each.scope in flows:
        return each
    source, target = each.scope
    if each.name not in HEARTBEATS:
        return Judged(each.entry, each.name, f"no MirrorSourceConnector copies from {source} to {target}", "not needed")
    said = (
        f"it is about heartbeats on {source}, which a flow {source}->{target} needs, and there is none; mirror writes "
        "heartbeats to a flow's source with heartbeats: {enabled: true}"
    )
    return Judged(each.entry, each.name, said, "not needed")


def heartbeats(entry: InputEntry, name: str, flow: FlowName, rank: int) -> Item:
    """A setting of MirrorMaker's heartbeats for a->b. They are written to b, for the flow that copies from there."""
    return Item(entry, name, FlowScope(flow[1], flow[0]), rank)


def role_of(name: str) -> tuple[Role, str]:
    """The kind of client that a property is for, and the property: consumer.client.rack."""
    for role in ROLES:
        if name.startswith(f"{role}.") and name not in CONNECTORS:
            return role, name[len(role) + 1 :]
    return "", name


def of_flow(entry: InputEntry, name: str, flow: FlowName, of_clients: int = FLOW) -> Iterator[Item | Judged]:
    """What a key of a flow, or of a connector, is about. `name` is the key without the flow.

    `of_clients` is the rank of what begins with consumer., admin., source.cluster. or target.cluster.: it is BELOW in
    MirrorMaker's own file, which makes source.consumer. of the cluster's, and that counts more.
    """
    side, _, rest = name.partition(".")
    role, property_ = role_of(name)
    if side in ("source", "target") and name not in CONNECTORS:
        yield _of_side(entry, rest, side, flow, of_clients)
    elif role:
        yield from _of_client(entry, property_, role, flow, of_clients)
    elif name in HEARTBEATS:
        yield heartbeats(entry, name, flow, FLOW)
    elif look_up(CONNECTORS, name):
        yield Item(entry, name, FlowScope(*flow), FLOW)
    elif name == "offsets.storage.topic":
        yield for_adopt(entry, name, [flow])
    elif look_up(WORKERS, name):
        yield Judged(entry, name)
    elif look_up(CLIENTS, name):
        yield Judged(entry, name, IGNORED, "not needed")
    else:
        yield Judged(entry, name, UNKNOWN, "not possible")


def _of_side(entry: InputEntry, name: str, side: str, flow: FlowName, rank: int) -> Item | Judged:
    """A key that began with source. or target., which is `side`, without that."""
    role, property_ = role_of(name)
    alias = flow[side == "target"]
    cluster = name.removeprefix("cluster.")
    if cluster != name and is_common(cluster):
        return Item(entry, cluster, ClusterScope(alias), rank, flow)
    if role == "producer":
        return Judged(entry, property_, SYNC_PRODUCER, "not needed")
    if (side, role) == ("target", "consumer"):
        return Judged(entry, property_, SYNC_CONSUMER, "not needed")
    if role:
        return Item(entry, property_, ClusterScope(alias, role), EXACT, flow)
    return Judged(entry, entry.key, IGNORED, "not needed")


def _of_client(entry: InputEntry, name: str, role: Role, flow: FlowName, rank: int) -> Iterator[Item | Judged]:
    """A key that began with consumer., producer. or admin., without that."""
    source, target = flow
    override = name.removeprefix("override.")
    if override != name and role == "producer":
        yield Item(entry, override, ClusterScope(target, role), EXACT, flow)
    elif override != name:
        yield Judged(entry, override, OVERRIDE, "not needed")
    elif role == "producer":
        yield Judged(entry, name, SYNC_PRODUCER, "not needed")
    elif role == "consumer":
        yield Item(entry, name, ClusterScope(source, role), rank, flow)
    else:
        yield from (Item(entry, name, ClusterScope(alias, role), rank, flow) for alias in flow)


def of_cluster(entry: InputEntry, name: str, alias: str, flows: Sequence[FlowName]) -> Iterator[Item | Judged]:
    """What a key of a cluster is about. `name` is the key without the alias."""
    role, property_ = role_of(name)
    if role:
        yield Item(entry, property_, ClusterScope(alias, role), CLUSTER)
    elif is_common(name):
        yield Item(entry, name, ClusterScope(alias), CLUSTER)
    elif name == "exactly.once.source.support":
        theirs = [flow for flow in flows if flow[1] == alias]
        yield from (Item(entry, name, FlowScope(*flow), CLUSTER) for flow in theirs)
        if not theirs:
            yield Judged(entry, name, f"no flow copies to {alias}, and it is about the target's workers", "not needed")
    elif name in ADOPT and name in WORKERS and alias in {target for _, target in flows}:
        yield for_adopt(entry, name, [flow for flow in flows if flow[1] == alias])
    elif name in OF_WORKERS or look_up(WORKERS, name):
        yield Judged(entry, name)
    elif look_up(CONNECTORS, name):
        yield Judged(
            entry, name, "MirrorMaker ignores it under a cluster; write it under a flow or alone", "not needed"
        )
    elif look_up(CLIENTS, name):
        yield Judged(entry, name, IGNORED, "not needed")
    else:
        yield Judged(entry, name, UNKNOWN, "not possible")


def of_file(entry: InputEntry, aliases: Sequence[str], flows: Sequence[FlowName]) -> Iterator[Item | Judged]:
    """What a key without a cluster or a flow is about."""
    name = entry.key
    role, property_ = role_of(name)
    if is_common(name):
        yield from (Item(entry, name, ClusterScope(alias), FILE) for alias in aliases)
    elif role and look_up(CLIENTS, property_):
        text = f"MirrorMaker ignores it without a cluster before it, and so it is left out; write <cluster>.{name}"
        yield Judged(entry, name, text, "not needed")
    elif name in CONNECTORS:
        yield from (Item(entry, name, FlowScope(*flow), FILE) for flow in flows)
    elif name == "offset.storage.topic":
        yield for_adopt(entry, name, flows)
    elif look_up(CONNECTORS, name) or look_up(WORKERS, name):
        yield Judged(entry, name)
    elif look_up(CLIENTS, name):
        yield Judged(entry, name, IGNORED, "not needed")
    else:
        yield Judged(entry, name, f"{UNKNOWN}, nor does it begin with a cluster of clusters", "not possible")
