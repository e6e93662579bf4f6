"""Reads `sasl.jaas.config`: one login module with its options. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

# Java's StreamTokenizer: quoted text in either kind of quotes, or a word.
_TOKEN = re.compile(r"""\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([\w.$+/@:,?&%*!~^\\-]+)|([=;{}]))""", re.DOTALL)
_FLAGS = ("required", "requisite", "sufficient", "optional")
_SHORT = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class BadJaas(Exception):
    """The text is no login module with options. The message holds nothing of the text, because it holds secrets."""


@dataclass(frozen=True, slots=True)
class Login:
    """A login module: the last part of its class's name, and its options."""

    module: str
    options: Mapping[str, str] = field(repr=False)


def parse(text: str) -> Login:
    """`org...ScramLoginModule required username="a" password="b";` as a Login. Raises BadJaas."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[1][1].lower() not in _FLAGS:
        raise BadJaas("it must begin with a login module's class and the word required")
    if tokens[-1] != (True, ";"):
        raise BadJaas("it must end with ;")
    options: dict[str, str] = {}
    rest = tokens[2:-1]
    if len(rest) % 3:
        raise BadJaas('each option must be name="value", and only one login module is allowed')
    for at in range(0, len(rest), 3):
        (mark, name), equals, (value_mark, value) = rest[at : at + 3]
        if mark or value_mark or equals != (True, "="):
            raise BadJaas('each option must be name="value", and only one login module is allowed')
        options[name] = value
    return Login(tokens[0][1].rpartition(".")[2], options)


def _tokens(text: str) -> list[tuple[bool, str]]:
    """The tokens: True with a mark such as `=`, False with a word or a text."""
    found: list[tuple[bool, str]] = []
    at, text = 0, text.strip()
    while at < len(text):
        token = _TOKEN.match(text, at)
        if not token:
            raise BadJaas("an unexpected character, or a quote that does not end")
        at = token.end()
        double, single, word, mark = token.groups()
        if mark:
            found.append((True, mark))
        else:
            quoted = double if double is not None else single
            found.append((False, word if quoted is None else _plain(quoted)))
    return found


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _SHORT.get(match[1], match[1]), text, flags=re.DOTALL)
