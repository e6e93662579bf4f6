"""Writes our file as YAML, with the key that each value comes from beside it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from mirror.commands.convert.entries import FlowName
from mirror.commands.convert.verdict import Place, Put, Value
from mirror.text import printable

Values = Mapping[Place, tuple[Put, str]]

# What YAML reads back as the same without quotes, whatever the reader: no booleans, no null.
_PLAIN = re.compile(r"[A-Za-z_/][\w./@+-]*(?::[\w./@+-]+)*|0|[1-9]\d{0,17}(?:ms|s)?", re.ASCII)
_REFERENCE = re.compile(r"\$\{(?:env|file):[\w./-]+\}", re.ASCII)
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}

FIRST = ("source", "target", "topics", "exclude", "replication_policy", "separator", "start")


def written(
    values: Values,
    aliases: Sequence[str],
    flows: Sequence[FlowName],
    head: Sequence[str],
    missing: Mapping[str, Sequence[str]],
) -> str:
    """The file. `head` is the comment at its top; `missing` says of clusters what has to be added by hand."""
    parts: dict[Place, dict[Place, tuple[Put, str]]] = {}
    for place, value in values.items():
        parts.setdefault(place[:2], {})[place[2:]] = value
    lines = [f"# {printable(line)}".rstrip() for line in head]
    lines += ["", "clusters:"]
    for alias in aliases:
        lines += _cluster(parts.get(("clusters", alias), {}), alias)
        lines += [f"    # {printable(line)}" for line in missing.get(alias, ())]
    lines += ["", "flows:"]
    for flow in flows:
        lines += [f"  - source: {_text(flow[0])}", f"    target: {_text(flow[1])}"]
        lines += _flow(parts.get(("flows", flow), {}))
    return "\n".join(lines) + "\n"


def _flow(own: Values) -> Iterator[str]:
    for key in sorted({str(place[0]) for place in own}, key=_order):
        if (key,) in own:
            yield f"    {_line(key, *own[(key,)])}"
        else:
            yield f"    {key}:"
            yield from _inner(own, key)


def _inner(own: Values, key: str) -> Iterator[str]:
    """The keys of a mapping within a cluster or a flow."""
    inner = sorted(str(place[1]) for place in own if len(place) == 2 and place[0] == key)
    yield from (f"      {_line(name, *own[key, name])}" for name in inner)


def _order(key: str) -> tuple[int, str]:
    return (FIRST.index(key) if key in FIRST else len(FIRST), key)


def _cluster(own: Values, alias: str) -> Iterator[str]:
    yield f"  {_text(alias)}:"
    for place in sorted((each for each in own if len(each) == 1), key=lambda each: each != ("bootstrap.servers",)):
        yield f"    {_line(str(place[0]), *own[place])}"
    for role in ("consumer", "producer"):
        if any(place[0] == role for place in own):
            yield f"    {role}:"
            yield from _inner(own, role)


def _line(key: str, put: Put, origin: str) -> str:
    return f"{_text(key)}: {_value(put.value, put.raw)} # {printable(origin)}"


def _value(value: Value, raw: bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(_text(each) for each in value)}]"
    return _text(value, raw)


def _text(value: str, raw: bool = False) -> str:
    """A scalar that our loader reads back as this text; `raw` keeps the references in it."""
    if raw and _REFERENCE.fullmatch(value):
        return value
    if not raw:
        value = value.replace("${", "$${")
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return f'"{"".join(_escaped(character) for character in value)}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
