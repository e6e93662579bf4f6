"""Collects what becomes of each key: the values of our file, and the account."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from mirror.commands.convert import filters, flow_keys, together
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
        clusters = _grouped((each.scope, each) for each in self.parsed.items if isinstance(each.scope, ClusterScope))
        for scope in sorted(clusters, key=lambda each: each.role):  # what is for all clients comes first
            self._fill_section(scope, clusters)
        flows = _grouped((each.scope, each) for each in self.parsed.items if isinstance(each.scope, FlowScope))
        for flow, group in flows.items():
            values = {name: items[-1].entry.value.strip() for name, items in group.items()}
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
        winners = {name: winner for name, (winner, _) in groups.items()}
        common = {name: items[-1] for name, items in clusters.get(ClusterScope(scope.alias), {}).items()}
        section = Section(scope, winners, common, self.variables)
        for item, equal in groups.values():
            setting = CLIENTS.get(item.name)
            flows = [item.flow] if item.flow else self._flows(scope)
            if idle:
                self._take_all(equal, Verdict("not needed", idle))
            elif setting and item.name in flow_keys.CLIENT_HANDLERS and scope.role != "admin":
                for flow in flows:
                    handler = flow_keys.CLIENT_HANDLERS[item.name]
                    self._take_all(equal, handler(setting, FlowScope(*flow), item.entry.value.strip()))
            else:
                self._take_all(equal, self._for_all_flows(section.judge(item), item, scope))

    def _for_all_flows(self, verdict: Verdict, item: Item, scope: ClusterScope) -> Verdict:
        """Say so if what one flow asks for would hold for others, too."""
        others = [flow for flow in self._flows(scope) if flow != item.flow]
        if not item.flow or not others or not verdict.puts:
            return verdict
        said = "; ".join(filter(None, (verdict.why, "in mirror it holds for every flow of the cluster")))
        return Verdict("different", said, verdict.puts)

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
        if item.name not in CONNECTORS:
            return of_table(look_up(CONNECTORS, item.name) or UNKNOWN)
        try:
            return flow_keys.judge(item.name, scope, item.entry.value)
        except filters.BadPattern as error:
            raise Unreadable(f"{item.entry.key}: {error}", item.entry.line) from None

    def _winners(self, group: Mapping[str, list[Item]]) -> Iterator[tuple[Item, list[Item]]]:
        """The items that count, each with those that say the same; an overridden one is taken into the account."""
        for items in group.values():
            *others, winner = items
            equal = [winner]
            for item in others:
                if item.rank == winner.rank and (item.entry.value, item.kind) == (winner.entry.value, winner.kind):
                    equal.append(item)
                elif item.rank == winner.rank and item.flow != winner.flow:
                    text = f"another flow has another value ({winner.entry.key}); in mirror it belongs to the cluster"
                    self._take(item.entry, Verdict("not possible", text))
                else:
                    self._take(item.entry, Verdict("not needed", f"{winner.entry.key} takes precedence"))
            yield winner, equal

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


def _grouped(items: Iterable[tuple[_Scope, Item]]) -> dict[_Scope, dict[str, list[Item]]]:
    """The items by scope and name, in the order of their ranks: the last one counts."""
    groups: dict[_Scope, dict[str, list[Item]]] = {}
    for scope, item in sorted(items, key=lambda each: each[1].rank):
        groups.setdefault(scope, {}).setdefault(item.name, []).append(item)
    return groups
