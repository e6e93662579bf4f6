"""Collects what becomes of each key: the values of our file, and the account."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from mirror.commands.convert import filters, flow_keys, scopes, together
from mirror.commands.convert.client_keys import Section
from mirror.commands.convert.entries import (
    ClusterScope,
    FlowName,
    FlowScope,
    InputEntry,
    Item,
    Judged,
    ParsedInput,
    Unreadable,
)
from mirror.commands.convert.setting import CARRIED, FATES, Fate, Setting, look_up
from mirror.commands.convert.table import CLIENTS, CONNECTORS, STRIMZI, WORKERS
from mirror.commands.convert.variables import Variables
from mirror.commands.convert.verdict import Place, Put, Verdict, of_table

_Scope = TypeVar("_Scope", ClusterScope, FlowScope)

UNKNOWN = Setting("", "", "not possible", "", "unknown key")
SHOWN = 3  # places that a row names


@dataclass(frozen=True, slots=True)
class Row:
    """One key of the input in the account."""

    key: str
    line: int | None
    fate: Fate
    ours: str  # keys of our file
    why: str


@dataclass(slots=True)
class Draft:
    """Our file in the making. Its values lie by their place, each with the key that it comes from."""

    parsed: ParsedInput
    variables: Variables
    values: dict[Place, tuple[Put, str]] = field(default_factory=dict)
    _verdicts: dict[str, tuple[InputEntry, list[Verdict]]] = field(default_factory=dict)
    _ours: dict[str, str] = field(default_factory=dict)
    _numbers: dict[FlowName, int] = field(default_factory=dict)

    def fill(self) -> None:
        """Judge every item. Raises Unreadable for a filter that can't be carried: without it too much is copied."""
        self._numbers = {flow: number for number, flow in enumerate(self.parsed.flows)}
        for judged in self.parsed.judged:
            self._judge(judged)
        clusters = _grouped(
            (each.scope, each)
            for each in self.parsed.items
            if isinstance(each.scope, ClusterScope) and not self._places(each)
        )
        for scope in sorted(clusters, key=lambda each: each.role):  # what is for all clients comes first
            self._fill_section(scope, clusters)
        flows = _grouped((flow, each) for each in self.parsed.items for flow in self._places(each))
        for flow, group in flows.items():
            values = {name: _winner(items).entry.value.strip() for name, items in group.items()}
            for winner, equal in self._winners(group):
                self._take_all(equal, together.overruled(winner.name, flow, values) or self._of_flow(winner, flow))

    def rows(self) -> list[Row]:
        """The account: one row for each key of the input."""
        return [self._row(entry, verdicts) for entry, verdicts in self._verdicts.values()]

    def _judge(self, judged: Judged) -> None:
        tables = (CONNECTORS, WORKERS, CLIENTS, STRIMZI)
        setting = next((found for table in tables if (found := look_up(table, judged.name))), UNKNOWN)
        fate, why = (judged.fate, judged.why) if judged.fate else (setting.fate, setting.why)
        if fate in CARRIED:
            self._ours[judged.entry.key] = judged.ours or setting.ours
        self._take(judged.entry, Verdict(fate, why))

    def _fill_section(self, scope: ClusterScope, clusters: Mapping[ClusterScope, dict[str, list[Item]]]) -> None:
        idle = self._idle(scope)
        groups = {winner.name: (winner, equal) for winner, equal in self._winners(clusters[scope])}
        common = {name: _winner(items) for name, items in clusters.get(ClusterScope(scope.alias), {}).items()}
        winners = {name: winner for name, (winner, _) in groups.items() if not _is_covered(winner, common)}
        section = Section(scope, winners, common, self.variables)
        for item, equal in groups.values():
            if idle:
                self._take_all(equal, Verdict("not needed", idle))
            elif item.name not in winners:
                self._take_all(equal, _overridden(item, common[item.name]))
            else:
                self._take_all(equal, self._for_all_flows(section.judge(item), equal, scope))

    def _places(self, item: Item) -> list[FlowScope]:
        """The flows of which an item sets a key. There are none if it sets a property of a cluster."""
        scope = item.scope
        if isinstance(scope, FlowScope):
            return [scope]
        if item.name not in flow_keys.CLIENT_HANDLERS or scope.role == "admin":
            return []
        return [FlowScope(*flow) for flow in ([item.flow] if item.flow else self._flows(scope))]

    def _for_all_flows(self, verdict: Verdict, equal: Sequence[Item], scope: ClusterScope) -> Verdict:
        """Say so if what some flows or connectors ask for would hold for others, too."""
        asking = {item.flow for item in equal}
        if None in asking or not verdict.puts:
            return verdict
        said = "in mirror it holds for every flow of the cluster" if asking < {*self._flows(scope)} else ""
        parts = {item.part for item in equal}
        kinds = {part.kind for part in parts if part}
        if any(flow in asking and part.kind in kinds and part not in parts for part, flow in self.parsed.parts):
            said = said or "in mirror it holds for all topics of the flow"
        if not said:
            return verdict
        fate = max(verdict.fate, "different", key=FATES.index)
        return Verdict(fate, "; ".join(filter(None, (verdict.why, said))), verdict.puts)

    def _flows(self, scope: ClusterScope) -> list[FlowName]:
        sides = {"consumer": (0,), "producer": (1,)}.get(scope.role, (0, 1))
        return [flow for flow in self.parsed.flows if any(flow[side] == scope.alias for side in sides)]

    def _idle(self, scope: ClusterScope) -> str:
        """Why mirror has no such client of the cluster; empty if it has."""
        if scope.role in ("consumer", "producer") and not self._flows(scope):
            side = "source" if scope.role == "consumer" else "target"
            return f"{scope.alias} is no flow's {side}, so mirror has no {scope.role} there"
        return ""

    def _of_flow(self, item: Item, scope: FlowScope) -> Verdict:
        if item.name in flow_keys.CLIENT_HANDLERS:
            return flow_keys.CLIENT_HANDLERS[item.name](CLIENTS[item.name], scope, item.entry.value.strip())
        if item.name not in CONNECTORS:
            return of_table(look_up(CONNECTORS, item.name) or UNKNOWN)
        try:
            return flow_keys.judge(item.name, scope, item.entry.value)
        except filters.BadPattern as error:
            raise Unreadable(f"{item.entry.key}: {error}", item.entry.line) from None

    def _winners(self, group: Mapping[str, list[Item]]) -> Iterator[tuple[Item, list[Item]]]:
        """The items that count, each with those that say the same; an overridden one is taken into the account."""
        for items in group.values():
            winner = _winner(items)
            equal, own = [winner], list[Item]()
            for item in items:
                if item is winner:
                    continue
                if item.rank == winner.rank and (item.entry.value, item.kind) == (winner.entry.value, winner.kind):
                    equal.append(item)
                elif isinstance(item.scope, FlowScope) and _are_alike(item, winner):
                    own.append(item)  # in effect they say the same, or nothing: see united.py
                else:
                    self._take(item.entry, _overridden(item, winner))
            yield winner, equal
            yield from ((item, [item]) for item in own)

    def _take_all(self, items: Iterable[Item], verdict: Verdict) -> None:
        for item in items:
            self._take(item.entry, Verdict(*item.said, verdict.puts) if item.said else verdict)

    def _take(self, entry: InputEntry, verdict: Verdict) -> None:
        kept = []
        for put in verdict.puts:
            first, key = self.values.setdefault(put.place, (put, entry.key))
            if first == put:
                kept.append(put)
            elif key != entry.key:
                verdict = Verdict("not needed", f"{key} takes precedence")
        final = Verdict(verdict.fate, verdict.why, tuple(kept))
        self._verdicts.setdefault(entry.key, (entry, []))[1].append(final)

    def _row(self, entry: InputEntry, verdicts: list[Verdict]) -> Row:
        worst = max(verdicts, key=lambda each: FATES.index(each.fate))
        whys = list(dict.fromkeys(each.why for each in verdicts if each.why and each.fate == worst.fate))
        places = [self.named(put.place) for each in verdicts for put in each.puts]
        shown = list(dict.fromkeys(places))
        more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
        ours = ", ".join(shown[:SHOWN]) + more if shown else self._ours.get(entry.key, "")
        if entry.earlier:
            lines = ", ".join(str(line) for line in entry.earlier if line)
            where = f"in line {lines} " if lines else ""
            whys.append(f"an earlier value {where}does not count")
        return Row(entry.key, entry.line, worst.fate, ours, "; ".join(whys[:SHOWN]))

    def named(self, place: Place) -> str:
        """A place as people write it: clusters.a.client.rack, flows[0].topics."""
        if place[0] == "flows":
            flow = place[1]
            assert isinstance(flow, tuple)
            return ".".join((f"flows[{self._numbers[flow]}]", *(str(part) for part in place[2:])))
        return ".".join(str(part) for part in place)


def _winner(items: Sequence[Item]) -> Item:
    """The item that counts: of those with the highest weight, the last one."""
    return max(reversed(items), key=lambda item: item.weight)


def _is_covered(item: Item, common: Mapping[str, Item]) -> bool:
    """True if a property of all clients of the cluster counts in place of one kind of client's: see scopes.of_flow."""
    return item.rank == scopes.BELOW and item.name in common and common[item.name].rank > scopes.BELOW


def _are_alike(item: Item, other: Item) -> bool:
    """True if two connectors of the same class say it."""
    if item.part is None or other.part is None or item.rank != other.rank:
        return False
    return item.part.kind == other.part.kind and item.part != other.part


def _overridden(item: Item, winner: Item) -> Verdict:
    """What becomes of an item because another one with the same name and scope counts."""
    if item.name == "bootstrap.servers" and _servers(item) & _servers(winner):
        return Verdict("not needed", f"{winner.entry.key} names the same cluster")
    of_cluster = isinstance(item.scope, ClusterScope)
    if item.rank == winner.rank and of_cluster and (item.flow, item.part) != (winner.flow, winner.part):
        who = "flow" if item.flow != winner.flow else "connector"
        text = f"another {who} has another value ({winner.entry.key}); in mirror it belongs to the cluster"
        return Verdict("not possible", text)
    return Verdict("not needed", f"{winner.entry.key} takes precedence")


def _servers(item: Item) -> set[str]:
    return {each.strip() for each in item.entry.value.split(",")}


def _grouped(items: Iterable[tuple[_Scope, Item]]) -> dict[_Scope, dict[str, list[Item]]]:
    """The items by scope and name, in the order of their ranks: the last one counts."""
    groups: dict[_Scope, dict[str, list[Item]]] = {}
    for scope, item in sorted(items, key=lambda each: each[1].rank):
        groups.setdefault(scope, {}).setdefault(item.name, []).append(item)
    return groups
