"""The template of remote topics' names, `remote_topic`: texts around `{source}` and `{topic}`. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

SOURCE, TOPIC = "{source}", "{topic}"
HEARTBEATS = "heartbeats"  # MirrorClientConfig.HEARTBEATS_TOPIC

_PLACEHOLDER = re.compile(r"(\{[^{}]*\})")
_TEXT = re.compile(r"[a-zA-Z0-9._-]*")  # the characters of a topic's name


@dataclass(frozen=True, slots=True)
class Template:
    """A template that was checked. Two topics of one source never get the same name."""

    parts: tuple[str, ...]  # texts and placeholders, as they follow each other; a text may be empty

    @staticmethod
    def parse(text: str) -> Template:
        """Check a template. Raises ValueError with the reason if it is none."""
        parts = tuple(_PLACEHOLDER.split(text))
        texts, placeholders = parts[::2], parts[1::2]
        for each in placeholders:
            if each not in (SOURCE, TOPIC):
                raise ValueError(f'there is no placeholder "{each}", but {SOURCE} and {TOPIC}')
        if placeholders.count(TOPIC) != 1:
            raise ValueError(f"{TOPIC} must stand in it once, or topics would share a remote topic")
        if placeholders.count(SOURCE) > 1:
            raise ValueError(f"{SOURCE} may stand in it only once")
        if not all(map(_TEXT.fullmatch, texts)):
            raise ValueError("its texts must be made of letters, digits, '.', '_' and '-', as names of topics are")
        if len(placeholders) == 2 and not texts[1]:
            raise ValueError(f"a text must stand between {SOURCE} and {TOPIC}, or nobody sees where one of them ends")
        return Template(parts)

    @staticmethod
    def of(policy: str, separator: str) -> Template:
        """The template that MirrorMaker's policy is: `default`, or `identity`."""
        return Template.parse(TOPIC if policy == "identity" else f"{SOURCE}{separator}{TOPIC}")

    @staticmethod
    def chosen(remote_topic: str | None, policy: str, separator: str) -> Template:
        """The template of a flow with these keys. One with a policy of the user's own has no use for it."""
        return Template.parse(remote_topic) if remote_topic else Template.of(policy, separator)

    @property
    def separator(self) -> str | None:
        """The separator if the template is MirrorMaker's default policy with some separator; else None."""
        before, *others = self.parts
        return others[1] if not before and others[::2] == [SOURCE, TOPIC] and not others[-1] else None

    @property
    def is_mirrormakers(self) -> bool:
        """True if MirrorMaker has a policy that gives the same names."""
        return self.separator is not None or self == Template.of("identity", "")

    @property
    def names_source(self) -> bool:
        """True if a name shows the cluster that the topic comes from."""
        return SOURCE in self.parts

    def name(self, source: str, topic: str) -> str:
        """The remote topic of a topic of the cluster with the alias `source`."""
        values = {SOURCE: source, TOPIC: topic}
        return "".join(values.get(part, part) for part in self.parts)

    def shows(self, source: str, name: str) -> bool:
        """True if a topic of this name has come from that cluster by the template, at once or over other clusters.

        Compared as text, because an alias may contain any text of the template. So it is also true for some names that
        only look like that.
        """
        if not self.names_source:
            return False
        before, first, between, _, after = self.parts
        if first == SOURCE:  # before an alias that is not the last one stands the text between the placeholders
            return f"{between}{before}{source}{between}" in between + name
        return f"{between}{source}{after}{between}" in name + between


def is_of_heartbeats(topic: str, separator: str) -> bool:
    """True if a topic's name is that of MirrorMaker's heartbeats, of this cluster or of one further away."""
    return topic == HEARTBEATS or topic.endswith(f"{separator}{HEARTBEATS}")


def is_mirrormakers_own(topic: str, separator: str) -> bool:
    """True if the topic is one of MirrorMaker's own: DefaultReplicationPolicy.isMM2InternalTopic.

    Their names have the policy's separator, unless `replication.policy.internal.topic.separator.enabled` is false
    (KAFKA-15102). With a dot or a hyphen they are internal by their ends anyway.
    """
    end = f"{separator}internal"
    return topic.endswith(f"{separator}checkpoints{end}") or (topic.startswith("mm2") and topic.endswith(end))


def offset_syncs_topics(alias: str, separator: str) -> list[str]:
    """The names that MirrorMaker's topic of offset syncs may have: DefaultReplicationPolicy.offsetSyncsTopic."""
    return [f"mm2-offset-syncs{each}{alias}{each}internal" for each in dict.fromkeys([".", separator])]
