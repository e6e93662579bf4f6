"""Creates topics that take every timestamp, as far as the cluster knows how to say so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import KafkaError
from confluent_kafka.admin import NewTopic

from mirror.kafka.cluster import ClusterAdmin, Refusals

# By default Kafka 4 refuses records that are an hour ahead (KIP-1030). A remote topic must take what the source took.
# What mirror writes to its own topics has the time of its host, whose clock may be wrong.
AHEAD = "message.timestamp.after.max.ms"
ANY_TIME = {"message.timestamp.before.max.ms": str(2**63 - 1), AHEAD: str(2**63 - 1)}

Config = Mapping[str, str]


def without_any_time(config: Config, _: KafkaError) -> Config:
    """What is left without ANY_TIME: brokers before Kafka 3.6 do not know its keys, and do not need them."""
    return {key: value for key, value in config.items() if key not in ANY_TIME}


def create(
    admin: ClusterAdmin, topics: Iterable[NewTopic], less: Callable[[Config, KafkaError], Config] = without_any_time
) -> tuple[Refusals, dict[str, Config]]:
    """Create topics, with ANY_TIME. `less` is what to try of a configuration that is refused, with the reason.

    Returns the topics that the cluster refuses, with the errors, and the last configuration that was tried of each
    topic. Raises ClusterAway.
    """
    wanted = {topic.topic: topic for topic in topics}
    configs: dict[str, Config] = {name: {**(topic.config or {}), **ANY_TIME} for name, topic in wanted.items()}

    def tried(some: Mapping[str, Config]) -> Refusals:
        return admin.create_topics(
            NewTopic(name, wanted[name].num_partitions, wanted[name].replication_factor, config=dict(config))
            for name, config in some.items()
        )

    refused = tried(configs)
    while refused_for_config := {n: e for n, e in refused.items() if e.code() == KafkaError.INVALID_CONFIG}:
        others = {name: less(configs[name], error) for name, error in refused_for_config.items()}
        others = {name: config for name, config in others.items() if config != configs[name]}
        if not others:
            break
        configs |= others
        refused = {name: error for name, error in refused.items() if name not in others} | tried(others)
    return refused, configs
