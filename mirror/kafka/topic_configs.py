"""Admin requests about the configurations of topics: describe them whole, and alter single keys (KIP-339)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource, ResourceType

from mirror.decode import INT32_MAX
from mirror.kafka.cluster import RECORDS, TIMEOUT, ClusterAdmin, Refusals, chunks

SET, DELETE = AlterConfigOpType.SET, AlterConfigOpType.DELETE


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """The value of one key of a topic's configuration."""

    value: str
    own: bool  # True if it was set on the topic itself; False if it is a default, of the cluster or of Kafka
    fixed: bool = False  # True if it can't be altered


Config = Mapping[str, ConfigValue]


def size_of(value: str | None) -> int | None:
    """A number of bytes; None for what is none in Kafka: whatever a broker answers must not end a thread."""
    if value is None or not re.fullmatch(r"[0-9]{1,10}", value) or int(value) > INT32_MAX:
        return None
    return int(value)


class TopicConfigAdmin(ClusterAdmin):
    """Requests about topic configurations. Every method raises ClusterAway when the cluster does not answer."""

    def configs(self, names: Iterable[str]) -> tuple[dict[str, Config], Refusals]:
        """The whole configuration of each topic, and the errors of topics whose configuration is not given.

        Secrets are left out.
        """
        described, refused = self._described_topics(names)
        itself = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {
            name: {
                entry.name: ConfigValue(entry.value, entry.source == itself, bool(entry.is_read_only))
                for entry in entries.values()
                if entry.value is not None and not entry.is_sensitive
            }
            for name, entries in described.items()
        }, refused

    def alter(self, changes: Mapping[str, Mapping[str, str | None]]) -> Refusals:
        """Set keys of topics to their values, and remove those whose value is None; all other keys stay.

        The cluster makes all changes of a topic, or none. Returns the topics that it refuses, with the errors.
        """
        refused: Refusals = {}
        for some in chunks(changes.items(), RECORDS, lambda item: len(item[1])):
            resources = [ConfigResource(ResourceType.TOPIC, n, incremental_configs=_entries(c)) for n, c in some]
            futures = self._admin.incremental_alter_configs(resources, request_timeout=TIMEOUT)
            self._results({resource.name: future for resource, future in futures.items()}, refused)
        return refused


def _entries(changes: Mapping[str, str | None]) -> list[ConfigEntry]:
    return [
        ConfigEntry(key, value, incremental_operation=DELETE if value is None else SET)
        for key, value in changes.items()
    ]
