"""What the input holds: its keys with their values and lines, and what each is about. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

Role = Literal["", "consumer", "producer", "admin"]  # "": every client of the cluster
Kind = Literal["java", "ours", "secret"]  # of a property: see Item
ROLES: tuple[Role, ...] = ("consumer", "producer", "admin")

# What the input is, for people, and where it has a cluster's address.
Form = Literal["file", "connectors", "resource"]
FORMS: Mapping[Form, tuple[str, str]] = {
    "file": ("a file of MirrorMaker 2", "<alias>.bootstrap.servers"),
    "connectors": (
        "connectors of Kafka Connect",
        "source.cluster.bootstrap.servers and target.cluster.bootstrap.servers",
    ),
    "resource": ("a resource of Strimzi", "bootstrapServers"),
}

FlowName = tuple[str, str]  # the aliases of source and target
SOURCE = "MirrorSourceConnector"  # the class that copies records


class Unreadable(Exception):
    """The input can't be read or makes no sense: what is wrong and what to do, without the name of the file."""

    def __init__(self, text: str, line: int | None = None) -> None:
        super().__init__(text)
        self.line = line


@dataclass(frozen=True, slots=True)
class InputEntry:
    """One key of the input. `key` is unique: for JSON and YAML it is the whole path."""

    key: str
    value: str
    line: int | None = None
    earlier: tuple[int, ...] = ()  # lines with the same key before this one, which do not count; 0 if not known


class ClusterScope(NamedTuple):
    """A client property of one cluster."""

    alias: str
    role: Role = ""


class FlowScope(NamedTuple):
    """A setting of one flow."""

    source: str
    target: str


SettingScope = ClusterScope | FlowScope


class Part(NamedTuple):
    """A connector. Several of one class may have the same aliases, and are one flow then."""

    number: int  # of those in the input
    kind: str  # its class


class Said(NamedTuple):
    """What the account says of an item in place of what its own value would say."""

    fate: Literal["same", "renamed", "different", "not possible"]
    why: str


@dataclass(frozen=True, slots=True)
class Item:
    """An entry as a setting of one flow, or as a property of one cluster."""

    entry: InputEntry
    name: str  # without prefixes, as Kafka's documentation lists it
    scope: SettingScope
    rank: int = 0  # of items with the same name and scope the one with the highest rank counts
    flow: FlowName | None = None  # of a cluster's property that only one flow has
    # What `name` is: Java's property, librdkafka's, or librdkafka's with a secret whose place `entry.value` names.
    kind: Kind = "java"
    part: Part | None = None
    said: Said | None = None

    @property
    def weight(self) -> tuple[int, bool]:
        """Of several values the one with the highest weight counts: of connectors that of the one that copies."""
        return self.rank, self.part is None or self.part.kind == SOURCE


class Judged(NamedTuple):
    """An entry of which the form of the input alone says what becomes of it: a name of our table, or a reason."""

    entry: InputEntry
    name: str
    why: str = ""
    fate: Literal["", "same", "renamed", "not needed", "not possible"] = ""
    ours: str = ""


@dataclass(frozen=True, slots=True)
class ParsedInput:
    """The input in one form, whichever it was written in."""

    form: Form
    aliases: tuple[str, ...]
    flows: tuple[FlowName, ...]
    items: tuple[Item, ...]
    judged: tuple[Judged, ...]
    providers: tuple[tuple[str, str], ...] = ()  # config providers: name and class
    unchecked: tuple[FlowName, ...] = ()  # flows without the connector that looks after consumer groups
    parts: tuple[tuple[Part, FlowName], ...] = ()  # connectors, each with its aliases


def unique(entries: Iterable[InputEntry]) -> list[InputEntry]:
    """The entries without those whose key comes again later; the last one knows the lines of the others."""
    found: dict[str, InputEntry] = {}
    for entry in entries:
        before = found.pop(entry.key, None)
        lines = () if before is None else (*before.earlier, *((before.line,) if before.line else ()))
        found[entry.key] = InputEntry(entry.key, entry.value, entry.line, lines)
    return list(found.values())


def true(value: str) -> bool:
    """A Java boolean: `true` in any case, without the spaces around it."""
    return value.strip().lower() == "true"
