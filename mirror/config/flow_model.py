"""The keys of a flow, in the form of the YAML file: every key, its default, its limits, and what it does.

CONTRIBUTING.md says what else a new key needs. The text below a key is its description, for `mirror schema` and the
reference in docs/.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from mirror.config.value_types import (
    NAME,
    RATE,
    CallablePath,
    Duration,
    Factor,
    NameTemplate,
    Pattern,
    PolicyName,
    Rate,
    Reference,
    RemoteName,
    Section,
    Separator,
    Size,
    StartValue,
    Text,
    TopicName,
    TopicTransform,
    allowed,
    duration_range,
    whole_number,
)
from mirror.naming import EXCLUDED_GROUPS, EXCLUDED_TOPICS


class EndsModel(BaseModel):
    """The keys that distinguish a flow from others."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    source: Reference
    """The cluster to copy from."""
    target: Reference
    """The cluster to copy to. Each pair of source and target may stand in the file once."""
    group: Annotated[
        # librdkafka drops blanks at the beginning, and reads up to a NUL.
        Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[^\s\x00][^\x00]*$")] | None,
        allowed("text of 1 to 249 characters without a blank at its beginning, or null for mirror-<source>-<target>"),
    ] = None
    """The consumer group on the target that holds the flow's positions. A flow with another group has no position and
    begins anew, so set this to the old name before you rename a cluster's alias."""

    @property
    def position_group(self) -> str:
        """The consumer group that holds the position."""
        return self.group or f"mirror-{self.source}-{self.target}"


_GROUP_NAMES = "a list, e.g. [billing], of group names and regular expressions"


class GroupsModel(Section):
    """The consumer groups of the source whose offsets are translated, and what is done with the translated offsets."""

    sync: Annotated[bool, allowed("true or false")] = False
    """Whether the translated offsets of the source's consumer groups are committed on the target, so that the groups
    can continue there. A group with members on the target is left alone, and no offset goes back. Needs
    `exactly_once: true`."""
    checkpoints: Annotated[bool, allowed("true or false")] = True
    """Whether the translated offsets are written to `<source>.checkpoints.internal` on the target, in MirrorMaker's
    format, for `RemoteClusterUtils` of its Java client. Nothing is written with `exactly_once: false`."""
    include: Annotated[list[Pattern], allowed(f"{_GROUP_NAMES}, not empty", min_length=1)] = [".*"]
    """Which groups. A regular expression has to match the whole name."""
    exclude: Annotated[list[Pattern], allowed(f"{_GROUP_NAMES}, or []")] = [*EXCLUDED_GROUPS]
    """Which of these groups are left out."""
    interval: Annotated[Duration, duration_range("1s", "24h")] = 60.0
    """How often the offsets are read and translated, and then committed or written as checkpoints."""


class HeartbeatsModel(Section):
    """MirrorMaker's heartbeats. Its Java client learns from them which cluster is copied to which."""

    enabled: Annotated[bool, allowed("true or false")] = False
    """Whether heartbeats are written to the topic `heartbeats` on the source. The topic is copied to
    `<source>.heartbeats` like any other, whatever `topics`, `exclude` and the policy say. So on the source this needs
    Create, Write, Read and Describe."""
    interval: Annotated[Duration, duration_range("100ms", "1h")] = 1.0
    """How often a heartbeat is written."""


class CanaryModel(Section):
    """Records that mirror writes, copies and reads itself. They show that an idle flow works, and how long it takes."""

    enabled: Annotated[bool, allowed("true or false")] = False
    """Whether mirror writes records to the topic `mirror-canary.<source>.internal` on the source, and reads them on the
    target. On the source this needs Create, Write, Read and Describe. The topic is copied like any other, under the
    same name, whatever `topics`, `exclude` and the policy say."""
    interval: Annotated[Duration, duration_range("1s", "1m")] = 10.0
    """How often such a record is written."""


class MirrorMakerOffsetsModel(Section):
    """The flow's positions in MirrorMaker's form, with which a MirrorMaker goes on that is started after mirror."""

    enabled: Annotated[bool, allowed("true or false")] = False
    """Whether each committed position is also written to Connect's offsets topic on the target, about a second later
    and once more when the service stops. `mirror hand-back` does the same once, and needs no such key."""
    topic: Annotated[
        Annotated[str, Field(min_length=1, max_length=249, pattern=f"^{NAME.pattern}$")] | None,
        allowed("the name of a topic on the target, or null for mm2-offsets.<source>.internal"),
    ] = None
    """Connect's offsets topic on the target. MirrorMaker on a Connect cluster needs the one of that cluster."""
    connector: Annotated[Text, allowed("the name of a connector, not empty")] = "MirrorSourceConnector"
    """The name of MirrorMaker's source connector. It differs only on a Connect cluster."""


class TopicSettingsModel(Section):
    """What is different for one topic of a flow. What is null is as in the flow."""

    remote_topic: Annotated[RemoteName | None, allowed("the name of a topic on the target, or null")] = None
    """The name of the remote topic. Like a template without `{source}`, it does not show where the records come
    from."""
    start: Annotated[StartValue | None, allowed("as the flow's start, or null")] = None
    """Where copying starts, as the flow's `start`, in partitions that exist when the topic comes into the flow. With
    `latest`, a topic that is created later lacks the records from before mirror first sees it."""
    on_data_loss: Annotated[Literal["fail", "skip"] | None, allowed("fail, skip or null")] = None
    """What happens when the source no longer has the records that come next, as the flow's `on_data_loss`."""
    on_poison_record: Annotated[
        Literal["fail", "skip", "dead_letter"] | None, allowed("fail, skip, dead_letter or null")
    ] = None
    """What happens when the target refuses a record, as the flow's `on_poison_record`."""
    throttle: Annotated[Rate | None, allowed(f"{RATE}, or null")] = None
    """The most bytes that are copied per second of all partitions of the topic together. Bytes are counted as for the
    flow's `throttle`, which holds at the same time."""
    transform: Annotated[
        TopicTransform | None,
        allowed("a dotted path, e.g. shop.transforms.masked, none (records are copied as they are), or null"),
    ] = None
    """The transform of the topic's records, as the flow's `transform`; `none` copies them as they are."""


class FlowDefaultsModel(Section):
    """The keys of a flow that `flow_defaults` can give to all flows."""

    topics: Annotated[
        list[Pattern],
        allowed("a list, e.g. [orders], of topic names and regular expressions, not empty", min_length=1),
    ] = [".*"]
    """Which topics of the source are copied. A regular expression has to match the whole name."""
    exclude: Annotated[
        list[Pattern],
        allowed("a list, e.g. [orders], of topic names and regular expressions, or []"),
    ] = [*EXCLUDED_TOPICS]
    """Which of these topics are left out. A name that matches both lists is not copied."""
    replication_policy: Annotated[
        PolicyName,
        allowed("default, identity, or the path of a Python class of your own such as my_package.MyPolicy"),
    ] = "default"
    """How remote topics are named: `default` puts the source's alias before the name (`primary.orders`), `identity`
    keeps the name (`orders`). A class of your own answers MirrorMaker's four questions. Only the service and the
    commands ask it; Spark's executors need no such class."""
    separator: Separator = "."
    """What stands between the source's alias and the topic's name under `replication_policy: default`. MirrorMaker's
    own topics, such as `mm2-offset-syncs_backup_internal`, have it in their names, too, and are never copied."""
    remote_topic: Annotated[
        NameTemplate | None,
        allowed('a template such as "{source}.{topic}" or "eu-{topic}", or null for what replication_policy says'),
    ] = None
    """How remote topics are named, if neither `default` nor `identity` fits: a text with `{topic}` and, as a rule,
    `{source}`, the source's alias. Without `{source}` a name does not show where its records come from, as with
    `identity`. Heartbeats are named as by `default` all the same, and the canary's topic keeps its name."""
    start: StartValue = "earliest"
    """Where copying starts in partitions that exist when the flow first runs. Partitions and topics that come later are
    copied from their earliest record, except topics that have a `start` of their own in `topic_settings`."""
    replication_factor: Factor = -1
    """The number of replicas of each remote topic that mirror creates."""
    internal_replication_factor: Factor = -1
    """The number of replicas of each of mirror's own topics on the target."""
    refresh_topics_interval: Annotated[Duration, duration_range("1s", "24h")] = 10.0
    """How often mirror looks for new topics and partitions on the source."""
    tasks_max: Annotated[
        Annotated[int, Field(ge=1, le=10_000)] | None,
        allowed("a whole number from 1 to 10000, or null for the flow's share of Spark's slots"),
    ] = None
    """The most Spark tasks that copy this flow. Each task takes one core."""
    offset_lag_max: Annotated[int, whole_number(0, 2**31 - 1)] = 100
    """The most records of a partition between two offset syncs. With a smaller value, MirrorMaker's tools translate
    offsets more exactly, and more syncs are written. mirror's own translation does not use the syncs."""
    compression: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"], allowed("none, gzip, snappy, lz4 or zstd")
    ] = "none"
    """How mirror compresses what it copies record by record. With `none`, whole batches keep the compression that they
    have on the source. With any other value mirror copies record by record, because it has to write each batch anew.
    The property `compression.type` of the target has the same effect."""
    data_path: Annotated[Literal["auto", "records"], allowed("auto or records")] = "auto"
    """By which way records are copied. `auto` forwards whole record batches where these can be copied as they are,
    which is several times faster and takes much less CPU; other partitions are copied record by record. Whole batches
    need Kafka 4.0 or newer on the target, with transaction.version 2, and 3.1 or newer on the source. `records` copies
    everything record by record."""
    batch_max_records: Annotated[int, whole_number(1, 10_000_000)] = 20_000
    """The most records in one transaction, record by record. In whole batches it has no effect."""
    batch_max_bytes: Size = 16 * 2**20
    """The most bytes in one transaction. Record by record these are the bytes of keys, values and headers, and each
    header counts 150 bytes more, because that is what it takes in memory. In whole batches they are the bytes of the
    batches: at most 4 MiB, or one batch that is larger."""
    transaction_linger_max: Annotated[Duration, duration_range("0s", "10s")] = 0.005
    """How long a busy partition waits at most before it begins its next transaction. A longer wait makes fewer and
    larger transactions, and adds to the latency."""
    transaction_timeout: Annotated[Duration, duration_range("1s", "15m")] = 60.0
    """How long one transaction may take. The target's broker aborts it after that, and mirror copies its records
    again."""
    throttle: Annotated[Rate | None, allowed(f"{RATE}, or null for no limit")] = None
    """The most bytes of keys, values and headers that are copied per second, of all partitions of the flow together.
    In whole batches (`data_path: auto`), the bytes of the batches count, compressed or not."""
    transaction_threads: Annotated[int, whole_number(1, 128)] = 8
    """How many transactions one Spark task works on at once, record by record. In whole batches each partition has its
    own, and this has no effect."""
    producers_max: Annotated[int, whole_number(1, 10_000)] = 256
    """How many producers one Spark task keeps open at once, record by record. Each partition that has records needs
    one. In whole batches partitions share connections, and this has no effect."""
    producer_idle_timeout: Annotated[Duration, duration_range("1s", "24h")] = 300.0
    """How long a partition without new records keeps its producer open, record by record. In whole batches it has none,
    and this has no effect."""
    open_transaction_warn_after: Annotated[Duration, duration_range("1s", "24h")] = 300.0
    """When to warn of a transaction that stays open on the source. Until it ends, it holds back all records after it
    in its partitions."""
    exactly_once: Annotated[bool, allowed("true or false")] = True
    """Whether records are copied in transactions. Without them nothing is lost, but a crash can copy one batch of each
    partition twice. Stop the service before you change this."""
    append_to_existing: Annotated[bool, allowed("true or false")] = False
    """Whether to copy into remote partitions that have records but no position of this flow; records may then be there
    twice. If false, such a partition stops until `mirror resume` decides."""
    active_active: Annotated[bool, allowed("true or false")] = False
    """Whether both clusters write to the same topics, which needs `replication_policy: identity`. Copies then get the
    header `mirror.provenance`, and records that have been on the target before are left out. Every flow of a cycle
    needs it. Stop all of them before you change this."""
    accept_log_append_time: Annotated[bool, allowed("true or false")] = False
    """Whether to copy into topics with `message.timestamp.type=LogAppendTime`, which replace each record's timestamp
    by the target's time. If false, the partitions of such a topic are not copied until the topic is altered."""
    on_data_loss: Annotated[Literal["fail", "skip"], allowed("fail or skip")] = "fail"
    """What happens when the source no longer has the records that come next, or the remote topic was deleted. `fail`
    stops the partition and says which offsets are lost; `skip` logs and counts the loss and goes on."""
    on_poison_record: Annotated[Literal["fail", "skip", "dead_letter"], allowed("fail, skip or dead_letter")] = "fail"
    """What happens when the target refuses a record, or the transform fails for it. `fail` stops the partition before
    the record; `skip` goes on after it; `dead_letter` also writes it to `mirror-dead-letters.<source>.internal`, with
    the reason and its origin."""
    transform: Annotated[
        CallablePath | None,
        allowed("the dotted path of a callable in a Python module, e.g. shop.transforms.masked, or null"),
    ] = None
    """A callable of your own that drops or changes records: it gets a `mirror.transform.Record`, and returns one, or
    None to drop the record. `on_poison_record` decides about a record for which it fails."""
    sync_topic_configs: Annotated[bool, allowed("true or false")] = True
    """Whether remote topics follow later changes of their source topics' configurations. A key that the source topic
    does not set is removed from the remote topic: list your own keys in `exclude_configs`. If false, a configuration is
    copied only when the remote topic is created."""
    sync_topic_configs_interval: Annotated[Duration, duration_range("1s", "24h")] = 600.0
    """How often the configurations are compared."""
    exclude_configs: Annotated[
        list[Pattern], allowed("a list, e.g. [retention.ms], of keys and regular expressions, or []")
    ] = []
    """Which keys of topic configurations are left alone, besides those that are never copied. A regular expression has
    to match the whole key."""
    use_defaults_from: Annotated[Literal["target", "source"], allowed("target or source")] = "target"
    """Whose default holds for a key that the source topic does not set. With `source`, the remote topic gets the value
    that holds on the source, from its creation on."""
    sync_acls: Annotated[bool, allowed("true or false")] = False
    """Whether remote topics get the ACLs of their source topics, but no access for writing. Nothing is ever taken away.
    It needs Describe on the source's cluster, and Describe and Alter on the target's."""
    sync_acls_interval: Annotated[Duration, duration_range("1s", "24h")] = 600.0
    """How often the ACLs are compared."""
    topic_settings: Annotated[
        dict[
            TopicName,
            Annotated[TopicSettingsModel, allowed("a mapping, e.g. {start: latest}")],
        ],
        allowed('a mapping of topics to their settings, e.g. {orders: {remote_topic: "eu-orders"}}, or {}'),
    ] = {}
    """What is different for single topics, by the topic's name on the source. `topics` has to match the name, too."""
    groups: Annotated[GroupsModel, allowed("a mapping, e.g. {sync: true}")] = GroupsModel()
    """The consumer groups of the source whose offsets are translated, and what is done with the translated offsets."""
    heartbeats: Annotated[HeartbeatsModel, allowed("a mapping, e.g. {enabled: true}")] = HeartbeatsModel()
    """MirrorMaker's heartbeats. Its Java client learns from them which cluster is copied to which."""
    canary: Annotated[CanaryModel, allowed("a mapping, e.g. {enabled: true}")] = CanaryModel()
    """Records that mirror writes, copies and reads itself. They show that an idle flow works, and how long it takes."""
    mirrormaker_offsets: Annotated[MirrorMakerOffsetsModel, allowed("a mapping, e.g. {enabled: true}")] = (
        MirrorMakerOffsetsModel()
    )
    """The flow's positions in MirrorMaker's form, with which a MirrorMaker goes on that is started after mirror."""


class FlowModel(FlowDefaultsModel, EndsModel):
    """One direction of replication."""
