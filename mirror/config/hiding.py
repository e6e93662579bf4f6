"""Takes values that came from `${...}` out of texts about several keys, which don't know where each value is from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mirror.config.files import FLOWS, Files
from mirror.config.located_yaml import Location
from mirror.config.resolved import HIDDEN

_NAMING = ("topics", "exclude", "remote_topic", "topic_settings", "group")  # the keys whose values such texts show
_LEAST = 3  # characters of what is hidden: less can't be told from the text around it
_SHOWN = 60  # characters that a text shows of a long value


def without_references(text: str, files: Files) -> str:
    """The text, in which each value of a flow's names that came from `${...}` is hidden."""
    flows = files.tree.get(FLOWS) if isinstance(files.tree, dict) else None
    forms: set[str] = set()
    for number, flow in enumerate(flows if isinstance(flows, list) else []):
        for key in _NAMING if isinstance(flow, dict) else ():
            for value in _references(flow.get(key), (FLOWS, number, key), files):
                forms.update(_forms(value))
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, HIDDEN) if len(form) >= _LEAST else text
    return text


def _references(value: Any, at: Location, files: Files) -> Iterator[str]:
    if isinstance(value, str):
        yield from [value] if files.is_reference(at) else []
    elif isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _references(each, (*at, key), files)


def _forms(value: str) -> Iterator[str]:
    """The forms of a value in texts: whole, cut, as a name that an expression matches, and the parts of a template."""
    yield value
    yield value[:_SHOWN]
    yield re.sub(r"[^a-zA-Z0-9._-]", "", value)
    yield from re.split(r"\{\w*\}", value)
