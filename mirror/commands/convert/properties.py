"""Reads Java's .properties files, as java.util.Properties.load does. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mirror.commands.convert.entries import InputEntry, Unreadable

_LINE_END = re.compile(r"\r\n|\r|\n")
_SPACE = " \t\f"
_SHORT = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.)?", re.DOTALL)
_KEY = re.compile(r"(?:\\.|[^\\ \t\f:=])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[:=]?[ \t\f]*")


def parse(text: str) -> Iterator[InputEntry]:
    """The entries in the order of the file, with the lines that they begin in.

    A key may come more than once. Raises Unreadable for a malformed `\\uXXXX`, as Java does.
    """
    for number, line in _logical_lines(text):
        key = _KEY.match(line)
        assert key  # it matches nothing at least
        between = _SEPARATOR.match(line, key.end())
        assert between
        yield InputEntry(_unescaped(key[0], number), _unescaped(line[between.end() :], number), number)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines without comments and blank ones, continued ones joined, each with the number of its first line."""
    begin, parts = 0, list[str]()
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_SPACE)
        if not parts:
            if not line or line[0] in "#!":
                continue
            begin = number
        continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        parts.append(line[:-1] if continued else line)
        if not continued:
            if "".join(parts):
                yield begin, "".join(parts)
            parts = []
    if "".join(parts):
        yield begin, "".join(parts)


def _unescaped(text: str, line: int) -> str:
    def replace(match: re.Match[str]) -> str:
        what = match[1] or ""
        if what == "u":
            raise Unreadable(r"malformed \uXXXX: four hexadecimal digits must follow; a plain \ is written \\", line)
        if len(what) == 5:
            return chr(int(what[1:], 16))
        return _SHORT.get(what, what)

    if "\\" not in text:
        return text
    found = _ESCAPE.sub(replace, text)
    # Java's strings are UTF-16: two escapes may be the halves of one character.
    try:
        return found.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise Unreadable(r"malformed \uXXXX: half of a surrogate pair stands alone", line) from None
