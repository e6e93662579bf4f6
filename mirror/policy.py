"""What is mirrored and under which name: MirrorMaker's topic filters and replication policies. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Protocol

from mirror.settings import Flow

# Composed of nothing but legal topic characters: a name. Anything else is a regular expression.
LITERAL = re.compile(r"[a-zA-Z0-9._-]+")

# Never mirrored, whatever the filters say (MirrorMaker's DefaultTopicFilter and ReplicationPolicy.isInternalTopic).
INTERNAL = re.compile(r"__.*|\..*|.*[-.]internal")


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
        self._excluded = matcher(rules.exclude)

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
        if INTERNAL.fullmatch(topic) or self.is_cycle(topic):
            return False
        return self._wanted(topic) and not self._excluded(topic)
