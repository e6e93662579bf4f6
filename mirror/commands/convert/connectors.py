"""MirrorMaker 2's connectors as Kafka Connect takes them: JSON, or properties. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mirror.commands.convert import halted, scopes
from mirror.commands.convert.entries import (
    ClusterScope,
    FlowName,
    InputEntry,
    Item,
    Judged,
    ParsedInput,
    Part,
    Unreadable,
)

CLASSES = ("MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector")
CONNECTORS_MAX = 1_000
# A key outside of a connector's configuration has a blank before its name here. These two tell its state.
STATES = (" initial_state", " status")
IDENTITY = (" name", "name", "connector.class", "source.cluster.alias", "target.cluster.alias")
OBJECT = "…"  # stands for a value that is no text
_VALUES_MAX = 100_000


class Object(dict[str, Any]):
    """A JSON object that knows which of its names came more than once; the last value counts."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        names = Counter(name for name, _ in pairs)
        self.repeated = frozenset(name for name, times in names.items() if times > 1)


# A connector's entries: the path to them in the input, then each by its name.
Connector = Mapping[str, InputEntry]


def from_json(tree: Any) -> list[Connector]:
    """The connectors of parsed JSON.

    Taken are a configuration, {"name": ..., "config": {...}}, a list of these, and what Connect's REST interface
    gives (a mapping from name to {"info": ...}). Raises Unreadable.
    """
    if isinstance(tree, list):
        found = [_connector(each, f"[{index}].") for index, each in enumerate(tree)]
    elif isinstance(tree, dict) and tree and all(isinstance(each, dict) and "info" in each for each in tree.values()):
        found = [_with_status(_connector(each["info"], f"{name}.info."), each, name) for name, each in tree.items()]
    else:
        found = [_connector(tree, "")]
    if not 1 <= len(found) <= CONNECTORS_MAX:
        raise Unreadable(f"the list must hold 1 to {CONNECTORS_MAX:,} connectors")
    return found


def _with_status(connector: Connector, tree: Mapping[str, Any], path: str) -> Connector:
    """The connector with what Connect says of it beside its `info`: with ?expand=status it tells the state."""
    beside = {f" {name}": InputEntry(f"{path}.{name}", _state(value)) for name, value in tree.items() if name != "info"}
    return {**connector, **beside}


def _state(status: Any) -> str:
    inner = status.get("connector") if isinstance(status, dict) else None
    state = inner.get("state") if isinstance(inner, dict) else None
    return state if isinstance(state, str) else OBJECT


def _connector(tree: Any, path: str) -> Connector:
    where = f"{path.rstrip('.')}: " if path else ""
    if not isinstance(tree, dict):
        raise Unreadable(f"{where}not a connector: it must be an object of names and values, or have one in config")
    entries: dict[str, InputEntry] = {}
    config = tree.get("config")
    if config is None:
        config, inner = tree, path
    else:
        inner = f"{path}config."
        outside = {name: value for name, value in tree.items() if name != "config"}
        for name, value in outside.items():
            text = value if isinstance(value, str) else OBJECT
            # A key outside of config that config has as well does not count.
            entries[f" {name}"] = InputEntry(f"{path}{name}", text)
    if not isinstance(config, dict):
        raise Unreadable(f"{where}config must be an object of names and values")
    if len(config) > _VALUES_MAX:
        raise Unreadable(f"{where}more than {_VALUES_MAX:,} keys")
    repeated = config.repeated if isinstance(config, Object) else frozenset()
    for name, value in config.items():
        key = f"{inner}{name}"
        entries[name] = InputEntry(key, scalar(value, key), earlier=(0,) if name in repeated else ())
    return entries


def mapping(value: Any, key: str, line: int | None = None) -> Mapping[str, Any]:
    """A JSON or YAML value that has to be a mapping. Raises Unreadable if it is another."""
    if not isinstance(value, dict):
        raise Unreadable(f"{key} must be a mapping", line)
    return value


def scalar(value: Any, key: str) -> str:
    """A JSON or YAML value as Connect's text. Raises Unreadable for a list or a mapping."""
    if isinstance(value, dict | list):
        raise Unreadable(f"{key}: must be a single value, not a list or a mapping")
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def parsed(connectors: Sequence[Connector]) -> ParsedInput:
    """All connectors as one input. Those with the same aliases are one flow. Raises Unreadable."""
    flows: dict[FlowName, None] = {}
    copying: set[FlowName] = set()
    checked: set[FlowName] = set()
    found: list[Item | Judged] = []
    parts: list[tuple[Part, FlowName]] = []
    for number, connector in enumerate(connectors):
        kind, flow = _identity(connector)
        parts.append((Part(number, kind), flow))
        flows.setdefault(flow)
        if kind == CLASSES[0]:
            copying.add(flow)
        elif kind == CLASSES[1]:
            checked.add(flow)
        every = (each for name, entry in connector.items() for each in _of_key(entry, name, flow, kind, connector))
        found += (replace(each, part=parts[-1][0]) if isinstance(each, Item) else each for each in every)
    if not copying:
        raise Unreadable(f"no {CLASSES[0]} is among the connectors, and only that one copies records")
    found = [_kept(each, copying) for each in found]
    return ParsedInput(
        "connectors",
        tuple(dict.fromkeys(alias for flow in copying_order(flows, copying) for alias in flow)),
        copying_order(flows, copying),
        tuple(each for each in found if isinstance(each, Item)),
        tuple(each for each in found if isinstance(each, Judged)),
        unchecked=tuple(flow for flow in copying_order(flows, copying) if flow not in checked),
        parts=tuple(parts),
    )


def copying_order(flows: Mapping[FlowName, None], copying: set[FlowName]) -> tuple[FlowName, ...]:
    """The flows that copy records, in the order of the input."""
    return tuple(flow for flow in flows if flow in copying)


def _kept(each: Item | Judged, copying: Collection[FlowName]) -> Item | Judged:
    """The item, if it belongs to a flow that copies records."""
    if isinstance(each, Item) and each.flow is not None and each.flow not in copying:
        return Judged(each.entry, each.name, f"no {CLASSES[0]} copies this flow's records", "not needed")
    return scopes.of_known_flow(each, copying)


def _identity(connector: Connector) -> tuple[str, FlowName]:
    entry = connector.get("connector.class")
    kind = entry.value.strip().rpartition(".")[2] if entry else ""
    if kind not in CLASSES:
        line = entry.line if entry else None
        raise Unreadable(f"connector.class must be one of MirrorMaker 2's: {', '.join(CLASSES)}", line)
    aliases = []
    for side in ("source", "target"):
        alias = connector.get(f"{side}.cluster.alias")
        aliases.append((alias.value.strip() if alias else "") or side)
    if aliases[0] == aliases[1]:
        raise Unreadable("source.cluster.alias and target.cluster.alias are the same", entry.line if entry else None)
    return kind, (aliases[0], aliases[1])


def _of_key(entry: InputEntry, name: str, flow: FlowName, kind: str, connector: Connector) -> Iterator[Item | Judged]:
    states = [connector[each].value for each in STATES if each in connector]
    if name in STATES and entry.value != OBJECT:
        yield halted.of_state(entry, entry.value, kind, flow)
    elif name not in IDENTITY and any(halted.is_left_out(kind, state) for state in states):
        yield Judged(entry, name, halted.IDLE, "not needed")
    else:
        yield from _placed(entry, name, flow, kind)


def _placed(entry: InputEntry, name: str, flow: FlowName, kind: str) -> Iterator[Item | Judged]:
    if name in (" name", "name") and kind == CLASSES[0]:
        yield scopes.for_adopt(entry, "name", [flow])
    elif name.startswith(" "):
        yield Judged(entry, name.strip(), "Connect's own; a flow's name is <source>-><target>", "not needed")
    elif re.fullmatch(r"(source|target)\.cluster\.alias", name):
        yield Judged(entry, name, "", "renamed", f"flows[].{name.partition('.')[0]}")
    elif name == "connector.class" and kind == CLASSES[2]:
        # The connector writes heartbeats unless its configuration says otherwise.
        asking = InputEntry(entry.key, "true", entry.line, entry.earlier)
        yield scopes.heartbeats(asking, "emit.heartbeats.enabled", flow, scopes.FILE)
    elif name in ("connector.class", "name"):
        yield Judged(entry, name)
    elif name == "enabled":
        yield Judged(entry, name, "a connector that is in the input is a flow", "not needed")
    elif said := scopes.not_read(name, kind):
        yield Judged(entry, name, said, "not needed")
    else:
        for each in scopes.of_flow(entry, name, flow):
            of_client = isinstance(each, Item) and isinstance(each.scope, ClusterScope) and each.scope.role
            if kind != CLASSES[0] and (of_client or name == "tasks.max"):
                yield Judged(entry, name, f"it is the {kind}'s own, and mirror has none", "not needed")
            else:
                yield each
