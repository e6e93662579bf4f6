"""Reads YAML and keeps the line of every key. Finds duplicate keys, and has `${...}` references resolved.

Scalars stay text as they were written, so that a password such as `0123` or `1e5` does not become a number. The model
gives them types. Only null is None.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from mirror.config.references import ALIASES, Budget, References, TooMuch, reason

Location = tuple[str | int, ...]

SECRET = re.compile("password|secret|token|key|jaas|oauth|credential", re.IGNORECASE)
HEADERS = "headers"  # a mapping whose values may all be secrets, whatever their names
ENDPOINT: Location = ("metrics", "otlp", "endpoint")  # a URL whose path may be a secret

# librdkafka ends the process for half of a surrogate pair, as an escape or a foreign environment may hold one. At a NUL
# it ends the text: it would log in with another password than the one that is written.
_NOT_TEXT = re.compile(r"[\x00\ud800-\udfff]")
_NO_TEXT = "holds a NUL, or what is not Unicode text, such as \\ud800; write each character as itself"

_QUOTED = re.compile(r""" ?(?P<mark>['"])(?P<text>(?:\\.|(?!(?P=mark)).)+)(?P=mark)""")

_TAG = "tag:yaml.org,2002:"
_TAGS = {_TAG + kind for kind in ("null", "bool", "int", "float", "str", "seq", "map", "merge")}


class Problem(NamedTuple):
    """What is wrong, and at which key."""

    location: Location
    text: str
    line: int | None = None  # if it is not the key's own line


@dataclass
class Document:
    """A YAML file as plain mappings, lists and text; `tree` is None if it can't be read at all."""

    path: Path
    tree: Any = None
    lines: dict[Location, int] = field(default_factory=dict)
    references: set[Location] = field(default_factory=set)  # places of values made from ${...}, which are never shown
    blank: set[Location] = field(default_factory=set)  # places where nothing is written; their values are None, too
    files: dict[Location, Path] = field(default_factory=dict)  # places of values that are the whole text of a file
    problems: list[Problem] = field(default_factory=list)
    unresolved: list[Problem] = field(default_factory=list)  # references that can't be resolved

    def line(self, location: Location) -> int | None:
        """The line of a key, or of the nearest mapping around a missing one."""
        while location and location not in self.lines:
            location = location[:-1]
        return self.lines.get(location)


class _Loader(yaml.SafeLoader):
    """Recognizes only null and merge keys: no `no`, no dates, no numbers. A topic may have the name TRUE."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


_Loader.add_implicit_resolver(_TAG + "null", re.compile("(?:~|null|Null|NULL)?$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(_TAG + "merge", re.compile("<<$"), ["<"])


def read(path: Path, environ: Mapping[str, str] | None, budget: Budget | None = None) -> Document:
    """Read a file, and replace its references `${env:NAME}` and `${file:/path}`.

    Never raises for bad input: the document's `problems` and `unresolved` say what is wrong. A relative `${file:...}`
    begins at the folder of `path`. Without an `environ` the references stay as they are: the file is not mirror's.
    Files that belong together get one `budget`.
    """
    document, budget = Document(path), budget or Budget()
    try:
        text = budget.text(path)
        loader = _Loader(text)
        document.lines[()] = 1
        references = None if environ is None else References(path.parent, environ, budget)
        document.tree = _Builder(document, references, budget).build(loader.get_single_node(), ())
    except TooMuch as error:
        document.problems.append(Problem((), str(error), error.line))
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        document.problems.append(Problem((), "not UTF-8 text", line))
    except (OSError, ValueError, OverflowError) as error:
        document.problems.append(Problem((), f"can't be read: {reason(error)}"))
    except yaml.YAMLError as error:
        document.problems.append(_syntax(error, text))
    except RecursionError:
        document.problems.append(
            Problem((), "nested too deeply; an alias may be inside the value that it stands for", 1)
        )
    return document


def _syntax(error: yaml.YAMLError, text: str) -> Problem:
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return Problem((), "bad YAML: a control character, which YAML allows only escaped in double quotes", line)
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line, at = (mark.line + 1, mark.index) if mark else (1, 0)
    if text[at : at + 1] == "\t":
        return Problem((), "bad YAML: a tab; YAML indents by spaces only", line)
    said = ", ".join(filter(None, (getattr(error, "context", None), getattr(error, "problem", None))))
    hint = "a value that begins with one of * & ! % @ ` or holds ': ' or ' #' must be in quotes"
    if text[max(at - 1, 0) : at + 1] == "${":
        hint = "${...} within { } or [ ] must be in quotes"
    return Problem((), f"bad YAML: {_QUOTED.sub(_harmless, said)}; {hint}", line)


def _harmless(quoted: re.Match[str]) -> str:
    """What PyYAML quotes is from the file, and may be a secret. Names such as <token> and single marks may stay."""
    return quoted[0] if re.fullmatch(r"<[a-z ]+>|[?:,\[\]{}-]", quoted["text"]) else ""


class _Builder:
    """Turns YAML nodes into plain values, and records their lines."""

    def __init__(self, document: Document, references: References | None, budget: Budget) -> None:
        self._document = document
        self._references = references
        self._budget = budget
        self._built: set[int] = set()  # ids of nodes; the nodes live as long as their root, so no id is used twice

    def build(self, node: yaml.Node | None, at: Location) -> Any:
        if node is None:
            return None
        self._count(node)
        if node.tag not in _TAGS:
            self._problem(at, "unknown YAML tag; only plain text, lists and mappings are allowed", node)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, at, set())
        if isinstance(node, yaml.SequenceNode):
            return [self._child(item, item, (*at, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, at)

    def _count(self, node: yaml.Node) -> None:
        if id(node) in self._built:
            self._budget.repeat(1, ALIASES, node.start_mark.line + 1)
        self._built.add(id(node))

    def _child(self, marked: yaml.Node, node: yaml.Node, at: Location) -> Any:
        self._document.lines[at] = marked.start_mark.line + 1
        return self.build(node, at)

    def _mapping(self, node: yaml.MappingNode, at: Location, taken: set[str]) -> dict[str, Any]:
        """A mapping with all that is merged into it. Adds its keys to `taken`, and leaves out those that are there.

        What another value replaces must not be built: its file and its references would be kept for `at`.
        """
        found: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            here = (*at, key.value) if isinstance(key, yaml.ScalarNode) else at
            if here is at:
                self._problem(at, "a key must be text, not a list or a mapping", key)
            elif _NOT_TEXT.search(key.value):
                self._problem(here, f"the key {_NO_TEXT}", key)
            elif key.value in lines:
                first = lines[key.value]
                self._problem(here, f"duplicate key, first in line {first}; each is allowed once", key)
            elif key.tag != _TAG + "merge":
                lines[key.value] = key.start_mark.line + 1
                if key.value in taken:
                    self._count(value)
                else:
                    taken.add(key.value)
                    found[key.value] = self._child(key, value, here)
        for key, value in reversed(node.value):  # the last of several << wins
            if key.tag == _TAG + "merge":
                found |= self._merged(value, at, taken)
        return found

    def _merged(self, node: yaml.Node, at: Location, taken: set[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        # The first of several merged mappings wins.
        for part in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if isinstance(part, yaml.MappingNode):
                self._count(part)
                found |= self._mapping(part, at, taken)
            else:
                self._problem(at, "<< must be an alias of a mapping, or a list of them", part)
        return found

    def _scalar(self, node: yaml.Node, at: Location) -> str | None:
        text = str(node.value)
        if _NOT_TEXT.search(text):
            self._problem(at, f"the value {_NO_TEXT}", node)
            return ""
        if node.tag == _TAG + "null":
            (self._document.blank.discard if text else self._document.blank.add)(at)
            return None
        if "${" not in text or self._references is None:
            return text
        self._document.references.add(at)
        if (file := self._references.file(text)) is not None:
            self._document.files[at] = file

        def complain(said: str) -> None:
            self._document.unresolved.append(Problem(at, said, node.start_mark.line + 1))

        resolved = self._references.resolve(text, SECRET.search(str(at)) is not None, complain)
        if _NOT_TEXT.search(resolved):
            complain(f"the value {_NO_TEXT}")
            return ""
        return resolved

    def _problem(self, at: Location, text: str, node: yaml.Node) -> None:
        self._document.problems.append(Problem(at, text, node.start_mark.line + 1))
