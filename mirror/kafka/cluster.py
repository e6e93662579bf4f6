"""Admin requests to one cluster, with mirror's own errors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from mirror.errors import ClusterAway
from mirror.kafka import clients
from mirror.kafka.client_errors import connection_reason, is_away
from mirror.kafka.listed_offsets import list_offsets, list_results, refresh_metadata
from mirror.kafka.renewed import Renewed
from mirror.model import Partition
from mirror.settings import Cluster

TIMEOUT = 5.0  # seconds for an answer; less than the drain timeout
# Most topics in one request: a topic's configuration has up to 4 kB, and all of it has to arrive within TIMEOUT.
NAMES = 200
# Most metadata records (topics, partitions, configuration keys) that one request creates: KRaft refuses over 10,000.
RECORDS = 2_000
NO_MEMBERS = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)
ACTIVE = frozenset(ConsumerGroupState) - {*NO_MEMBERS, ConsumerGroupState.UNKNOWN}

T = TypeVar("T")
Refusals = dict[str, KafkaError]  # by topic


@dataclass(frozen=True, slots=True)
class GroupStates:
    """What brokers tell of a cluster's consumer groups: with, and now without members."""

    active: Set[str] = frozenset()  # groups that have members
    lasting: Set[str] = frozenset()  # groups of which Kafka keeps each offset from its commit on, for a time
    emptied: Set[str] = frozenset()  # other groups without members: Kafka keeps their offsets from when they had some
    are_all: bool = True  # False: a broker did not tell its groups

    def may_be_emptied(self, group: str) -> bool:
        """True if the group had members, or if its broker does not say so."""
        return group in self.emptied or not (self.are_all or group in self.active or group in self.lasting)


class ClusterAdmin:
    """Admin requests to one cluster. Every method raises ClusterAway when the cluster does not answer."""

    def __init__(self, cluster: Cluster, on_progress: Callable[[], object] = lambda: None) -> None:
        """Thousands of topics take many requests, and minutes: `on_progress` is called after each of these requests.

        It may raise, so that the next one is not sent.
        """
        self.alias = cluster.alias
        self._on_progress = on_progress
        # A failed request only says "transport failure"; the error callback gets the reason why connections fail.
        self._why: deque[KafkaError] = deque(maxlen=1)
        self._cluster = cluster

    @cached_property
    def _renewed(self) -> Renewed[AdminClient]:
        return Renewed(self._cluster, lambda: self._client(self._cluster))

    @property
    def _admin(self) -> AdminClient:
        return self._renewed.client

    def _client(self, cluster: Cluster) -> AdminClient:
        return clients.admin(cluster, self._on_error)

    def partitions(self) -> dict[str, int]:
        """The number of partitions of every topic."""
        topics = self._ask(lambda: self._admin.list_topics(timeout=TIMEOUT)).topics
        return {name: len(topic.partitions) for name, topic in topics.items() if topic.error is None}

    def topic_ids(self, names: Iterable[str], refused: Refusals | None = None) -> dict[str, str]:
        """Topic ids (KIP-516) by name. Topics that are gone are left out; their errors are added to `refused`."""
        wanted = list(names)
        if not wanted:
            return {}
        refresh_metadata(self._admin, TIMEOUT)
        ids: dict[str, str] = {}
        why = {} if refused is None else refused
        for some in self._parts(wanted):
            futures = self._admin.describe_topics(TopicCollection(some), request_timeout=TIMEOUT)
            ids |= {name: str(topic.topic_id) for name, topic in self._results(futures, why).items()}
        return ids

    def brokers(self) -> list[int]:
        """The ids of the cluster's brokers."""
        return sorted(self._ask(lambda: self._admin.list_topics(timeout=TIMEOUT)).brokers)

    def groups(self) -> list[str]:
        """The consumer groups, classic and those of KIP-848, that we may describe. librdkafka lists no others."""
        return self.listed_groups()[0]

    def listed_groups(self) -> tuple[list[str], bool]:
        """What `groups` gives, and whether all brokers have told theirs: one may be away, or still loading them."""
        found, are_all = self._listed()
        return sorted(each.group_id for each in found), are_all

    def active_groups(self) -> set[str]:
        """The consumer groups that have members; without those that we may not describe, or whose broker is away.

        Brokers before 2.6 tell of no group. But each broker refuses commits to a group with members from others.

        The groups are listed, not described. A description is asked of the group's coordinator. If librdkafka (2.16,
        issue 4605 there) does not find it in time, it first destroys the request, and then fails it: an assertion ends
        the process. And it asks the one that it has found for ever, though another coordinates the group by now. Each
        of its admin requests to a coordinator does both.
        """
        return set(self.group_states().active)

    def group_states(self) -> GroupStates:
        """What `active_groups` gives, and which of the other groups had members (ClassicGroup in Kafka's source).

        Without members, a classic group that had some loses all its offsets `offsets.retention.minutes` after the last
        one left, however often they are committed meanwhile. Groups that never had members, and those of KIP-848, lose
        an offset that long after its commit.
        """
        listed, are_all = self._listed()
        active = {each.group_id for each in listed if each.state in ACTIVE}
        lasting = {
            each.group_id for each in listed if each.is_simple_consumer_group or each.type == ConsumerGroupType.CONSUMER
        }
        return GroupStates(active, lasting, {each.group_id for each in listed} - active - lasting, are_all)

    def _listed(self) -> tuple[list[Any], bool]:
        found = self._answer(self._admin.list_consumer_groups(request_timeout=TIMEOUT))
        if found.errors and not found.valid:
            raise ClusterAway(self.alias, str(found.errors[0]))
        return list(found.valid), not found.errors

    def has_members(self, group: str) -> bool:
        """True if a group of any kind has members, such as that of Connect's workers.

        librdkafka describes consumer groups only, but still has the older request, which knows of no kinds. So this one
        call is deprecated in confluent-kafka (since 2.0.2), and has no successor. A group that we may not describe
        looks as if it did not exist.
        """
        found = self._ask(lambda: self._admin.list_groups(group, TIMEOUT))
        return any(each.id == group and (each.error is not None or each.members) for each in found)

    def broker_config(self, broker: int) -> dict[str, str]:
        """A broker's whole configuration. Raises KafkaException if we may not read it."""
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        (future,) = self._admin.describe_configs([resource], request_timeout=TIMEOUT).values()
        return {name: entry.value for name, entry in self._answer(future).items() if entry.value is not None}

    def ids_now(self, names: Iterable[str]) -> tuple[dict[str, str], Refusals]:
        """The ids of some topics, as any broker knows them, and the errors of the other topics, which may be gone.

        Unlike `topic_ids` it does not refresh the metadata of all topics first, so it may be called each second.
        """
        found: dict[str, str] = {}
        refused: Refusals = {}
        for some in self._parts(names):
            futures = self._admin.describe_topics(TopicCollection(some), request_timeout=TIMEOUT)
            found |= {name: str(topic.topic_id) for name, topic in self._results(futures, refused).items()}
        return found, refused

    def topic_configs(self, names: Iterable[str], own: bool = True) -> tuple[dict[str, dict[str, str]], Refusals]:
        """The configuration of each topic, and the errors of topics whose configuration we may not read.

        With `own`, it has only the keys that were set on the topic itself. Secrets are left out.
        """
        described, refused = self._described_topics(names)
        itself = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        configs = {
            name: {
                e.name: e.value
                for e in entries.values()
                if e.value is not None and not e.is_sensitive and (e.source == itself or not own)
            }
            for name, entries in described.items()
        }
        return configs, refused

    def _described_topics(self, names: Iterable[str]) -> tuple[dict[str, Any], Refusals]:
        """The ConfigEntry of each key of each topic, and the errors of topics whose configuration is not given."""
        described: dict[str, Any] = {}
        refused: Refusals = {}
        for some in self._parts(names):
            resources = [ConfigResource(ResourceType.TOPIC, name) for name in some]
            futures = self._admin.describe_configs(resources, request_timeout=TIMEOUT)
            described |= self._results({resource.name: future for resource, future in futures.items()}, refused)
        return described, refused

    def offsets(self, asked: Mapping[Partition, OffsetSpec], stable: bool = True) -> dict[Partition, int]:
        """The offsets that `list_offsets` finds. Raises ClusterAway if it finds none at all."""
        found = list_offsets(self._admin, asked, stable)
        if asked and not found:
            self.partitions()  # raises ClusterAway with the reason
        return found

    def end(self, partition: Partition) -> tuple[int, int] | None:
        """The high watermark and the leader epoch that the leader reports; None if it reports none now.

        The answer may come from a broker that does not know yet that it was deposed. The epoch is -1 if the brokers do
        not report it. Raises ClusterAway.
        """
        found = list_results(self._admin, {partition: OffsetSpec.latest()}, stable=False).get(partition)
        if found is None:
            self.partitions()  # raises ClusterAway with the reason
            return None
        return int(found.offset), -1 if found.leader_epoch is None else int(found.leader_epoch)

    def create_topics(self, topics: Iterable[NewTopic]) -> Refusals:
        """Create topics that do not exist yet. Returns the topics that the cluster refuses, with the errors."""
        refused: Refusals = {}
        for some in self._parts(topics, RECORDS, lambda topic: 1 + topic.num_partitions + len(topic.config or ())):
            self._results(self._admin.create_topics(some, request_timeout=TIMEOUT), refused)
        return {n: error for n, error in refused.items() if error.code() != KafkaError.TOPIC_ALREADY_EXISTS}

    def create_partitions(self, topics: Iterable[NewPartitions]) -> Refusals:
        """Add partitions. Returns the topics that the cluster refuses, with the errors."""
        refused: Refusals = {}
        # How many of the partitions exist is not known here, so a request may create fewer records than RECORDS.
        for some in self._parts(topics, RECORDS, lambda topic: topic.new_total_count):
            self._results(self._admin.create_partitions(some, request_timeout=TIMEOUT), refused)
        return refused

    def _parts(
        self, items: Iterable[T], most: int = NAMES, size: Callable[[T], int] = lambda _: 1
    ) -> Iterator[list[T]]:
        """The items of each request."""
        for some in chunks(items, most, size):
            yield some
            self._on_progress()

    def _results(self, futures: Mapping[str, Any], refused: Refusals) -> dict[str, Any]:
        results = {}
        for name, future in futures.items():
            try:
                results[name] = self._answer(future)
            except KafkaException as error:
                refused[name] = error.args[0]
        return results

    def _answer(self, future: Any) -> Any:
        """The result of a request. The time limit is ours: librdkafka can forget a request when a broker goes away."""
        try:
            return self._ask(lambda: future.result(2 * TIMEOUT))
        except TimeoutError:
            self._renewed.note(True)
            raise ClusterAway(self.alias, "no answer in time") from None

    def _ask(self, what: Callable[[], T]) -> T:
        try:
            answer = what()
        except KafkaException as error:
            away = is_away(error.args[0])
            self._renewed.note(away)
            if not away:
                raise
            self._admin.poll(0)
            reason = self._why[-1] if self._why else error.args[0]
            raise ClusterAway(self.alias, connection_reason(self._cluster, reason)) from error
        self._renewed.note(False)
        return answer

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._why.append(error)


def chunks(items: Iterable[T], most: int, size: Callable[[T], int] = lambda _: 1) -> Iterator[list[T]]:
    """Split the items into lists whose sizes add up to `most` at most. A larger item gets a list of its own."""
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
