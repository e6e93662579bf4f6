"""Topics: which ones the source has for a flow, and remote and internal ones made on the target."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, NewPartitions, NewTopic, ResourceType

from mirror.errors import ClusterAway, FlowError
from mirror.plan import Topic
from mirror.policy import ReplicationPolicy
from mirror.settings import Flow

log = logging.getLogger(__name__)

TIMEOUT = 10.0  # seconds for an answer of a cluster

# MirrorMaker's config.properties.exclude: what belongs to a cluster, not to its data.
EXCLUDED_CONFIGS = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.difference.max.ms",
        "message.timestamp.type",
        "unclean.leader.election.enable",
        "min.insync.replicas",
    }
)

# A report or plan must not wait for hours to be compacted away, or a new reader reads for long.
INTERNAL_CONFIG = {"cleanup.policy": "compact", "segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.1"}

T = TypeVar("T")


def _ask(cluster: str, what: Callable[[], T]) -> T:
    try:
        return what()
    except KafkaException as error:
        raise ClusterAway(f"cluster {cluster}: {error.args[0].str()}") from error


class TopicMonitor:
    """Looks at both clusters of a flow; raises ClusterAway when one does not answer."""

    def __init__(self, flow: Flow, source: AdminClient, target: AdminClient) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._policy = ReplicationPolicy(flow)
        self._refused: set[str] = set()

    def ensure_internal_topics(self) -> None:
        """Make the control, status and offset-syncs topics where they are missing. Raises FlowError if refused."""
        names = [self._flow.control_topic, self._flow.status_topic, self._flow.offset_syncs_topic]
        existing = self._metadata(self._target, self._flow.target.alias)
        missing = [
            NewTopic(name, 1, self._flow.internal_replication_factor, config=INTERNAL_CONFIG)
            for name in names
            if name not in existing
        ]
        for name, error in self._create(missing):
            raise FlowError(f"topic {name} can't be created on {self._flow.target.alias}: {error.str()}")

    def mirrored(self) -> dict[str, Topic]:
        """The source's topics that the flow mirrors and whose remote topic stands ready, by name."""
        partitions = {
            name: count
            for name, count in self._metadata(self._source, self._flow.source.alias).items()
            if self._policy.is_mirrored(name)
        }
        ready = self._ensure_remote_topics(partitions)
        ids = self._topic_ids(sorted(ready))
        return {
            name: Topic(self._policy.remote_topic(name), ids[name], partitions[name], partitions[name])
            for name in sorted(ready)
            if name in ids
        }

    def _metadata(self, admin: AdminClient, alias: str) -> dict[str, int]:
        topics = _ask(alias, lambda: admin.list_topics(timeout=TIMEOUT)).topics
        return {name: len(topic.partitions) for name, topic in topics.items() if topic.error is None}

    def _topic_ids(self, names: list[str]) -> dict[str, str]:
        """By name; without those that are gone again."""
        if not names:
            return {}
        futures = self._source.describe_topics(TopicCollection(names), request_timeout=TIMEOUT)
        ids = {}
        for name, future in futures.items():
            try:
                ids[name] = str(future.result().topic_id)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise ClusterAway(f"cluster {self._flow.source.alias}: {error.args[0].str()}") from error
        return ids

    def _ensure_remote_topics(self, partitions: dict[str, int]) -> set[str]:
        """Create and grow remote topics; returns the source topics that can be copied."""
        remote = {name: self._policy.remote_topic(name) for name in partitions}
        existing = self._metadata(self._target, self._flow.target.alias)
        missing = [name for name in partitions if remote[name] not in existing]
        short = [n for n in partitions if n not in missing and existing[remote[n]] < partitions[n]]
        configs = self._configs(missing)
        factor = self._flow.replication_factor
        failed = dict(self._create(NewTopic(remote[n], partitions[n], factor, config=configs[n]) for n in missing))
        failed.update(self._grow(NewPartitions(remote[n], partitions[n]) for n in short))
        for name, error in failed.items():
            if name not in self._refused:
                log.error(
                    "remote topic can't be created or grown, its source topic is not mirrored",
                    extra={"flow": self._flow.name, "topic": name, "reason": error.str()},
                )
        self._refused = set(failed)
        return {name for name in partitions if remote[name] not in failed}

    def _configs(self, names: list[str]) -> dict[str, dict[str, str]]:
        """What was set on the source topics themselves, for their remote topics."""
        configs: dict[str, dict[str, str]] = {name: {} for name in names}
        if not names:
            return configs
        futures = self._source.describe_configs(
            [ConfigResource(ResourceType.TOPIC, name) for name in names], request_timeout=TIMEOUT
        )
        for resource, future in futures.items():
            try:
                entries = future.result().values()
            except KafkaException as error:
                log.warning(
                    "topic configuration can't be read, the remote topic gets the target's defaults",
                    extra={"flow": self._flow.name, "topic": resource.name, "reason": error.args[0].str()},
                )
                continue
            configs[resource.name] = {
                entry.name: entry.value
                for entry in entries
                if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
                and not entry.is_sensitive
                and entry.name not in EXCLUDED_CONFIGS
            }
        return configs

    def _create(self, topics: Iterable[NewTopic]) -> list[tuple[str, KafkaError]]:
        wanted = list(topics)
        for topic in wanted:
            log.info(
                "creating topic",
                extra={"flow": self._flow.name, "topic": topic.topic, "partitions": topic.num_partitions},
            )
        return self._failures(self._target.create_topics(wanted, request_timeout=TIMEOUT) if wanted else {})

    def _grow(self, topics: Iterable[NewPartitions]) -> list[tuple[str, KafkaError]]:
        wanted = list(topics)
        for topic in wanted:
            log.info(
                "adding partitions",
                extra={"flow": self._flow.name, "topic": topic.topic, "partitions": topic.new_total_count},
            )
        return self._failures(self._target.create_partitions(wanted, request_timeout=TIMEOUT) if wanted else {})

    def _failures(self, futures: dict[str, Any]) -> list[tuple[str, KafkaError]]:
        failures = []
        for name, future in futures.items():
            try:
                future.result()
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                # Another service's leader may have been quicker.
                if error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    failures.append((name, error))
        return failures
