"""Which topics are mirrored, and under which names: MirrorMaker's topic filters and replication policies. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from mirror import own_policy
from mirror.errors import FlowError
from mirror.own_policy import Judgement
from mirror.settings import Flow, canary_topic
from mirror.template import HEARTBEATS, Template, is_mirrormakers_own, is_of_heartbeats
from mirror.text import listed, printable

# A pattern made of legal topic characters only is a name. Any other pattern is a regular expression.
LITERAL = re.compile(r"[a-zA-Z0-9._-]+")

# Never mirrored, whatever the filters say (MirrorMaker's DefaultTopicFilter and ReplicationPolicy.isInternalTopic).
INTERNAL = re.compile(r"__.*|\..*|.*[-.]internal")
IS_INTERNAL = 'begins with "__" or ".", or ends in "-internal" or ".internal"'

# What flows leave out by default. Such an entry is no mistake if it matches nothing.
EXCLUDED_TOPICS = (r".*[\-\.]internal", r".*\.replica", "__.*")
EXCLUDED_GROUPS = ("console-consumer-.*", "connect-.*", "__.*")

MIRRORMAKERS = ("default", "identity")  # the policies that are MirrorMaker's own

NAME_MAX = 249  # characters of a topic's name

SOME = 10  # names of a long list that are shown
SHOWN_MAX = 255  # characters of a name among them: the id of a consumer group may have 32,767


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


class OwnName(Protocol):
    """What a flow says of one topic."""

    @property
    def remote_topic(self) -> str | None:
        """The name of its remote topic; None: it is named as others are."""


class OffsetsTopic(Switch, Protocol):
    """A further topic on the target that mirror writes to, if it is on."""

    @property
    def topic(self) -> str | None:
        """Its name; None if mirror names it."""


class Rules(Protocol):
    """The keys of a flow that decide which topics are mirrored and how they are named."""

    @property
    def topics(self) -> Collection[str]:
        """Names and regular expressions of the topics to mirror."""

    @property
    def exclude(self) -> Collection[str]:
        """Names and regular expressions of the topics to leave out."""

    @property
    def remote_topic(self) -> str | None:
        """The template of the remote topics' names; None: as `replication_policy` says."""

    @property
    def topic_settings(self) -> Mapping[str, OwnName]:
        """What is different for single topics, by source topic."""

    @property
    def replication_policy(self) -> str:
        """`default`, `identity`, or the path of a class of the user's own."""

    @property
    def separator(self) -> str:
        """The text between the alias and the topic's name."""

    @property
    def heartbeats(self) -> Switch:
        """MirrorMaker's heartbeats."""

    @property
    def canary(self) -> Switch:
        """The records that mirror writes, copies and reads itself."""

    @property
    def mirrormaker_offsets(self) -> OffsetsTopic:
        """The topic of MirrorMaker's positions."""


class ReplicationPolicy:
    """Names remote topics: by a template, which MirrorMaker's policies are, too, or as the user's own policy says.

    With a policy of the user's own, each method raises FlowError if that does not answer in time.
    """

    def __init__(self, rules: Rules, source: str, target: str) -> None:
        """`source` and `target` are aliases."""
        self._source = source
        self._target = target
        template, named = rules.remote_topic, rules.replication_policy
        self.asks = None if template or named in MIRRORMAKERS else own_policy.load(named)
        self.template = Template.chosen(template, named, rules.separator)
        self._own_names = {t: s.remote_topic for t, s in rules.topic_settings.items() if s.remote_topic is not None}
        self.separator = self.template.separator or rules.separator
        self._of_heartbeats = Template.of("default", self.separator)
        self._heartbeats = rules.heartbeats.enabled
        self._canary = canary_topic(source)
        self._has_canary = rules.canary.enabled
        offsets = rules.mirrormaker_offsets
        self._reserved = {offsets.topic} if offsets.enabled else set()
        self._wanted = matcher(rules.topics)
        self._exclude = [(pattern, matcher([pattern])) for pattern in rules.exclude]

    @staticmethod
    def of(flow: Flow) -> ReplicationPolicy:
        """The policy of a flow."""
        return ReplicationPolicy(flow, flow.source.alias, flow.target.alias)

    def remote_topic(self, topic: str) -> str:
        """The remote topic: `orders` becomes `primary.orders`, or stays `orders` with the identity policy.

        Heartbeats get MirrorMaker's default name with any policy and template: the way they took is what they tell.
        The canary's topic keeps its name, also while the flow has no canary.
        Raises FlowError if the user's own policy gives no name, or does not answer.
        """
        if self.has_own_name(topic):
            return self._own_names[topic]
        if judgement := self._judgement(topic):
            if not judgement.remote:
                raise FlowError(f"{topic} has no remote topic: {judgement.problem or 'it is not mirrored'}")
            return judgement.remote
        return self._template_of(topic).name(self._source, topic)

    def has_own_name(self, topic: str) -> bool:
        """True if the configuration names the remote topic of this very topic."""
        return topic in self._own_names and self.fixed_name(topic) is None

    def fixed_name(self, topic: str) -> str | None:
        """The reason why neither the configuration nor a policy can name the remote topic; None if they can."""
        if self.is_heartbeats(topic):
            return "heartbeats have MirrorMaker's name"
        return "the canary's topic has the same name on both sides" if topic == self._canary else None

    def is_asked(self, topic: str) -> bool:
        """True if a policy of the user's own names the remote topic of this topic."""
        return self.asks is not None and self.fixed_name(topic) is None and not self.has_own_name(topic)

    @property
    def may_share(self) -> bool:
        """True if several topics may get the same remote topic."""
        return bool(self._own_names) or self.asks is not None

    def is_heartbeats(self, topic: str) -> bool:
        """True if heartbeats are on and this topic has them, the source's own or those that come from further away."""
        return self._heartbeats and is_of_heartbeats(topic, self.separator)

    def is_canary(self, topic: str) -> bool:
        """True if the flow has a canary, and this is its topic. Those of other sources are never copied any further."""
        return self._has_canary and topic == self._canary

    def is_cycle(self, topic: str) -> bool:
        """True if the topic's name shows that it comes from the target.

        Without aliases in the names (identity, a template without `{source}`), only those of heartbeats show it.
        """
        if judgement := self._judgement(topic):
            return judgement.cycle
        return self._template_of(topic).shows(self._target, topic)

    def _judgement(self, topic: str) -> Judgement | None:
        """What the user's own policy says of the topic; None if it is not asked."""
        if self.asks is None or self.fixed_name(topic) is not None:
            return None
        return self.asks.judge(self._source, self._target, topic)

    def _template_of(self, topic: str) -> Template:
        if topic == self._canary:
            return Template.of("identity", "")
        return self._of_heartbeats if self.is_heartbeats(topic) else self.template

    def is_mirrored(self, topic: str) -> bool:
        """True if the source topic is to be mirrored; `exclude` takes precedence over `topics`."""
        return self.is_chosen(topic) and self.name_problem(topic) is None

    def is_chosen(self, topic: str) -> bool:
        """True if the topic is to be mirrored, if only its remote topic can have its name."""
        return (self._wanted(topic) or self.is_heartbeats(topic) or self.is_canary(topic)) and not self._reason(topic)

    def name_problem(self, topic: str) -> str | None:
        """The reason why the topic's remote topic can't have its name; None if it can."""
        judgement = self._judgement(topic)
        if judgement and judgement.problem and not self.has_own_name(topic):
            return judgement.problem
        remote = self.remote_topic(topic)
        if len(remote) > NAME_MAX:
            return f"the name of its remote topic would have more than {NAME_MAX} characters"
        # MirrorMaker's policies give any name.
        is_own = self.has_own_name(topic) or bool(judgement) or not self._template_of(topic).is_mirrormakers
        if is_own and INTERNAL.fullmatch(remote):
            return f"the name of its remote topic would be that of an internal one: it {IS_INTERNAL}"
        if remote in self._reserved or (is_own and remote == HEARTBEATS):
            return f"its remote topic would be {remote}, which has other records"
        return None

    def left_out(self, topic: str) -> str | None:
        """The reason why a topic is not copied although `topics` matches it; None otherwise."""
        return self._reason(topic) if self._wanted(topic) else None

    def _reason(self, topic: str) -> str | None:
        if (internal := self._internal(topic)) and not self.is_canary(topic):
            return f"internal: {internal}"
        judgement = self._judgement(topic)
        if judgement and judgement.internal:
            return "internal: its replication policy says so"
        if judgement and judgement.cycle:
            return f'a cycle: its replication policy says that it comes from "{self._target}"'
        if self.is_cycle(topic):
            return f'a cycle: the name contains the target\'s alias "{self._target}", so the topic comes from there'
        if self.is_heartbeats(topic) or self.is_canary(topic):
            return None
        excluding = next((pattern for pattern, matches in self._exclude if matches(topic)), None)
        return None if excluding is None else f'"{excluding}" in exclude matches it'

    def _internal(self, topic: str) -> str | None:
        """Why the topic is an internal one, whatever a policy of the user's own says; None if it is none."""
        if INTERNAL.fullmatch(topic):
            return f"the name {IS_INTERNAL}"
        own = is_mirrormakers_own(topic, self.separator)
        return f'with the separator "{self.separator}", MirrorMaker names its own topics so' if own else None


def some_of(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are, as a text.

    Each is cut and printable: anybody may name a consumer group as he likes.
    """
    shown = [printable(name[:SHOWN_MAX]) for name in names[:SOME]]
    return listed([*shown, *names[SOME:]], SOME, ", ")
