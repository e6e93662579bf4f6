"""What is mirrored and under which name: MirrorMaker's topic filters and replication policies. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from mirror.settings import Flow

# Composed of nothing but legal topic characters: a name. Anything else is a regular expression.
LITERAL = re.compile(r"[a-zA-Z0-9._-]+")

# Never mirrored, whatever the filters say (MirrorMaker's DefaultTopicFilter and ReplicationPolicy.isInternalTopic).
INTERNAL = re.compile(r"__.*|\..*|.*[-.]internal")

SOME = 10  # names that are told of a long list

LeftOut = Mapping[str, Sequence[str]]  # topics of the source by the reason why they are not copied


def matcher(patterns: Collection[str]) -> Callable[[str], bool]:
    """True for a topic that one of `patterns` names, or matches as a whole as a regular expression."""
    literals = {pattern for pattern in patterns if LITERAL.fullmatch(pattern)}
    # Each by itself: joined, a flag or a group number of one would reach into the others.
    expressions = [re.compile(pattern) for pattern in patterns if pattern not in literals]
    return lambda topic: topic in literals or any(e.fullmatch(topic) for e in expressions)


class Rules(Protocol):
    """A flow's own keys that decide."""

    @property
    def topics(self) -> Collection[str]:
        """Names and expressions."""

    @property
    def exclude(self) -> Collection[str]:
        """Names and expressions."""

    @property
    def replication_policy(self) -> str:
        """default or identity."""

    @property
    def separator(self) -> str:
        """Between alias and topic."""


class ReplicationPolicy:
    """Names remote topics (MirrorMaker's DefaultReplicationPolicy and IdentityReplicationPolicy)."""

    def __init__(self, rules: Rules, source: str, target: str) -> None:
        """`source` and `target` are aliases."""
        self._source = source
        self._target = target
        self._separator = rules.separator
        self._identity = rules.replication_policy == "identity"
        self._wanted = matcher(rules.topics)
        self._exclude = [(pattern, matcher([pattern])) for pattern in rules.exclude]

    @staticmethod
    def of(flow: Flow) -> ReplicationPolicy:
        """A flow's policy."""
        return ReplicationPolicy(flow, flow.source.alias, flow.target.alias)

    def remote_topic(self, topic: str) -> str:
        """`orders` -> `primary.orders`; with Identity `orders`."""
        return topic if self._identity else f"{self._source}{self._separator}{topic}"

    def is_cycle(self, topic: str) -> bool:
        """Has the topic been on the target already? Told by the aliases before its name; Identity can't tell."""
        # As text, not by parts: an alias may have the separator in it.
        separator = self._separator
        return not self._identity and f"{separator}{self._target}{separator}" in separator + topic

    def is_mirrored(self, topic: str) -> bool:
        """Is the source's topic to be copied? Excludes win."""
        return self._wanted(topic) and self._reason(topic) is None

    def left_out(self, topic: str) -> str | None:
        """Why a topic that `topics` matches is not copied; None: it is copied, or `topics` does not match it."""
        return self._reason(topic) if self._wanted(topic) else None

    def _reason(self, topic: str) -> str | None:
        if INTERNAL.fullmatch(topic):
            return 'internal: such a name begins with "__" or ".", or ends in "-internal" or ".internal"'
        if self.is_cycle(topic):
            return f'a cycle: such a name has the target\'s alias "{self._target}" in it, so it has been there'
        excluding = next((pattern for pattern, matches in self._exclude if matches(topic)), None)
        return None if excluding is None else f'"{excluding}" in exclude matches it'


def left_out_topics(policy: ReplicationPolicy, topics: Iterable[str]) -> dict[str, list[str]]:
    """Those of the source's topics that `topics` matches but that are not copied: sorted names by the reason."""
    found: dict[str, list[str]] = {}
    for topic in sorted(topics):
        reason = policy.left_out(topic)
        if reason is not None:
            found.setdefault(reason, []).append(topic)
    return found


def some_of(names: Sequence[str]) -> str:
    """The first few of many names, and how many more there are."""
    more = len(names) - SOME
    return ", ".join(names[:SOME]) + (f", and {more:,} more" if more > 0 else "")
