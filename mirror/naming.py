"""Which topics are mirrored, and under which names: MirrorMaker's topic filters and replication policies. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Protocol

from mirror.settings import Flow

HEARTBEATS = "heartbeats"  # MirrorClientConfig.HEARTBEATS_TOPIC

# A pattern made of legal topic characters only is a name. Any other pattern is a regular expression.
LITERAL = re.compile(r"[a-zA-Z0-9._-]+")

# Never mirrored, whatever the filters say (MirrorMaker's DefaultTopicFilter and ReplicationPolicy.isInternalTopic).
INTERNAL = re.compile(r"__.*|\..*|.*[-.]internal")

SOME = 10  # names of a long list that are shown

NEAR = 0.8  # how much of two names is the same if one may be a typo of the other, as difflib counts
CANDIDATES_MAX = 10_000  # topics that a wrong name is compared with, since that takes long

LeftOut = Mapping[str, Sequence[str]]  # by reason: the source topics that are not copied


def matcher(patterns: Collection[str]) -> Callable[[str], bool]:
    """A function that is True for a topic if one of `patterns` is its name, or a regular expression for all of it."""
    literals = {pattern for pattern in patterns if LITERAL.fullmatch(pattern)}
    # Compiled one by one: in a joined expression a flag or a group number of one pattern would affect the others.
    expressions = [re.compile(pattern) for pattern in patterns if pattern not in literals]
    return lambda topic: topic in literals or any(e.fullmatch(topic) for e in expressions)


class Switch(Protocol):
    """Something that is on or off."""

    @property
    def enabled(self) -> bool:
        """True if it is on."""


class Rules(Protocol):
    """The keys of a flow that decide which topics are mirrored and how they are named."""

    @property
    def topics(self) -> Collection[str]:
        """Names and regular expressions of the topics to mirror."""

    @property
    def exclude(self) -> Collection[str]:
        """Names and regular expressions of the topics to leave out."""

    @property
    def replication_policy(self) -> str:
        """`default` or `identity`."""

    @property
    def separator(self) -> str:
        """The text between the alias and the topic's name."""

    @property
    def heartbeats(self) -> Switch:
        """MirrorMaker's heartbeats."""


class ReplicationPolicy:
    """Names remote topics (MirrorMaker's DefaultReplicationPolicy and IdentityReplicationPolicy)."""

    def __init__(self, rules: Rules, source: str, target: str) -> None:
        """`source` and `target` are aliases."""
        self._source = source
        self._target = target
        self._separator = rules.separator
        self._identity = rules.replication_policy == "identity"
        self._heartbeats = rules.heartbeats.enabled
        self._wanted = matcher(rules.topics)
        self._exclude = [(pattern, matcher([pattern])) for pattern in rules.exclude]

    @staticmethod
    def of(flow: Flow) -> ReplicationPolicy:
        """The policy of a flow."""
        return ReplicationPolicy(flow, flow.source.alias, flow.target.alias)

    def remote_topic(self, topic: str) -> str:
        """The remote topic: `orders` becomes `primary.orders`, or stays `orders` with the identity policy.

        Heartbeats get the alias with any policy, as with MirrorMaker: the way they took is what they tell.
        """
        keeps_name = self._identity and not self.is_heartbeats(topic)
        return topic if keeps_name else f"{self._source}{self._separator}{topic}"

    def is_heartbeats(self, topic: str) -> bool:
        """True if heartbeats are on and this topic has them, the source's own or those that come from further away."""
        return self._heartbeats and (topic == HEARTBEATS or topic.endswith(f"{self._separator}{HEARTBEATS}"))

    def is_cycle(self, topic: str) -> bool:
        """True if the aliases before the topic's name show that it comes from the target.

        Never so with identity, but for heartbeats.
        """
        # Compared as text, because an alias may contain the separator.
        separator = self._separator
        has_aliases = not self._identity or self.is_heartbeats(topic)
        return has_aliases and f"{separator}{self._target}{separator}" in separator + topic

    def is_mirrored(self, topic: str) -> bool:
        """True if the source topic is to be mirrored; `exclude` takes precedence over `topics`."""
        return (self._wanted(topic) or self.is_heartbeats(topic)) and self._reason(topic) is None

    def left_out(self, topic: str) -> str | None:
        """The reason why a topic is not copied although `topics` matches it; None otherwise."""
        return self._reason(topic) if self._wanted(topic) else None

    def _reason(self, topic: str) -> str | None:
        if INTERNAL.fullmatch(topic):
            return 'internal: the name begins with "__" or ".", or ends in "-internal" or ".internal"'
        if self.is_cycle(topic):
            return f'a cycle: the name contains the target\'s alias "{self._target}", so the topic comes from there'
        if self.is_heartbeats(topic):
            return None
        excluding = next((pattern for pattern, matches in self._exclude if matches(topic)), None)
        return None if excluding is None else f'"{excluding}" in exclude matches it'


def left_out_topics(policy: ReplicationPolicy, topics: Iterable[str]) -> dict[str, list[str]]:
    """The source topics that `topics` matches but that are not copied: by reason, their sorted names."""
    found: dict[str, list[str]] = {}
    for topic in sorted(topics):
        reason = policy.left_out(topic)
        if reason is not None:
            found.setdefault(reason, []).append(topic)
    return found


def unmatched(patterns: Iterable[str], topics: Collection[str]) -> list[tuple[str, str | None]]:
    """The patterns that match none of `topics`, each with the topic of the nearest name that no pattern matches.

    Internal topics, which are never mirrored, are no near ones. All patterns match if there are no topics.
    """
    wanted = [(pattern, matcher([pattern])) for pattern in patterns]
    lonely = [pattern for pattern, matches in wanted if topics and not any(map(matches, topics))]
    if not lonely:
        return []
    others = [t for t in sorted(topics) if not INTERNAL.fullmatch(t) and not any(matches(t) for _, matches in wanted)]
    by_name = {topic.lower(): topic for topic in others[:CANDIDATES_MAX]}
    found: list[tuple[str, str | None]] = []
    for number, pattern in enumerate(lonely):
        name = re.sub(r"[^a-z0-9._-]", "", pattern.lower())
        near = get_close_matches(name, by_name, n=1, cutoff=NEAR) if number < SOME else []
        found.append((pattern, by_name[near[0]] if near else None))
    return found


def matches_nothing(patterns: Iterable[str], topics: Collection[str]) -> Iterator[tuple[str, str]]:
    """For each entry of a flow's `topics` that matches none of the source's topics: what is wrong, and what to do."""
    for pattern, near in unmatched(patterns, topics):
        said = f'"{pattern}" in topics matches no topic of the source that mirror may see'
        yield said, f'did you mean "{near}"?' if near else "correct it, create the topic, or allow Describe on it"


def some_of(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are, as a text."""
    more = len(names) - SOME
    return ", ".join(names[:SOME]) + (f", and {more:,} more" if more > 0 else "")
