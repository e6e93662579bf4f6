"""Reads the input, finds out in which form it is, and parses it."""

from __future__ import annotations

import codecs
import json
import re
from pathlib import Path
from typing import Any

from mirror.commands.convert import connectors, dedicated, properties, strimzi
from mirror.commands.convert.entries import InputEntry, ParsedInput, Unreadable, unique
from mirror.config import located_yaml
from mirror.watched_files import SIZE_MAX

_RESOURCE = re.compile(r"""^[ \t]*["']?kind["']?[ \t]*:[ \t]*["']?(\w+)""", re.MULTILINE)
KIND = "KafkaMirrorMaker2"


def read(path: Path) -> ParsedInput:
    """What a file has. Raises Unreadable."""
    # Java would take a byte order mark for a part of the first key, and nobody means that.
    data = _bytes(path).removeprefix(codecs.BOM_UTF8)
    begin = data.lstrip()[:1]
    resource = _RESOURCE.search(data.decode("latin-1"))
    if (resource and resource[1] == KIND) or path.suffix.lower() in (".yaml", ".yml"):
        return _resource(path, resource[1] if resource else "")
    if begin in (b"{", b"["):
        return connectors.parsed(connectors.from_json(_json(data)))
    return _properties(data)


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_MAX + 1)
    except OSError as error:
        raise Unreadable(f"can't be read: {error.strerror}") from None
    except ValueError as error:  # a NUL in the name
        raise Unreadable(f"can't be read: {error}") from None
    if len(data) > SIZE_MAX:
        raise Unreadable(f"larger than {SIZE_MAX:,} bytes")
    if not data.strip():
        raise Unreadable("the file is empty")
    return data


def _properties(data: bytes) -> ParsedInput:
    # Java reads these files as ISO 8859-1.
    entries = unique(properties.parse(data.decode("latin-1")))
    if not any(entry.key == "connector.class" for entry in entries):
        return dedicated.parsed(entries)
    names: dict[str, InputEntry] = {entry.key: entry for entry in entries}
    return connectors.parsed([names])


def _resource(path: Path, kind: str) -> ParsedInput:
    if kind != KIND:
        raise Unreadable(f"not a resource of the kind {KIND}; other input is a .properties or a .json file")
    document = located_yaml.read(path, None)
    if document.problems:
        problem = document.problems[0]
        raise Unreadable(problem.text, problem.line or document.line(problem.location))
    if not isinstance(document.tree, dict):
        raise Unreadable("the top level is not a mapping")
    return strimzi.parsed(document.tree, document.lines)


def _json(data: bytes) -> Any:
    try:
        return json.loads(
            data.decode("utf-8-sig"),
            object_pairs_hook=connectors.Object,
            parse_int=str,
            parse_float=str,
            parse_constant=str,
        )
    except UnicodeDecodeError as error:
        raise Unreadable("not UTF-8 text", data.count(b"\n", 0, error.start) + 1) from None
    except json.JSONDecodeError as error:
        raise Unreadable(f"bad JSON: {error.msg}", error.lineno) from None
    except RecursionError:
        raise Unreadable("bad JSON: nested too deeply") from None
