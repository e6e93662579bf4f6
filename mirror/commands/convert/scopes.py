"""Says what each key is about: a flow, a client of a cluster, a worker. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mirror.commands.convert.entries import ROLES, ClusterScope, Entry, FlowName, FlowScope, Item, Judged, Role
from mirror.commands.convert.setting import look_up
from mirror.commands.convert.table import CLIENTS, CONNECTORS, WORKERS

# MirrorClientConfig.CLIENT_CONFIG_DEF: what stands for all clients without consumer., producer. or admin. before it.
COMMON = ("bootstrap.servers", "security.protocol", "ssl.", "sasl.")
SYNC_PRODUCER = (
    "MirrorMaker uses it for its producer of offset syncs only; for records write <target>.producer. or "
    "<source>-><target>.producer.override. before the property"
)
IGNORED = "MirrorMaker ignores it here, and so it is left out; to have it, write consumer. or producer. before it"

UNKNOWN = "unknown key: neither MirrorMaker's nor Kafka Connect's"

# Of a rank the higher wins: the whole file, a cluster, a flow, a flow's client by its full name.
FILE, CLUSTER, FLOW, EXACT = range(4)


def is_common(name: str) -> bool:
    """True for a property of connection or security, which holds for every client of a cluster."""
    return name.startswith(COMMON)


def role_of(name: str) -> tuple[Role, str]:
    """The kind of client that a property is for, and the property: consumer.client.rack."""
    for role in ROLES:
        if name.startswith(f"{role}.") and name not in CONNECTORS:
            return role, name[len(role) + 1 :]
    return "", name


def of_flow(entry: Entry, name: str, flow: FlowName) -> Iterator[Item | Judged]:
    """What a key of a flow, or of a connector, is about. `name` is the key without the flow."""
    side, _, rest = name.partition(".")
    role, property_ = role_of(name)
    if side in ("source", "target") and name not in CONNECTORS:
        yield _of_side(entry, rest, flow[side == "target"], flow)
    elif role:
        yield _of_client(entry, property_, role, flow)
    elif look_up(CONNECTORS, name):
        yield Item(entry, name, FlowScope(*flow), FLOW)
    elif look_up(WORKERS, name):
        yield Judged(entry, name)
    elif look_up(CLIENTS, name):
        yield Judged(entry, name, IGNORED, "not needed")
    else:
        yield Judged(entry, name, UNKNOWN, "not possible")


def _of_side(entry: Entry, name: str, alias: str, flow: FlowName) -> Item | Judged:
    """A key that began with source. or target., without that."""
    role, property_ = role_of(name)
    cluster = name.removeprefix("cluster.")
    if cluster != name and is_common(cluster):
        return Item(entry, cluster, ClusterScope(alias), FLOW, flow)
    if role:
        return Item(entry, property_, ClusterScope(alias, role), EXACT, flow)
    return Judged(entry, entry.key, IGNORED, "not needed")


def _of_client(entry: Entry, name: str, role: Role, flow: FlowName) -> Item | Judged:
    """A key that began with consumer., producer. or admin., without that."""
    override = name.removeprefix("override.")
    alias = flow[0] if role == "consumer" else flow[1]
    if override != name:
        return Item(entry, override, ClusterScope(alias, role), EXACT, flow)
    if role == "producer":
        return Judged(entry, name, SYNC_PRODUCER, "not needed")
    return Item(entry, name, ClusterScope(alias, role), FLOW, flow)


def of_cluster(entry: Entry, name: str, alias: str, flows: Sequence[FlowName]) -> Iterator[Item | Judged]:
    """What a key of a cluster is about. `name` is the key without the alias."""
    role, property_ = role_of(name)
    if role:
        yield Item(entry, property_, ClusterScope(alias, role), CLUSTER)
    elif is_common(name):
        yield Item(entry, name, ClusterScope(alias), CLUSTER)
    elif name == "exactly.once.source.support":
        yield from (Item(entry, name, FlowScope(*flow), CLUSTER) for flow in flows if flow[1] == alias)
    elif look_up(WORKERS, name):
        yield Judged(entry, name)
    elif look_up(CONNECTORS, name):
        yield Judged(
            entry, name, "MirrorMaker ignores it under a cluster; write it under a flow or alone", "not needed"
        )
    elif look_up(CLIENTS, name):
        yield Judged(entry, name, IGNORED, "not needed")
    else:
        yield Judged(entry, name, UNKNOWN, "not possible")


def of_file(entry: Entry, aliases: Sequence[str], flows: Sequence[FlowName]) -> Iterator[Item | Judged]:
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
    elif look_up(CONNECTORS, name) or look_up(WORKERS, name):
        yield Judged(entry, name)
    elif look_up(CLIENTS, name):
        yield Judged(entry, name, IGNORED, "not needed")
    else:
        yield Judged(entry, name, f"{UNKNOWN}, nor does it begin with a cluster of clusters", "not possible")
