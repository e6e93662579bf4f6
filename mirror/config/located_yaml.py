"""Reads YAML and keeps the line of every key. Finds duplicate keys, and resolves `${...}` references.

Scalars stay text as they were written, so that a password such as `0123` or `1e5` does not become a number. The model
gives them types. Only null is None, and booleans are in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

Location = tuple[str | int, ...]

SECRET = re.compile("password|secret|token|key|jaas|oauth|credential", re.IGNORECASE)

# The limit of a Kubernetes ConfigMap.
SIZE_MAX = 2**20  # bytes of the file, and of each file that it refers to
# Limited, since ten lines of aliases inside aliases can stand for billions of values.
ALIASED_MAX = 100_000  # values that an alias repeats
REFERRED_MAX = 16 * 2**20  # characters of all values with references

_REFERENCE = re.compile(r"(?P<escape>\$\$\{)|\$\{(?P<body>[^}]*)(?P<end>\}?)")
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

    tree: Any = None
    lines: dict[Location, int] = field(default_factory=dict)
    references: set[Location] = field(default_factory=set)  # places of values made from ${...}, which are never shown
    problems: list[Problem] = field(default_factory=list)

    def line(self, location: Location) -> int | None:
        """The line of a key, or of the nearest mapping around a missing one."""
        while location and location not in self.lines:
            location = location[:-1]
        return self.lines.get(location)


class _TooMuch(Exception):
    """The file stands for more values than anybody writes on purpose."""

    def __init__(self, text: str, line: int | None = None) -> None:
        super().__init__(text)
        self.line = line


class _Loader(yaml.SafeLoader):
    """Recognizes only null, booleans and merge keys, as YAML 1.2 does: no `no`, no dates, no numbers."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


_Loader.add_implicit_resolver(_TAG + "null", re.compile("(?:~|null|Null|NULL)?$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(_TAG + "bool", re.compile("(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_Loader.add_implicit_resolver(_TAG + "merge", re.compile("<<$"), ["<"])


def read(path: Path, environ: Mapping[str, str] | None) -> Document:
    """Read a file, and replace its references `${env:NAME}` and `${file:/path}`.

    Never raises for bad input: the document's `problems` say what is wrong. A relative `${file:...}` begins
    at the folder of `path`. Without an `environ` the references stay as they are: the file is not mirror's.
    """
    document = Document()
    try:
        text = _text(path)
        loader = _Loader(text)
        document.lines[()] = 1
        references = None if environ is None else References(path.parent, environ)
        document.tree = _Builder(document, references).build(loader.get_single_node(), ())
    except _TooMuch as error:
        document.problems.append(Problem((), str(error), error.line))
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        document.problems.append(Problem((), "not UTF-8 text", line))
    except (OSError, ValueError) as error:
        document.problems.append(Problem((), f"can't be read: {_reason(error)}"))
    except yaml.YAMLError as error:
        document.problems.append(_syntax(error, text))
    except RecursionError:
        document.problems.append(
            Problem((), "nested too deeply; an alias may be inside the value that it stands for", 1)
        )
    return document


def _text(path: Path) -> str:
    """The file's text. Raises OSError, UnicodeDecodeError, and ValueError for a file that is too large."""
    with path.open("rb") as file:
        found = file.read(SIZE_MAX + 1)
    if len(found) > SIZE_MAX:
        raise ValueError(f"larger than {SIZE_MAX:,} bytes")
    return found.decode("utf-8")


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _syntax(error: yaml.YAMLError, text: str) -> Problem:
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return Problem((), "bad YAML: a control character, which YAML allows only escaped in double quotes", line)
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    said = ", ".join(filter(None, (getattr(error, "context", None), getattr(error, "problem", None))))
    # PyYAML quotes from the file, and that may be a secret. Names such as <token> and single marks may stay.
    said = re.sub(r""" ?(['"])(?!(?:<[a-z ]+>|[?:,\]}-])\1)(?:(?!\1).)+\1""", "", said)
    hint = "a value that begins with one of * & ! % @ ` or holds ': ' or ' #' must be in quotes"
    return Problem((), f"bad YAML: {said}; {hint}", mark.line + 1 if mark else 1)


class _Builder:
    """Turns YAML nodes into plain values, and records their lines."""

    def __init__(self, document: Document, references: References | None) -> None:
        self._document = document
        self._references = references
        self._built: set[int] = set()  # ids of nodes; the nodes live as long as their root, so no id is used twice
        self._aliased = 0

    def build(self, node: yaml.Node | None, at: Location) -> Any:
        if node is None:
            return None
        self._count(node)
        if node.tag not in _TAGS:
            self._problem(at, "unknown YAML tag; only plain text, lists and mappings are allowed", node)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, at)
        if isinstance(node, yaml.SequenceNode):
            return [self._child(item, item, (*at, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, at)

    def _count(self, node: yaml.Node) -> None:
        self._aliased += id(node) in self._built
        self._built.add(id(node))
        if self._aliased > ALIASED_MAX:
            line = node.start_mark.line + 1
            raise _TooMuch(
                f"aliases repeat this and other values more than {ALIASED_MAX:,} times; an alias must not be "
                "inside a value that many others repeat",
                line,
            )

    def _child(self, marked: yaml.Node, node: yaml.Node, at: Location) -> Any:
        self._document.lines[at] = marked.start_mark.line + 1
        return self.build(node, at)

    def _mapping(self, node: yaml.MappingNode, at: Location) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == _TAG + "merge":
                self._merge(value, at, merged)
        for key, value in node.value:
            here = (*at, key.value) if isinstance(key, yaml.ScalarNode) else at
            if here is at:
                self._problem(at, "a key must be text, not a list or a mapping", key)
            elif key.value in own:
                first = self._document.lines[here]
                self._problem(here, f"duplicate key, first in line {first}; each is allowed once", key)
            elif key.tag != _TAG + "merge":
                own[key.value] = self._child(key, value, here)
        return {**merged, **own}

    def _merge(self, node: yaml.Node, at: Location, into: dict[str, Any]) -> None:
        # The first of several merged mappings wins.
        for part in reversed(node.value if isinstance(node, yaml.SequenceNode) else [node]):
            if isinstance(part, yaml.MappingNode):
                self._count(part)
                into.update(self._mapping(part, at))
            else:
                self._problem(at, "<< must be an alias of a mapping, or a list of them", part)

    def _scalar(self, node: yaml.Node, at: Location) -> str | None:
        text = str(node.value)
        if node.tag == _TAG + "null":
            return None
        if node.tag == _TAG + "bool":
            return text.lower()
        if "${" not in text or self._references is None:
            return text
        self._document.references.add(at)
        return self._references.resolve(
            text, SECRET.search(str(at)) is not None, lambda said: self._problem(at, said, node)
        )

    def _problem(self, at: Location, text: str, node: yaml.Node) -> None:
        self._document.problems.append(Problem(at, text, node.start_mark.line + 1))


class References:
    """Resolves `${env:NAME}` and `${file:/path}`; `$${` stands for a plain `${`."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = environ
        self._left = REFERRED_MAX

    def resolve(self, text: str, secret: bool, complain: Callable[[str], None]) -> str:
        """Replace the references in `text`. Each that can't be resolved becomes empty, and `complain` gets the reason.

        A reason names variables and files, but nothing else of a `secret` text. Raises _TooMuch.
        """

        def replace(match: re.Match[str]) -> str:
            if match["escape"]:
                return "${"
            provider, colon, name = match["body"].partition(":")
            if match["end"] and name and provider in ("env", "file"):
                return self._env(name, complain) if provider == "env" else self._file(name, complain)
            known = re.fullmatch("[a-z]+", provider) and colon and match["end"] and not secret
            wrong = f'unknown provider "{provider}"' if known and name else "malformed reference"
            complain(f"{wrong}; allowed are ${{env:NAME}} and ${{file:/path}}, and $${{ for a plain ${{")
            return ""

        resolved = _REFERENCE.sub(replace, text)
        self._left -= len(resolved)
        if self._left < 0:
            raise _TooMuch(f"the values with ${{...}} are larger than {REFERRED_MAX:,} characters together")
        return resolved

    def _env(self, name: str, complain: Callable[[str], None]) -> str:
        value = self._environ.get(name)
        if value is None:
            complain(f"environment variable {name} is not set")
        return value or ""

    def _file(self, name: str, complain: Callable[[str], None]) -> str:
        try:
            # Mounted secrets often end with a line break that is not part of them.
            return _text(self._folder / name).rstrip("\r\n")
        except (OSError, ValueError) as error:
            complain(f"file {name} can't be read: {_reason(error)}")
            return ""
