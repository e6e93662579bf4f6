"""The settings of a flow: frozen dataclasses, free of pydantic so that Spark tasks can carry them.

mirror.config makes them from YAML and is the only place that knows defaults and limits. Client properties may contain
secrets, so no `repr` here shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Start = Literal["earliest", "latest"] | int  # int: milliseconds since the Unix epoch
TOKEN_PROVIDER = "token_provider"  # the key, among the properties of a cluster
NO_TRANSFORM = "none"  # what a topic has in place of a dotted path if its records are copied as they are


def canary_topic(source: str) -> str:
    """The topic of the canaries of all flows whose source has this alias, on both sides.

    With the name of an internal topic it is copied by the flow itself and by nobody else, so it is part of no cycle.
    """
    return f"mirror-canary.{source}.internal"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Kafka cluster: its alias and the librdkafka properties to connect to it."""

    alias: str
    properties: Mapping[str, str] = field(repr=False)  # for every client; and `token_provider`, if it is set
    consumer: Mapping[str, str] = field(repr=False)  # for source consumers, over `properties`
    producer: Mapping[str, str] = field(repr=False)  # for target producers, over `properties`
    # The file of each of `properties` that is the whole text of one. It is read again: see kafka/credentials.py.
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def rack(self) -> str:
        """The rack of source consumers, who read from the nearest replica then (KIP-392); "" if they have none."""
        return {**self.properties, **self.consumer}.get("client.rack", "")


@dataclass(frozen=True, slots=True)
class Groups:
    """Which consumer groups of the source get their committed offsets on the target, too."""

    sync: bool
    checkpoints: bool  # MirrorMaker's, for its Java client
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    interval: float  # seconds between two rounds

    @property
    def wanted(self) -> bool:
        """True if there is anything to do in a round."""
        return self.sync or self.checkpoints


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """MirrorMaker's heartbeats: records on the source that come to the target as any others do."""

    enabled: bool
    interval: float  # seconds between two of them


@dataclass(frozen=True, slots=True)
class Canary:
    """Records that mirror writes to the source, copies and reads on the target, so that an idle flow is tried, too."""

    enabled: bool
    interval: float  # seconds between two of them


@dataclass(frozen=True, slots=True)
class MirrorMakerOffsets:
    """The positions as MirrorMaker keeps them, so that it can go on after mirror."""

    enabled: bool
    topic: str | None  # Connect's offsets topic on the target; None: that of MirrorMaker in dedicated mode
    connector: str


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What is different for one topic of a flow; None: as in the flow."""

    remote_topic: str | None  # the whole name
    start: Start | None
    on_data_loss: Literal["fail", "skip"] | None
    on_poison_record: Literal["fail", "skip", "dead_letter"] | None
    throttle: int | None  # bytes per second, besides what the flow says; None: no limit of its own
    transform: str | None = None  # "none": records are copied as they are


@dataclass(frozen=True, slots=True)
class Flow:
    """One direction of replication, `source` to `target`. Times are seconds, sizes are bytes."""

    source: Cluster
    target: Cluster
    group: str  # the position's consumer group on the target
    topics: tuple[str, ...]
    exclude: tuple[str, ...]
    replication_policy: str  # default, identity, or the path of a class of the user's own
    separator: str
    remote_topic: str | None  # the template of remote topics' names; None: as the policy says
    start: Start
    replication_factor: int  # of remote topics; -1: the target broker's default
    internal_replication_factor: int  # of mirror's own topics on the target
    refresh_topics_interval: float
    tasks_max: int | None  # most slices; None: as many as the flow's share of Spark's cores
    offset_lag_max: int  # records
    compression: str
    data_path: Literal["auto", "records"]  # auto: whole record batches, where they can be copied as they are
    batch_max_records: int
    batch_max_bytes: int
    transaction_linger_max: float  # a busy partition waits this long at most before its next transaction
    transaction_timeout: float
    throttle: int | None  # bytes per second of all partitions together; None: no limit
    transaction_threads: int  # transactions at once in one task
    producers_max: int  # producers open at once in one task
    producer_idle_timeout: float
    open_transaction_warn_after: float  # warn of a source transaction that holds records back for longer
    exactly_once: bool  # False: at least once, without transactions
    append_to_existing: bool  # copy into remote partitions that have records but no position of this flow
    active_active: bool  # the mark: copies get a header that keeps them from coming back, see decision 0007
    accept_log_append_time: bool  # True if remote topics may replace the timestamps of records by their own clock
    on_data_loss: Literal["fail", "skip"]  # when the source has lost records after the position
    on_poison_record: Literal["fail", "skip", "dead_letter"]  # when the target refuses a record, or the transform fails
    transform: str | None  # dotted path of a callable that drops or changes records; None: they are copied as they are
    sync_topic_configs: bool  # alter remote topics when the configurations of their source topics change
    sync_topic_configs_interval: float  # seconds between two comparisons
    exclude_configs: tuple[str, ...]  # keys of topic configurations that are left alone
    use_defaults_from: Literal["target", "source"]  # for keys that the source topic does not set
    sync_acls: bool  # give remote topics the ACLs of their source topics
    sync_acls_interval: float  # seconds between two rounds
    topic_settings: Mapping[str, TopicSettings]  # by source topic
    groups: Groups
    heartbeats: Heartbeats
    canary: Canary
    mirrormaker_offsets: MirrorMakerOffsets

    @property
    def name(self) -> str:
        """The name that people see: `primary->backup`."""
        return f"{self.source.alias}->{self.target.alias}"

    def of_topic(self, topic: str) -> Flow:
        """The flow as it is for one of its source topics. Lost canaries need no decision: nobody misses them."""
        own, flow = self.topic_settings.get(topic), self
        if topic == self.canary_topic:
            flow = replace(self, on_data_loss="skip")
        if own is None:
            return flow
        return replace(
            flow,
            start=flow.start if own.start is None else own.start,
            on_data_loss=own.on_data_loss or flow.on_data_loss,
            on_poison_record=own.on_poison_record or flow.on_poison_record,
        )

    @property
    def transforms(self) -> tuple[str, ...]:
        """The dotted paths of all transforms that the flow's topics may have."""
        paths = {self.transform, *(own.transform for own in self.topic_settings.values())}
        return tuple(sorted(path for path in paths if path is not None and path != NO_TRANSFORM))

    @property
    def token_providers(self) -> tuple[str, ...]:
        """The dotted paths of both clusters' token providers."""
        paths = {cluster.properties.get(TOKEN_PROVIDER) for cluster in (self.source, self.target)}
        return tuple(sorted(path for path in paths if path is not None))

    @property
    def control_topic(self) -> str:
        """Compacted topic on the target that carries plans, claims, orders and decisions."""
        return f"mirror-control.{self.source.alias}.internal"

    @property
    def status_topic(self) -> str:
        """Compacted topic on the target that carries each partition's report."""
        return f"mirror-status.{self.source.alias}.internal"

    @property
    def dead_letter_topic(self) -> str:
        """Topic on the target for records that it refuses, used if `on_poison_record` is dead_letter."""
        return f"mirror-dead-letters.{self.source.alias}.internal"

    @property
    def offset_syncs_topic(self) -> str:
        """MirrorMaker 2's offset-syncs topic, at `offset-syncs.topic.location=target`."""
        return f"mm2-offset-syncs.{self.source.alias}.internal"

    @property
    def offset_map_topic(self) -> str:
        """Compacted topic on the target with the entries of the offset map; not used with `exactly_once: false`."""
        return f"mirror-offset-map.{self.source.alias}.internal"

    @property
    def checkpoint_topic(self) -> str:
        """Compacted topic on the target with MirrorMaker 2's checkpoints."""
        return f"{self.source.alias}.checkpoints.internal"

    @property
    def connect_offsets_topic(self) -> str:
        """Compacted topic on the target on which Kafka Connect keeps MirrorMaker 2's positions."""
        return self.mirrormaker_offsets.topic or f"mm2-offsets.{self.source.alias}.internal"

    @property
    def canary_topic(self) -> str:
        """Compacted topic on the source with the canaries. Its remote topic has the same name."""
        return canary_topic(self.source.alias)

    @property
    def makes_rounds(self) -> bool:
        """True if the groups' offsets are translated: that needs the offset map."""
        return self.exactly_once and self.groups.wanted

    @property
    def own_topics(self) -> tuple[str, ...]:
        """All of mirror's own topics on the target that the flow needs."""
        policies = {self.on_poison_record, *(each.on_poison_record for each in self.topic_settings.values())}
        dead_letters = (self.dead_letter_topic,) if "dead_letter" in policies else ()
        offset_map = (self.offset_map_topic,) if self.exactly_once else ()
        checkpoints = (self.checkpoint_topic,) if self.makes_rounds and self.groups.checkpoints else ()
        connect_offsets = (self.connect_offsets_topic,) if self.mirrormaker_offsets.enabled else ()
        others = (*offset_map, *checkpoints, *dead_letters, *connect_offsets)
        return (self.control_topic, self.status_topic, self.offset_syncs_topic, *others)
