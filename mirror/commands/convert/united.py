"""Several connectors of one class with the same aliases: one flow of mirror. Pure.

Such connectors divide the topics among themselves, as they often do on a Connect cluster. mirror has one flow for each
pair of aliases. So its topics are those of all of them, and each other setting must be the same in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mirror.commands.convert import filters, scopes
from mirror.commands.convert.draft import Draft
from mirror.commands.convert.entries import FlowScope, InputEntry, Item, Judged, ParsedInput, Part, Said
from mirror.commands.convert.flow_keys import CLIENT_HANDLERS, effective
from mirror.commands.convert.setting import NAMES
from mirror.commands.convert.table import CLIENTS, CONNECTORS
from mirror.commands.convert.variables import Variables
from mirror.commands.convert.verdict import Place, Put

# Our keys that hold what all connectors have together, by the settings that say it; and whether nothing is lost so.
TOGETHER: Mapping[str, tuple[tuple[str, ...], bool]] = {
    "topics": (("topics",), True),
    "groups.include": (("groups",), True),
    "exclude": (("topics.exclude", "topics.blacklist"), False),
    "groups.exclude": (("groups.exclude", "groups.blacklist"), False),
}
ONE_FLOW = "connectors with the same aliases are one flow, which has what any of them has"
DIFFERENT = (
    "the connectors of this flow do not agree, and a flow has one value, so mirror's default stands: decide which "
    "value the topics of all of them are to have"
)
EXCLUDING = (
    "the connectors of this flow do not agree; what any of them excludes is excluded for all, so that nothing is "
    "copied that was not copied before, and something may be missing: write the list yourself"
)
# Without them MirrorMaker has the same default as mirror.
_SAME_DEFAULT = ("topics.exclude", "groups.exclude", "config.properties.exclude")

Found = Mapping[Place, tuple[Put, str]]


def united(parsed: ParsedInput) -> ParsedInput:
    """The input with what several connectors of a flow say together. Raises Unreadable for a filter."""
    parts: dict[tuple[str, FlowScope], list[Part]] = {}
    for part, flow in parsed.parts:
        parts.setdefault((part.kind, FlowScope(*flow)), []).append(part)
    found = list(parsed.items)
    judged = list(parsed.judged)
    for each in parts.values():
        if len(each) > 1:
            new = _replaced(parsed, each)
            judged += (now for now in new.values() if isinstance(now, Judged))
            found = [now for item in found if isinstance(now := new.get(id(item), item), Item)]
    return replace(parsed, items=tuple(found), judged=tuple(judged))


def _replaced(parsed: ParsedInput, parts: Sequence[Part]) -> dict[int, Item | Judged]:
    """What becomes of items because other connectors differ, by the items' identities."""
    own = {part: [item for item in parsed.items if item.part == part and _is_of_flow(item)] for part in parts}
    values = {part: _values(parsed, [*own[part], *_defaults(own, part)]) for part in parts}
    new: dict[int, Item | Judged] = {}
    for place in dict.fromkeys(place for found in values.values() for place in found):
        key = ".".join(str(name) for name in place[2:])
        lists = [_value(found, place) for found in values.values()]
        if all(_comparable(key, each) == _comparable(key, lists[0]) for each in lists):
            continue
        for part, found in values.items():
            for item in own[part]:
                if place in found and item.entry.key == found[place][1]:
                    new[id(item)] = _of_all(key, item, lists)
    return new


def _is_of_flow(item: Item) -> bool:
    return isinstance(item.scope, FlowScope) or (item.name in CLIENT_HANDLERS and item.scope.role != "admin")


def _defaults(own: Mapping[Part, Sequence[Item]], part: Part) -> Iterator[Item]:
    """MirrorMaker's defaults in place of what other connectors have and this one does not."""
    there = {(item.scope, item.name) for item in own[part]}
    for item in (item for items in own.values() for item in items):
        table = CONNECTORS if isinstance(item.scope, FlowScope) else CLIENTS
        default = table[item.name].default if item.name in table and item.name not in _SAME_DEFAULT else ""
        if default and (item.scope, item.name) not in there:
            there.add((item.scope, item.name))
            yield replace(item, entry=InputEntry("", default), part=part, rank=scopes.FILE, said=None)


def _values(parsed: ParsedInput, items: Sequence[Item]) -> Found:
    """What a connector would make of its flows if it were alone."""
    draft = Draft(replace(parsed, items=tuple(items), judged=(), parts=()), Variables(None))
    draft.fill()
    return {place: found for place, found in draft.values.items() if place[0] == "flows"}


def _value(found: Found, place: Place) -> Any:
    return found[place][0].value if place in found else None


def _comparable(key: str, value: Any) -> Any:
    known = effective(key, value)
    return frozenset(known) if isinstance(known, list | tuple) else known


def _of_all(key: str, item: Item, values: Iterable[Any]) -> Item | Judged:
    """The item in the light of what all connectors have. A value of None is mirror's default."""
    names, is_whole = TOGETHER.get(key, ((), False))
    if item.name not in names:
        return Judged(item.entry, item.name, DIFFERENT, "not possible")
    every = list(dict.fromkeys(each for value in values for each in effective(key, value)))
    why = f"{ONE_FLOW}; {NAMES}" if filters.widens(every) else ONE_FLOW
    said = Said("different", why) if is_whole else Said("not possible", EXCLUDING)
    entry = replace(item.entry, value=",".join(every))
    return replace(item, entry=entry, rank=scopes.EXACT, said=said)
