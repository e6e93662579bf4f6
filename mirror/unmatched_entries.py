"""Which entries of the configuration's lists match no topic or group of the source, and what was meant. Pure."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from difflib import get_close_matches
from itertools import takewhile
from typing import Protocol

from mirror.naming import EXCLUDED_GROUPS, EXCLUDED_TOPICS, INTERNAL, LITERAL, SOME, Rules, matcher
from mirror.text import listed

NEAR = 0.8  # how much of two names is the same if one may be a typo of the other, as difflib counts
CANDIDATES_MAX = 10_000  # topics that a wrong name is compared with, since that takes long
# Seconds for the comparisons of one list: with long names they take minutes, and the flow waits for them.
TIME_MAX = 1.0

_ABSENT_TOPIC = "correct it, create the topic, or allow Describe on it"
_ABSENT_GROUP = "correct it, or allow Describe on the group if it exists"


class GroupRules(Protocol):
    """The keys of a flow that decide which groups take part."""

    @property
    def include(self) -> Collection[str]:
        """Names and regular expressions of the groups."""

    @property
    def exclude(self) -> Collection[str]:
        """Names and regular expressions of those to leave out."""


def matches_nothing(rules: Rules, topics: Collection[str]) -> Iterator[tuple[str, str]]:
    """For each entry of a flow that matches none of the source's topics: what is wrong, and what to do.

    These are entries of `topics`, of `topic_settings`, and of `exclude` unless they are the default's.
    """
    for key, patterns in (("topics", rules.topics), ("topic_settings", rules.topic_settings)):
        for pattern, near in unmatched(patterns, topics):
            yield _said(pattern, key, "topic"), f'did you mean "{near}"?' if near else _ABSENT_TOPIC
    yield from _excluded("exclude", "topic", unmatched(rules.exclude, topics), EXCLUDED_TOPICS)


def groups_match_nothing(groups: GroupRules, known: Collection[str]) -> Iterator[tuple[str, str]]:
    """The same for each entry of `groups.include` and `groups.exclude` that matches none of the source's groups."""
    for pattern, near in unmatched(groups.include, known):
        said = _said(pattern, "groups.include", "consumer group")
        yield said, f'did you mean "{near}"?' if near else _ABSENT_GROUP
    yield from _excluded("groups.exclude", "consumer group", unmatched(groups.exclude, known), EXCLUDED_GROUPS)


def warning(found: Iterable[tuple[str, str]]) -> str:
    """The first entries that match nothing, in one line of the log; "" if there are none."""
    return listed([f"{said}; {remedy}" for said, remedy in found], SOME, ". ")


def unmatched(
    patterns: Iterable[str], topics: Collection[str], clock: Callable[[], float] = time.monotonic
) -> list[tuple[str, str | None]]:
    """The patterns that match none of `topics`, each with the topic of the nearest name that no pattern matches.

    Internal topics, which are never mirrored, are no near ones. All patterns match if there are no topics.
    """
    wanted, names = list(patterns), set(topics)
    lonely = [pattern for pattern in wanted if names and not _matches_any(pattern, names)]
    if not lonely:
        return []
    matched = matcher(wanted)
    others = [topic for topic in sorted(names) if not INTERNAL.fullmatch(topic) and not matched(topic)]
    by_name = {topic.lower(): topic for topic in others[:CANDIDATES_MAX]}
    found: list[tuple[str, str | None]] = []
    until = clock() + TIME_MAX
    for number, pattern in enumerate(lonely):
        near = nearest(pattern, takewhile(lambda _: clock() < until, by_name)) if number < SOME else None
        found.append((pattern, by_name[near] if near else None))
    return found


def nearest(pattern: str, names: Iterable[str]) -> str | None:
    """The name, in lower case, that a pattern may have been meant for; None if none is near."""
    name = re.sub(r"[^a-z0-9._-]", "", pattern.lower())
    return next(iter(get_close_matches(name, names, n=1, cutoff=NEAR)), None)


def _matches_any(pattern: str, names: Set[str]) -> bool:
    return pattern in names if LITERAL.fullmatch(pattern) else any(map(matcher([pattern]), names))


def _said(pattern: str, key: str, what: str) -> str:
    return f'"{pattern}" in {key} matches no {what} of the source that mirror may see'


def _excluded(
    key: str, what: str, found: Iterable[tuple[str, str | None]], defaults: Collection[str]
) -> Iterator[tuple[str, str]]:
    """What leaves out nothing may be for what is not there yet."""
    later = f"leave it if it is for {what}s that come later"
    for pattern, near in found:
        if pattern not in defaults:
            yield _said(pattern, key, what), f'did you mean "{near}"? Or {later}' if near else f"correct it, or {later}"
