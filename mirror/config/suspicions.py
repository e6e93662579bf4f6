"""Finds names and regular expressions that are allowed but look like a mistake. Needs no network.

It finds an expression that can match no topic, a wildcard as file names have it, a key of topic configurations that
Kafka does not have, but nearly, and a start in seconds where milliseconds are meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from mirror.config.explain import line
from mirror.config.files import Files, Placed
from mirror.config.flow_model import FlowModel
from mirror.config.located_yaml import Location
from mirror.config.model import RootModel
from mirror.config.topic_configs import TOPIC_CONFIGS
from mirror.config.value_types import NAME
from mirror.naming import NAME_MAX, matcher
from mirror.service_settings import Suspicion
from mirror.unmatched_entries import nearest

# The parts of an expression without brackets and groups: an escape, a number of repetitions, or one character.
_PART = re.compile(r"\\(?P<escaped>.)|\{\d*(?:,\d*)?\}|(?P<plain>.)", re.DOTALL)
_SPECIAL = frozenset("\\^$.|?*+{}")
_OPTIONAL = re.compile(r"[?*{]")  # what follows a character that need not be there
_WILDCARD = re.compile(r"(?<![.*])\*")


def suspicions(root: RootModel, files: Files) -> Iterator[Suspicion]:
    """What looks like a mistake in the values of each flow. A value that came from `${...}` is not shown."""
    for index, flow in enumerate(root.flows):
        for key, value, judge in _judged(flow):
            if doubt := judge(value):
                location: Location = ("flows", index, *key)
                hidden = files.is_reference(location)
                text = f"the value {doubt.what}" if hidden else f'"{value:.60}" {doubt.what}{doubt.detail}'
                said = line(Placed(files.place(location), text, location))
                remedy = "correct it" if hidden else doubt.remedy
                yield Suspicion(f"{flow.source}->{flow.target}", said, remedy)


class _Doubt(NamedTuple):
    """What looks wrong, and what to do. Only `detail` and `remedy` may hold a part of the value."""

    what: str
    remedy: str
    detail: str = ""


def _judged(flow: FlowModel) -> Iterator[tuple[Location, str, Callable[[str], _Doubt | None]]]:
    """Each value that may look wrong, with its key, and with what judges it."""
    for key, patterns, judge in _lists(flow):
        yield from (((*key, place), pattern, judge) for place, pattern in enumerate(patterns))
    yield ("start",), str(flow.start), _start_doubt
    for topic, settings in flow.topic_settings.items():
        yield ("topic_settings", topic, "start"), str(settings.start), _start_doubt


def _lists(flow: FlowModel) -> Iterator[tuple[Location, list[str], Callable[[str], _Doubt | None]]]:
    """Each list of patterns with its key, and with what judges one of them. A group may have any name."""
    yield ("topics",), flow.topics, partial(_doubt, topics=True)
    yield ("exclude",), flow.exclude, partial(_doubt, topics=True)
    yield ("groups", "include"), flow.groups.include, partial(_doubt, topics=False)
    yield ("groups", "exclude"), flow.groups.exclude, partial(_doubt, topics=False)
    yield ("exclude_configs",), flow.exclude_configs, _config_doubt


def _doubt(pattern: str, topics: bool) -> _Doubt | None:
    if pattern != pattern.strip():
        return _Doubt("begins or ends with a space, which no name does", "take the space out")
    if topics and NAME.fullmatch(pattern) and len(pattern) > NAME_MAX:
        return _Doubt(f"is longer than {NAME_MAX} characters, so that no topic has this name", "correct it")
    if topics and (part := _impossible(pattern)):
        what, illegal = part
        remedy = "write an entry for each name" if illegal in ", ;" else "names have letters, digits, '.', '_' and '-'"
        return _Doubt(what, remedy, f': "{illegal}" is in no topic\'s name')
    if re.fullmatch(r"[a-zA-Z0-9._*-]+", pattern) and _WILDCARD.search(pattern):
        what = "is a regular expression, in which * repeats the character before it"
        return _Doubt(what, f'for any characters in its place write "{_WILDCARD.sub(".*", pattern)}"')
    return None


def _config_doubt(pattern: str) -> _Doubt | None:
    """What looks wrong in an entry of `exclude_configs`. Others than Kafka have keys of their own, with other names."""
    if doubt := _doubt(pattern, topics=False):
        return doubt
    if any(map(matcher([pattern]), TOPIC_CONFIGS)) or (near := nearest(pattern, TOPIC_CONFIGS)) is None:
        return None
    remedy = f'did you mean "{near}"? Or leave it if it is a key of your brokers'
    return _Doubt("matches no key that Kafka's topics have", remedy)


def _start_doubt(start: str) -> _Doubt | None:
    """What looks wrong in a `start`. Seconds since the epoch have ten digits for centuries, milliseconds have more."""
    if not re.fullmatch(r"[1-9]\d{9}", start):
        return None
    meant = datetime.fromtimestamp(int(start), UTC)
    what = "is early in 1970, because it counts in milliseconds"
    return _Doubt(what, f"for {meant:%Y-%m-%dT%H:%M:%SZ} write {start}000")


def _impossible(pattern: str) -> tuple[str, str] | None:
    """The character by which a pattern, or a part of it between two |, can match no topic's name.

    None if it may match, or if that is not certain: what is in brackets and groups is not judged.
    """
    if "(" in pattern or "[" in pattern:
        return None
    parts = list(_PART.finditer(pattern))
    alternatives = any(part["plain"] == "|" for part in parts)
    for part in parts:
        if illegal := _illegal(part):
            if _OPTIONAL.match(pattern, part.end()):
                continue
            return "has a part that can match no topic" if alternatives else "can match no topic", illegal
    return None


def _illegal(part: re.Match[str]) -> str | None:
    """The character that the part stands for, if topics can't have it."""
    escaped, plain = part["escaped"], part["plain"]
    if escaped is not None:
        return None if escaped.isalnum() or NAME.fullmatch(escaped) else escaped
    return None if plain is None or plain in _SPECIAL or NAME.fullmatch(plain) else plain
