"""Java's .properties files: what Java writes and people write is read as Java reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.commands.convert.entries import Unreadable, unique
from mirror.commands.convert.properties import parse


def read(text: str) -> dict[str, str]:
    return {entry.key: entry.value for entry in parse(text)}


@pytest.mark.parametrize(
    "text, expected",
    [
        ("a=b", {"a": "b"}),
        ("a = b c ", {"a": "b c "}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a\t:\tb", {"a": "b"}),
        ("  a", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("a->b.enabled = true", {"a->b.enabled": "true"}),
        ("# a=b\n! c=d\n\n e=f", {"e": "f"}),
        ("a=b\\\n   c\\\n\td", {"a": "bcd"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n# no comment", {"a": "b# no comment"}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("a=\\u00e4\\t\\n\\q", {"a": "\u00e4\t\nq"}),
        ("a=\\ud83d\\ude00", {"a": "\U0001f600"}),
        ("a=b\r\nc=d\re=f", {"a": "b", "c": "d", "e": "f"}),
        ("a=b\\", {"a": "b"}),
        ("\\\n\\\n", {}),
        ("", {}),
    ],
)
def test_forms(text: str, expected: dict[str, str]) -> None:
    assert read(text) == expected


@pytest.mark.parametrize("text", ["a=1\nb=\\u12", "a=1\nb=\\uzzzz", "a=1\nb=\\ud800 "])
def test_a_malformed_escape_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(Unreadable) as caught:
        list(parse(text))
    assert caught.value.line == 2 and "\\uXXXX" in str(caught.value)


def test_the_last_of_equal_keys_counts_and_knows_the_others() -> None:
    (a, b) = unique(parse("b=0\na=1\n\na=2\na=3"))
    assert (b.key, b.value, b.line, b.earlier) == ("a", "3", 5, (2, 4))
    assert (a.key, a.earlier) == ("b", ())


def stored(text: str, is_key: bool) -> str:
    """What java.util.Properties.store writes of a key or of a value."""
    done = ""
    for index, character in enumerate(text):
        if character == " ":
            done += "\\ " if is_key or index == 0 else " "
        elif character in "\t\n\r\f":
            done += {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}[character]
        elif character in "=:#!\\":
            done += f"\\{character}"
        elif " " <= character <= "~":
            done += character
        else:
            units = character.encode("utf-16-be")
            done += "".join(f"\\u{units[at] << 8 | units[at + 1]:04X}" for at in range(0, len(units), 2))
    return done


TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" \t\n\r\f=:#!\\u"), max_size=20)


@given(st.dictionaries(TEXTS, TEXTS, max_size=8), st.sampled_from(["\n", "\r\n", "\r"]))
def test_what_java_stores_is_read_back(properties: dict[str, str], end: str) -> None:
    lines = [f"{stored(key, True)}={stored(value, False)}{end}" for key, value in properties.items()]
    assert read(f"#Tue Jan 01 00:00:00 UTC 2026{end}{''.join(lines)}") == properties


@given(st.text())
def test_no_text_is_too_odd(text: str) -> None:
    try:
        list(parse(text))
    except Unreadable as error:
        assert error.line
