"""MirrorMaker 2's own file (connect-mirror-maker.sh): clusters, flows, and what holds for all of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mirror.commands.convert import scopes
from mirror.commands.convert.entries import FlowName, InputEntry, Item, Judged, ParsedInput, Unreadable, true

CLUSTERS_MAX = 100
FLOWS_MAX = 1_000  # mirror's own file takes no more


def parsed(entries: Sequence[InputEntry]) -> ParsedInput:
    """The file, parsed. Raises Unreadable if it names no clusters or enables no flow."""
    by_key = {entry.key: entry for entry in entries}
    if "clusters" not in by_key:
        raise Unreadable("no key clusters: write clusters = a, b with the aliases of your clusters")
    line = by_key["clusters"].line
    aliases = list(dict.fromkeys(filter(None, (each.strip() for each in by_key["clusters"].value.split(",")))))
    if not 2 <= len(aliases) <= CLUSTERS_MAX:
        raise Unreadable(f"clusters must name 2 to {CLUSTERS_MAX} aliases, separated by commas", line)
    flows = _enabled(aliases, by_key)
    if not flows:
        example = f"{aliases[0]:.100}->{aliases[1]:.100}.enabled = true"
        raise Unreadable(f"no flow is enabled: write {example} for each direction to copy", line)
    if len(flows) > FLOWS_MAX:
        raise Unreadable(f"more than {FLOWS_MAX:,} flows are enabled; divide them among several files", line)
    used = [alias for alias in aliases if any(alias in flow for flow in flows)]
    found = [each for entry in entries for each in _placed(entry, aliases, used, flows)]
    return ParsedInput(
        "file",
        tuple(used),
        tuple(flows),
        tuple(each for each in found if isinstance(each, Item)),
        tuple(each for each in found if isinstance(each, Judged)),
        providers(entries),
    )


def providers(entries: Sequence[InputEntry]) -> tuple[tuple[str, str], ...]:
    """The config providers that the entries name, each with its class."""
    values = {entry.key: entry.value.strip() for entry in entries}
    names = filter(None, (each.strip() for each in values.get("config.providers", "").split(",")))
    return tuple((name, values.get(f"config.providers.{name}.class", "")) for name in names)


def _enabled(aliases: Sequence[str], by_key: Mapping[str, InputEntry]) -> list[FlowName]:
    known, found = set(aliases), dict[FlowName, bool]()
    everything = by_key.get("enabled")
    if everything and true(everything.value):
        found = {(a, b): True for a in aliases for b in aliases if a != b}
    for key, entry in by_key.items():
        source, arrow, rest = key.partition("->")
        target = rest.removesuffix(".enabled")
        if arrow and target != rest and {source, target} <= known and source != target:
            found[source, target] = true(entry.value)
    return [flow for flow, is_enabled in found.items() if is_enabled]


def _placed(
    entry: InputEntry, aliases: Sequence[str], used: Sequence[str], flows: Sequence[FlowName]
) -> Iterator[Item | Judged]:
    key = entry.key
    if key == "clusters":
        yield Judged(entry, key, "", "same", "clusters")
    elif "->" in key:
        yield from _of_pair(entry, aliases, flows)
    elif alias := max((each for each in aliases if key.startswith(f"{each}.")), key=len, default=""):
        if alias in used:
            yield from scopes.of_cluster(entry, key[len(alias) + 1 :], alias, flows)
        else:
            yield Judged(entry, key, f"no enabled flow has the cluster {alias}", "not needed")
    elif key == "enabled":
        yield Judged(entry, key, "an enabled flow is an entry of flows", "renamed", "flows")
    else:
        yield from scopes.of_file(entry, used, flows)


def _of_pair(entry: InputEntry, aliases: Sequence[str], flows: Sequence[FlowName]) -> Iterator[Item | Judged]:
    source, _, rest = entry.key.partition("->")
    target = max((each for each in aliases if rest.startswith(f"{each}.")), key=len, default="")
    name = rest[len(target) + 1 :]
    if source not in aliases or not target or source == target:
        yield Judged(entry, entry.key, "it names no two clusters of clusters", "not possible")
    elif name == "enabled":
        enabled = (source, target) in flows
        said = "an enabled flow is an entry of flows" if enabled else "a flow that is not enabled is left out"
        yield Judged(entry, entry.key, said, "renamed" if enabled else "not needed", "flows" if enabled else "")
    elif name in scopes.HEARTBEATS:
        found = scopes.heartbeats(entry, name, (source, target), scopes.FLOW)
        yield scopes.of_known_flow(found, flows)
    elif (source, target) not in flows:
        yield Judged(entry, entry.key, f"the flow {source}->{target} is not enabled", "not needed")
    else:
        yield from scopes.of_flow(entry, name, (source, target), scopes.BELOW)
