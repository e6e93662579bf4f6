"""Strimzi's resource KafkaMirrorMaker2, with `clusters` (v1beta2) or with `target` and `source` (v1). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mirror.commands.convert import halted, scopes
from mirror.commands.convert.connectors import mapping, scalar
from mirror.commands.convert.entries import (
    ClusterScope,
    FlowName,
    FlowScope,
    InputEntry,
    Item,
    Judged,
    ParsedInput,
    Part,
    Unreadable,
    true,
)
from mirror.commands.convert.strimzi_cluster import EMPTY, UNKNOWN, Lines, Path, cluster, leaves
from mirror.commands.convert.table import STRIMZI

MIRRORS_MAX = 1_000
IDLE = "the mirror has no sourceConnector, and only that one copies records"
CONNECTORS = {
    "sourceConnector": "MirrorSourceConnector",
    "checkpointConnector": "MirrorCheckpointConnector",
    "heartbeatConnector": "MirrorHeartbeatConnector",
}
PATTERNS = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "topicsBlacklistPattern": "topics.blacklist",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
    "groupsBlacklistPattern": "groups.blacklist",
}


def parsed(tree: Any, lines: Lines) -> ParsedInput:
    """The resource as a parsed. `lines` has the line of each key by its path. Raises Unreadable."""
    spec = mapping(mapping(tree, "the resource").get("spec"), "spec")
    found: list[Item | Judged] = []
    for name, value in tree.items():
        if name != "spec":
            found.append(_judged(name, value, (name,), lines))
    for name, value in spec.items():
        if name not in ("clusters", "mirrors", "target"):
            found.append(_judged(f"spec.{name}", value, ("spec", name), lines))
    clusters, target = _clusters(spec)
    mirrors = _mirrors(spec, target, lines)
    flows = [mirror.flow for mirror in mirrors if mirror.has("sourceConnector")]
    for alias, path, value in clusters:
        found += cluster(value, alias, path, lines, flows)
    for mirror in mirrors:
        found += mirror.all(flows)
    aliases = [alias for alias, *_ in clusters] + [mirror.flow[0] for mirror in mirrors if mirror.has("source")]
    unknown = next((alias for mirror in mirrors for alias in mirror.flow if alias not in aliases), None)
    if unknown is not None:
        raise Unreadable(f"spec.mirrors names the cluster {unknown:.100}, which is not there", lines.get(("spec",)))
    if not flows:
        raise Unreadable("no mirror has a sourceConnector, and only that one copies records", lines.get(("spec",)))
    used = tuple(alias for alias in dict.fromkeys(aliases) if any(alias in flow for flow in flows))
    found = [scopes.of_known_flow(each, flows) for each in found]
    items = tuple(each for each in found if isinstance(each, Item))
    unused = [each for each in items if isinstance(each.scope, ClusterScope) and each.scope.alias not in used]
    judged = [each for each in found if isinstance(each, Judged)]
    judged += [Judged(each.entry, each.name, "no mirror has this cluster", "not needed") for each in unused]
    kept = tuple(each for each in items if isinstance(each.scope, FlowScope) or each.scope.alias in used)
    names = tuple(dict.fromkeys(flows))
    parts = tuple((part, mirror.flow) for mirror in mirrors for part in mirror.parts())
    return ParsedInput("resource", used, names, kept, tuple(judged), unchecked=_unchecked(mirrors), parts=parts)


def _clusters(spec: Mapping[str, Any]) -> tuple[list[tuple[str, Path, Any]], str]:
    """The clusters with their aliases and paths, and the alias of the one that the workers belong to."""
    found: list[tuple[str, Path, Any]] = []
    for index, value in enumerate(_list(spec.get("clusters"), "spec.clusters")):
        found.append((_alias(value, f"spec.clusters[{index}]"), ("spec", "clusters", index), value))
    if "target" not in spec:
        return found, str(spec.get("connectCluster") or "")
    target = _alias(spec["target"], "spec.target", "target")
    return [*found, (target, ("spec", "target"), spec["target"])], target


def _mirrors(spec: Mapping[str, Any], target: str, lines: Lines) -> list[_Mirror]:
    mirrors = _list(spec.get("mirrors"), "spec.mirrors")
    if not 1 <= len(mirrors) <= MIRRORS_MAX:
        raise Unreadable(f"spec.mirrors must be a list of 1 to {MIRRORS_MAX:,} mirrors", lines.get(("spec",)))
    return [
        _Mirror(mapping(value, f"spec.mirrors[{index}]"), index, target, lines) for index, value in enumerate(mirrors)
    ]


def _unchecked(mirrors: Sequence[_Mirror]) -> tuple[FlowName, ...]:
    checked = {mirror.flow for mirror in mirrors if mirror.has("checkpointConnector")}
    copying = dict.fromkeys(mirror.flow for mirror in mirrors if mirror.has("sourceConnector"))
    return tuple(flow for flow in copying if flow not in checked)


class _Mirror:
    """One entry of spec.mirrors: a flow."""

    def __init__(self, tree: Mapping[str, Any], index: int, target: str, lines: Lines) -> None:
        self._tree = tree
        self._path: tuple[str | int, ...] = ("spec", "mirrors", index)
        self._key = f"spec.mirrors[{index}]"
        self._index = index
        self._lines = lines
        if "source" in tree:
            source = _alias(tree["source"], f"{self._key}.source")
        else:
            source = str(tree.get("sourceCluster") or "")
        self.flow: FlowName = (source, str(tree.get("targetCluster") or target))
        if not all(self.flow) or self.flow[0] == self.flow[1]:
            raise Unreadable(f"{self._key} needs a source and another target", lines.get(self._path))

    def has(self, name: str) -> bool:
        """True if the mirror has this key."""
        return name in self._tree

    def parts(self) -> list[Part]:
        """The connectors of the mirror."""
        return [self._part(name) for name in CONNECTORS if self.has(name)]

    def _part(self, name: str) -> Part:
        return Part(self._index, CONNECTORS[name])

    def all(self, flows: Sequence[FlowName]) -> Iterator[Item | Judged]:
        """What each key is about. `flows` are those of all mirrors."""
        for name, value in self._tree.items():
            key, path = f"{self._key}.{name}", (*self._path, name)
            if name == "source":
                yield from cluster(value, self.flow[0], path, self._lines, flows)
            elif self._is_idle(name, flows):
                yield Judged(InputEntry(key, scalar(value, key), self._lines.get(path)), name, IDLE, "not needed")
            elif name in ("sourceCluster", "targetCluster"):
                ours = "flows[].source" if name == "sourceCluster" else "flows[].target"
                yield Judged(InputEntry(key, scalar(value, key), self._lines.get(path)), name, "", "renamed", ours)
            elif name in PATTERNS:
                entry = InputEntry(key, scalar(value, key), self._lines.get(path))
                # The operator lets it replace what the connector's own config says.
                part = self._part("sourceConnector" if name.startswith("topics") else "checkpointConnector")
                yield Item(entry, PATTERNS[name], FlowScope(*self.flow), scopes.EXACT, part=part)
            elif name in CONNECTORS:
                found = self._connector(mapping(value, key), key, path)
                yield from (replace(e, part=self._part(name)) if isinstance(e, Item) else e for e in found)
            else:
                yield _of_table(InputEntry(key, "", self._lines.get(path)), f"<mirror>.{name}")

    def _is_idle(self, name: str, flows: Sequence[FlowName]) -> bool:
        """True if a key would be about copying, and nothing is copied."""
        if name in ("sourceCluster", "targetCluster"):
            return self.flow not in flows
        return PATTERNS.get(name, "").startswith("topics") and not self.has("sourceConnector")

    def _connector(self, tree: Mapping[str, Any], key: str, path: tuple[str | int, ...]) -> Iterator[Item | Judged]:
        kind, state = CONNECTORS[str(path[-1])], _state(tree, key)
        if kind == "MirrorHeartbeatConnector":
            asking = InputEntry(key, "true", self._lines.get(path))
            yield scopes.heartbeats(asking, "emit.heartbeats.enabled", self.flow, scopes.FILE)
        elif not tree:
            yield Judged(InputEntry(key, "", self._lines.get(path)), key, "one flow does what they do", "not needed")
        for name, value in tree.items():
            here = (*path, name)
            entry = InputEntry(f"{key}.{name}", "", self._lines.get(here))
            if name == "config" and value == {}:
                yield Judged(entry, name, EMPTY, "not needed")
            elif name == "config":
                found = self._config(mapping(value, entry.key), entry.key, here)
                yield from _idle(found) if halted.is_left_out(kind, state) else found
            elif name == "pause" and "state" in tree:
                yield Judged(entry, name, "state takes precedence", "not needed")
            elif name in ("state", "pause"):
                yield halted.of_state(entry, state, kind, self.flow)
            else:
                yield _of_table(entry, f"<connector>.{name}")

    def _config(self, tree: Mapping[str, Any], key: str, path: tuple[str | int, ...]) -> Iterator[Item | Judged]:
        kind = CONNECTORS[str(path[-2])]
        for name, value in tree.items():
            entry = InputEntry(f"{key}.{name}", scalar(value, f"{key}.{name}"), self._lines.get((*path, name)))
            if said := scopes.not_read(name, kind):
                yield Judged(entry, name, said, "not needed")
                continue
            for each in scopes.of_flow(entry, name, self.flow):
                of_client = isinstance(each, Item) and not isinstance(each.scope, FlowScope)
                if of_client and kind != "MirrorSourceConnector":
                    yield Judged(entry, name, f"it is the {path[-2]}'s own, and mirror has none", "not needed")
                else:
                    yield each


def _state(connector: Mapping[str, Any], key: str) -> str:
    """The state that a connector is to have; empty if nothing is said."""
    if "state" in connector:
        return scalar(connector["state"], f"{key}.state")
    return "paused" if true(scalar(connector.get("pause"), f"{key}.pause")) else ""


def _idle(found: Iterator[Item | Judged]) -> Iterator[Judged]:
    """The settings of a connector that does not run."""
    return (Judged(each.entry, each.name, halted.IDLE, "not needed") for each in found)


def _judged(key: str, value: Any, path: tuple[str | int, ...], lines: Lines) -> Judged:
    return _of_table(InputEntry(key, next(iter(leaves(value, key)))[1], lines.get(path)), key)


def _of_table(entry: InputEntry, name: str) -> Judged:
    if name in STRIMZI:
        return Judged(entry, name)
    return Judged(entry, name, UNKNOWN, "not possible")


def _list(value: Any, key: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise Unreadable(f"{key} must be a list")
    return value or []


def _alias(value: Any, key: str, default: str = "") -> str:
    alias = scalar(mapping(value, key).get("alias"), f"{key}.alias") or default
    if not alias:
        raise Unreadable(f"{key} needs an alias")
    return alias
