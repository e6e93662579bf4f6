"""Which keys of a topic's configuration are copied, and what has to change on a remote topic. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from mirror.kafka.topic_configs import Config, ConfigValue, size_of
from mirror.model import BATCH_BYTES
from mirror.naming import matcher
from mirror.settings import Flow

# Never copied, whatever a configuration says: MirrorMaker's config.properties.exclude, what mirror itself sets, and
# other keys that belong to a cluster and not to its data.
EXCLUDED_CONFIGS = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.difference.max.ms",
        "message.timestamp.type",
        "min.insync.replicas",
        "unclean.leader.election.enable",
    }
)
EXCLUDED_PREFIXES = ("confluent.", "local.retention.", "remote.")

# A limit below Kafka's default is not copied: it limits a batch, and mirror's batches can be larger than the source's.
MAX_BYTES = "max.message.bytes"


@dataclass(frozen=True, slots=True)
class Rules:
    """What a flow's configuration says of topic configurations."""

    excluded: Callable[[str], bool]  # True for a key that is left alone
    defaults: Literal["source", "target"]  # whose default holds for a key that the source topic does not set

    @staticmethod
    def of(flow: Flow) -> Rules:
        """The rules of a flow."""
        return Rules(matcher(flow.exclude_configs), flow.use_defaults_from)

    def copies(self, key: str) -> bool:
        """True if a value of the key may be copied at all."""
        return not (key in EXCLUDED_CONFIGS or key.startswith(EXCLUDED_PREFIXES) or self.excluded(key))

    def holds(self, value: ConfigValue) -> bool:
        """True if the source's value is to hold on the remote topic, too; False if the target's default is."""
        return value.own or self.defaults == "source"

    def mutable(self, source: Config) -> dict[str, ConfigValue]:
        """Those keys of a source topic that may be copied."""
        return {key: each for key, each in sorted(source.items()) if self.copies(key) and not each.fixed}

    def at_creation(self, source: Config) -> dict[str, str]:
        """The configuration of a new remote topic; `source` is the whole one of its source topic."""
        values = {key: each.value for key, each in self.mutable(source).items() if self.holds(each)}
        return {key: value for key, value in values.items() if key != MAX_BYTES or (size_of(value) or 0) >= BATCH_BYTES}


@dataclass(frozen=True, slots=True)
class Change:
    """One key of a remote topic's configuration that differs from the source topic's."""

    key: str
    before: str  # what holds on the remote topic
    now: str | None  # what it has to be; None: the key is to be removed, so that the target's default holds

    def __str__(self) -> str:
        """For people: `retention.ms=2 (was 1)`."""
        return (
            f"{self.key} removed (was {self.before})"
            if self.now is None
            else f"{self.key}={self.now} (was {self.before})"
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is to be changed on a remote topic, and what the target can't take."""

    changes: tuple[Change, ...]
    unknown: tuple[str, ...]  # keys that are set on the source topic, and that the target does not know


def compare(source: Config, target: Config, rules: Rules) -> Comparison:
    """Compare the whole configurations of a source topic and of its remote topic.

    Only keys that the source knows are looked at, as in MirrorMaker. Of the others nobody can say that they differ.
    """
    mutable = rules.mutable(source)
    unknown = tuple(key for key, each in mutable.items() if each.own and key not in target)
    return Comparison(tuple(_changes({k: v for k, v in mutable.items() if k in target}, target, rules)), unknown)


def _changes(source: Config, target: Config, rules: Rules) -> Iterator[Change]:
    for key, wanted in source.items():
        there = target[key]
        counts = rules.holds(wanted)
        if there.fixed:
            continue
        if key == MAX_BYTES:
            # Only ever raised. A smaller limit would refuse records that the source still has, or batches of mirror's.
            size, now = size_of(wanted.value), size_of(there.value)
            if counts and size is not None and now is not None and size >= BATCH_BYTES and size > now:
                yield Change(key, there.value, wanted.value)
        elif counts and there.value != wanted.value:
            yield Change(key, there.value, wanted.value)
        elif not counts and there.own:
            yield Change(key, there.value, None)
