"""What is mirrored and under which name: MirrorMaker's topic filters and replication policies. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

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


class ReplicationPolicy:
    """Names remote topics (MirrorMaker's DefaultReplicationPolicy and IdentityReplicationPolicy)."""

    def __init__(self, flow: Flow) -> None:
        self._source = flow.source.alias
        self._target = flow.target.alias
        self._separator = flow.separator
        self._identity = flow.replication_policy == "identity"
        self._wanted = matcher(flow.topics)
        self._excluded = matcher(flow.exclude)

    def remote_topic(self, topic: str) -> str:
        """`orders` -> `primary.orders`; with Identity `orders`."""
        return topic if self._identity else f"{self._source}{self._separator}{topic}"

    def is_cycle(self, topic: str) -> bool:
        """Has the topic been on the target already? Told by the aliases before its name; Identity can't tell."""
        return not self._identity and self._target in topic.split(self._separator)[:-1]

    def is_mirrored(self, topic: str) -> bool:
        """Is the source's topic to be copied? Excludes win."""
        if INTERNAL.fullmatch(topic) or self.is_cycle(topic):
            return False
        return self._wanted(topic) and not self._excluded(topic)
