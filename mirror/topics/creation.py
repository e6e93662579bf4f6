"""Creates remote topics with the configuration of their source topics, as far as the target knows its keys."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache

from confluent_kafka.admin import NewTopic

from mirror.kafka.cluster import ClusterAdmin, Refusals
from mirror.kafka.topic_creation import ANY_TIME, create
from mirror.naming import some_of
from mirror.settings import Flow
from mirror.target.timestamps import KEEP

log = logging.getLogger(__name__)

Wanted = Mapping[str, tuple[int, Mapping[str, str]]]  # by remote topic: the number of partitions, and the configuration


class RemoteTopicCreator:
    """Creates remote topics of one flow. If the target does not know a key, the topic is created without it."""

    def __init__(self, flow: Flow, target: ClusterAdmin) -> None:
        self._flow = flow
        self._target = target

    def create(self, wanted: Wanted, existing: Iterable[str] = ()) -> Refusals:
        """Create these topics. `existing` are some that the target has: their configurations show what it knows.

        Returns the topics that the target refuses, with the errors. Raises ClusterAway.
        """
        factor, known = self._flow.replication_factor, cache(lambda: self._known_keys(existing))
        topics = [NewTopic(n, count, factor, config={**own, **KEEP}) for n, (count, own) in wanted.items()]
        refused, configs = create(self._target, topics, lambda config, error: reduced(config, error.str(), known()))
        self._log_left_out(wanted, {name: config for name, config in configs.items() if name not in refused})
        return refused

    def _known_keys(self, existing: Iterable[str]) -> Collection[str]:
        """The keys that the target's topics have; empty if it tells of none of them."""
        configs, _ = self._target.topic_configs([*existing, *self._flow.own_topics], own=False)
        return {key for config in configs.values() for key in config}

    def _log_left_out(self, wanted: Wanted, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Log the keys of source topics that new remote topics lack; topics that lack the same keys together."""
        lacking: dict[str, list[str]] = {}
        for name, config in configs.items():
            if keys := ", ".join(sorted(wanted[name][1].keys() - config.keys())):
                lacking.setdefault(keys, []).append(name)
        for keys, names in lacking.items():
            where = {"flow": self._flow.name, "count": len(names), "topics": some_of(names), "keys": keys}
            log.warning("remote topics are created without keys that the target does not know", extra=where)


def reduced(config: Mapping[str, str], reason: str, known: Collection[str]) -> dict[str, str]:
    """What is left of a configuration that the target has refused; the same again if nothing of it may be left out.

    `known` are the keys that the target knows. If that is empty, `reason`, the target's, may name one that it does not
    know. A key whose value the target refuses is not left out: records could then be deleted sooner than on the source.
    """
    unknown = config.keys() - known if known else config.keys() & _unknown_keys(reason)
    # Brokers before Kafka 3.6 do not know the keys of ANY_TIME, and do not need them.
    left_out = unknown - KEEP.keys() or ANY_TIME.keys()
    return {key: value for key, value in config.items() if key not in left_out}


def _unknown_keys(reason: str) -> set[str]:
    """The words of `Unknown topic config name: retention.ms`, as Kafka says it; of another error, nothing."""
    return set(re.findall(r"[\w.-]*\w", reason)) if "unknown" in reason.lower() else set()
