"""Asks a cluster for its brokers, versions, settings and our permissions. Changes nothing."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, OffsetSpec

from mirror.errors import ClusterAway, WireError
from mirror.kafka import clients
from mirror.kafka.cluster import TIMEOUT, ClusterAdmin
from mirror.kafka.credentials import properties_of
from mirror.kafka.librdkafka_log import api_version
from mirror.settings import Cluster
from mirror.wire import acls, features
from mirror.wire.features import Features

COORDINATOR_TIMEOUT = 3600.0  # seconds, librdkafka's longest; the limit of `_answer` is ours
COORDINATOR_PATIENCE, COORDINATOR_INTERVAL = 15.0, 0.2  # seconds: a cluster's first group has to get its coordinator
_NO_COORDINATOR_YET = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
ASKED_AT_ONCE = 16  # brokers that are asked in parallel

Operations = frozenset[str]  # READ, WRITE, ...


@dataclass(frozen=True, slots=True)
class Description:
    """A cluster as it describes itself."""

    cluster_id: str
    brokers: tuple[int, ...]
    addresses: tuple[tuple[str, int], ...]  # host and port of each
    operations: Operations  # on the cluster itself


class Inspector(ClusterAdmin):
    """An admin client with requests that only `mirror check` makes.

    Every method raises ClusterAway when the cluster does not answer, KafkaException when it refuses.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._versions = _Versions()
        self._properties = cluster.properties
        super().__init__(cluster)

    def _client(self, cluster: Cluster) -> AdminClient:
        return clients.admin(cluster, self._on_error, self._versions)

    def describe(self) -> Description:
        """The cluster's id, its brokers, and our permissions on it."""
        future = self._admin.describe_cluster(include_authorized_operations=True, request_timeout=TIMEOUT)
        found = self._answer(future)
        nodes = sorted(found.nodes, key=lambda node: node.id)
        brokers, addresses = tuple(node.id for node in nodes), tuple((node.host, node.port) for node in nodes)
        return Description(str(found.cluster_id), brokers, addresses, _operations(found.authorized_operations))

    def features(self, addresses: Iterable[tuple[str, int]]) -> list[Features]:
        """The features of each of these brokers, without those that do not answer the request."""

        def ask(address: tuple[str, int]) -> Features | None:
            try:
                return features.ask(*address, self._properties)
            except WireError:  # a security that only librdkafka has, or a broker other than Apache's
                return None

        with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
            return [found for found in pool.map(ask, addresses) if found]

    def replicas(self, names: Collection[str]) -> dict[str, int]:
        """The number of replicas of each topic: that of its partition with the fewest."""
        topics = self._ask(lambda: self._admin.list_topics(timeout=TIMEOUT)).topics
        partitions = {name: topics[name].partitions.values() for name in names if name in topics}
        return {name: min(len(each.replicas) for each in some) for name, some in partitions.items() if some}

    def versions(self) -> dict[int, int]:
        """The highest version of each API, by its key, that all brokers connected so far have."""
        self._admin.poll(0)
        return self._versions.highest

    def topic_operations(self, names: Iterable[str]) -> dict[str, Operations]:
        """Our permissions on each topic, without the topics that we may not even see."""
        wanted = TopicCollection(sorted(names))
        if not wanted.topic_names:
            return {}
        futures = self._admin.describe_topics(wanted, include_authorized_operations=True, request_timeout=TIMEOUT)
        found = self._results(futures, {})
        return {name: _operations(topic.authorized_operations) for name, topic in found.items()}

    def group_operations(self, group: str) -> Operations:
        """Our permissions on a consumer group, which need not exist."""
        deadline = time.monotonic() + COORDINATOR_PATIENCE
        while True:
            try:
                return self._group_operations(group)
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.GROUP_AUTHORIZATION_FAILED:
                    return frozenset()
                if code not in _NO_COORDINATOR_YET or time.monotonic() > deadline:
                    raise
            except ClusterAway:
                # A request of librdkafka's goes on asking the broker that it has found, though another one coordinates
                # the group by now. The next request looks for it anew.
                if time.monotonic() > deadline:
                    raise
            time.sleep(COORDINATOR_INTERVAL)

    def _group_operations(self, group: str) -> Operations:
        # Nothing else tells them. librdkafka's own time-out would end the process: see ClusterAdmin.active_groups.
        asked = self._admin.describe_consumer_groups(
            [group], include_authorized_operations=True, request_timeout=COORDINATOR_TIMEOUT
        )
        return _operations(self._answer(asked[group]).authorized_operations)

    def has_authorizer(self) -> bool:
        """True if the cluster checks permissions, or only librdkafka can log in, which does not tell."""
        try:
            return acls.has_authorizer(properties_of(self._cluster))
        except WireError:
            return True

    def newest_timestamps(self, topics: Collection[tuple[str, int]]) -> Iterator[tuple[str, int]]:
        """The largest timestamp (ms) of each topic; `topics` has names and partition counts."""
        asked = {TopicPartition(topic, n): OffsetSpec.max_timestamp() for topic, count in topics for n in range(count)}
        if not asked:
            return
        newest: dict[str, int] = {}
        for partition, future in self._admin.list_offsets(asked, request_timeout=TIMEOUT).items():
            try:
                found = self._answer(future).timestamp
            except KafkaException:
                continue
            newest[partition.topic] = max(newest.get(partition.topic, -1), found)
        yield from newest.items()


class _Versions(logging.Logger):
    """A logger for librdkafka that keeps the API versions of brokers and drops everything else."""

    def __init__(self) -> None:
        super().__init__("mirror.librdkafka.features")
        self.highest: dict[int, int] = {}

    def log(self, level: int, msg: object, *args: object, **_: object) -> None:
        """Read one line. librdkafka gives facility, client and line as arguments."""
        found = api_version(str(args[-1] if args else msg))
        if found:
            key, version = found
            self.highest[key] = min(version, self.highest.get(key, version))


def _operations(found: Iterable[AclOperation] | None) -> Operations:
    return frozenset(operation.name for operation in found or ())
