"""What is asked of one cluster's admin interface, with errors in mirror's own terms."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import TimeoutError as FuturesTimeout
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ConfigSource,
    ListOffsetsResultInfo,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from mirror.errors import ClusterAway
from mirror.kafka import clients
from mirror.kafka.clients import is_away
from mirror.kafka.librdkafka_log import without_elapsed_time
from mirror.model import Partition
from mirror.settings import Cluster

TIMEOUT = 5.0  # seconds for an answer; less than a drain may take
OFFSETS_TIMEOUT = 10.0  # seconds
# Topics for one request: a topic's configuration is told in up to 4 kB, and a slow link has TIMEOUT for all of them.
NAMES = 200
# Metadata records (topics, partitions, configuration keys) for one request: KRaft refuses more than 10,000 at once.
RECORDS = 2_000
NO_OFFSET = -1  # of a timestamp after the newest record

T = TypeVar("T")
Refusals = dict[str, KafkaError]  # by topic


class ClusterAdmin:
    """Every method raises ClusterAway when the cluster does not answer."""

    def __init__(self, cluster: Cluster) -> None:
        self.alias = cluster.alias
        # "Transport failure" is all that a request says; why connections fail is told to the callback.
        self._why: deque[KafkaError] = deque(maxlen=1)
        self._admin = self._client(cluster)

    def _client(self, cluster: Cluster) -> AdminClient:
        return clients.admin(cluster, self._on_error)

    def partitions(self) -> dict[str, int]:
        """All topics and how many partitions they have."""
        topics = self._ask(lambda: self._admin.list_topics(timeout=TIMEOUT)).topics
        return {name: len(topic.partitions) for name, topic in topics.items() if topic.error is None}

    def topic_ids(self, names: Iterable[str], refused: Refusals | None = None) -> dict[str, str]:
        """Topic ids (KIP-516) by name, without topics that are gone; why those have none is added to `refused`."""
        wanted = list(names)
        if not wanted:
            return {}
        refresh_metadata(self._admin, TIMEOUT)
        ids: dict[str, str] = {}
        why = {} if refused is None else refused
        for some in chunks(wanted, NAMES):
            futures = self._admin.describe_topics(TopicCollection(some), request_timeout=TIMEOUT)
            ids |= {name: str(topic.topic_id) for name, topic in self._results(futures, why).items()}
        return ids

    def brokers(self) -> list[int]:
        """The ids of its brokers."""
        return sorted(self._ask(lambda: self._admin.list_topics(timeout=TIMEOUT)).brokers)

    def broker_config(self, broker: int) -> dict[str, str]:
        """A broker's whole configuration. Raises KafkaException if it may not be read."""
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        (future,) = self._admin.describe_configs([resource], request_timeout=TIMEOUT).values()
        return {name: entry.value for name, entry in self._answer(future).items() if entry.value is not None}

    def ids_now(self, names: Iterable[str]) -> tuple[dict[str, str], Refusals]:
        """The same of a few topics, as any broker knows them; and why it does not tell of others: they may be gone.

        Without learning of all topics first, so that it may be asked each second.
        """
        refused: Refusals = {}
        futures = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=TIMEOUT)
        return {name: str(topic.topic_id) for name, topic in self._results(futures, refused).items()}, refused

    def topic_configs(self, names: Iterable[str], own: bool = True) -> tuple[dict[str, dict[str, str]], Refusals]:
        """What was set on each topic (`own`: itself); and the topics whose configuration may not be read."""
        described: dict[str, Any] = {}
        refused: Refusals = {}
        for some in chunks(names, NAMES):
            resources = [ConfigResource(ResourceType.TOPIC, name) for name in some]
            futures = self._admin.describe_configs(resources, request_timeout=TIMEOUT)
            described |= self._results({resource.name: future for resource, future in futures.items()}, refused)
        itself = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        configs = {
            name: {e.name: e.value for e in entries.values() if not e.is_sensitive and (e.source == itself or not own)}
            for name, entries in described.items()
        }
        return configs, refused

    def offsets(self, asked: Mapping[Partition, OffsetSpec], stable: bool = True) -> dict[Partition, int]:
        """As `list_offsets`. Raises ClusterAway when it gives not even one."""
        found = list_offsets(self._admin, asked, stable)
        if asked and not found:
            self.partitions()  # which says why
        return found

    def end(self, partition: Partition) -> tuple[int, int] | None:
        """High watermark and leader epoch as the leader tells them, or who was the leader; None: nobody tells now.

        The epoch is -1 where brokers do not tell it. Raises ClusterAway.
        """
        found = _results(self._admin, {partition: OffsetSpec.latest()}, stable=False).get(partition)
        if found is None:
            self.partitions()  # which says why
            return None
        return int(found.offset), -1 if found.leader_epoch is None else int(found.leader_epoch)

    def create_topics(self, topics: Iterable[NewTopic]) -> Refusals:
        """Create topics; those that are there already are fine. Returns what the cluster refuses."""
        refused: Refusals = {}
        for some in chunks(topics, RECORDS, lambda topic: 1 + topic.num_partitions + len(topic.config or ())):
            self._results(self._admin.create_topics(some, request_timeout=TIMEOUT), refused)
        return {n: error for n, error in refused.items() if error.code() != KafkaError.TOPIC_ALREADY_EXISTS}

    def create_partitions(self, topics: Iterable[NewPartitions]) -> Refusals:
        """Add partitions. Returns what the cluster refuses."""
        refused: Refusals = {}
        # That some of the partitions are there already is not known here: a request may get fewer records.
        for some in chunks(topics, RECORDS, lambda topic: topic.new_total_count):
            self._results(self._admin.create_partitions(some, request_timeout=TIMEOUT), refused)
        return refused

    def _results(self, futures: Mapping[str, Any], refused: Refusals) -> dict[str, Any]:
        results = {}
        for name, future in futures.items():
            try:
                results[name] = self._answer(future)
            except KafkaException as error:
                refused[name] = error.args[0]
        return results

    def _answer(self, future: Any) -> Any:
        """The result of a request; librdkafka has ways to forget one when a broker goes away."""
        try:
            return self._ask(lambda: future.result(2 * TIMEOUT))
        except FuturesTimeout:
            raise ClusterAway(self.alias, "no answer in time") from None

    def _ask(self, what: Callable[[], T]) -> T:
        try:
            return what()
        except KafkaException as error:
            if not is_away(error.args[0]):
                raise
            self._admin.poll(0)
            reason = self._why[-1] if self._why else error.args[0]
            # Without times and addresses of the moment: a reason that goes on is said once.
            raise ClusterAway(self.alias, without_elapsed_time(reason.str())) from error

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._why.append(error)


def chunks(items: Iterable[T], most: int, size: Callable[[T], int] = lambda _: 1) -> Iterator[list[T]]:
    """The items in lists whose sizes add up to `most` at most; an item that is larger gets a list of its own."""
    some: list[T] = []
    room = most
    for item in items:
        if some and size(item) > room:
            yield some
            some, room = [], most
        some.append(item)
        room -= size(item)
    if some:
        yield some


def list_offsets(
    admin: AdminClient, asked: Mapping[Partition, OffsetSpec], stable: bool = True
) -> dict[Partition, int]:
    """Offsets, without partitions that give none now; `stable`: the latest is the last stable offset."""
    return {partition: int(found.offset) for partition, found in _results(admin, asked, stable).items()}


def _results(
    admin: AdminClient, asked: Mapping[Partition, OffsetSpec], stable: bool
) -> dict[Partition, ListOffsetsResultInfo]:
    if not asked:
        return {}
    refresh_metadata(admin, OFFSETS_TIMEOUT)
    specs = {TopicPartition(*partition): spec for partition, spec in asked.items()}
    isolation = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
    futures = admin.list_offsets(specs, isolation_level=isolation, request_timeout=OFFSETS_TIMEOUT)
    found, deadline = {}, time.monotonic() + 2 * OFFSETS_TIMEOUT  # for all: librdkafka can forget a request
    for tp, future in futures.items():
        with contextlib.suppress(KafkaException, FuturesTimeout):
            result = future.result(max(0.0, deadline - time.monotonic()))
            checked_offset(result)
            found[Partition(tp.topic, tp.partition)] = result
    return found


def refresh_metadata(admin: AdminClient, timeout: float) -> None:
    """Have librdkafka learn leaders and controller before it asks them, waiting `timeout` seconds at most.

    By itself it keeps to the leaders it knows, though they answer that they are older than the last election, and to
    a controller that is down, and takes minutes to hear of a partition that was just added.
    """
    with contextlib.suppress(KafkaException):
        admin.list_topics(timeout=timeout)


def checked_offset(result: ListOffsetsResultInfo) -> int:
    """The offset that a broker gave; -1: it has none for that time. Raises KafkaException if none was given at all.

    librdkafka calls it a success when the leader is away, and gives OFFSET_INVALID.
    """
    if result.offset < NO_OFFSET:
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    return int(result.offset)
