"""The YAML form: every key, its default, its limits, and what it does.

CONTRIBUTING.md says what else a new key needs. The text below a key is its description, for `mirror schema` and the
reference in docs/. What `_allowed` says completes "must be ..." in error messages and in both of these. Scalars come as
text (see `yaml_marks`).
"""

from __future__ import annotations

import keyword
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from mirror import own_policy, user_code
from mirror.naming import MIRRORMAKERS, NAME_MAX
from mirror.settings import NO_TRANSFORM, TOKEN_PROVIDER
from mirror.template import Template

_SECONDS = {"": 1, "ms": 0.001, "s": 1, "m": 60, "h": 3600}
_BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_AMOUNT = r"\d{1,15}(?:\.\d{1,9})?"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# host, host:port or [IPv6]:port, with or without a listener's name, as librdkafka takes them.
SERVER = re.compile(r"(?:\w+://)?(?P<host>\[[0-9a-fA-F:.%\w]+\]|[\w.-]+)(?::(?P<port>\d{1,5}))?")

EXPLAINED = "explained"  # the type of errors whose own text is shown

FLOWS_MAX = 1_000  # limited, since each flow is compared with every other one

NAME = re.compile(r"[a-zA-Z0-9._-]+")  # the characters of a topic's name

ALLOWED = "allowed"  # the keyword of our JSON schema that completes "must be ..."


def _explained(text: str, **context: Any) -> PydanticCustomError:
    """An error whose own text is shown. For a ValueError "must be" and the key's description are shown instead."""
    return PydanticCustomError(EXPLAINED, text, context)


def seconds(value: Any) -> float:
    """A duration such as 10, "500ms", "10s", "5m" or "1h". Raises ValueError."""
    return _with_unit(value, _SECONDS)


def size(value: Any) -> int:
    """Bytes: 1024, "64KiB", "16MiB", "10MB". Raises ValueError."""
    return int(_with_unit(value, _BYTES))


def _with_unit(value: Any, units: dict[str, float] | dict[str, int]) -> float:
    match = re.fullmatch(rf"({_AMOUNT}) ?([a-zA-Z]*)", str(value), re.ASCII)
    if not match or match[2] not in units:
        raise ValueError(value)
    return round(float(match[1]) * units[match[2]], 9)


def start(value: Any) -> str | int:
    """Parse where a flow starts: earliest, latest, milliseconds since the epoch, or an ISO time with its zone.

    Raises ValueError.
    """
    text = str(value)
    if text in ("earliest", "latest"):
        return text
    if re.fullmatch(r"\d{1,15}", text, re.ASCII):
        return int(text)
    moment = datetime.fromisoformat(text.upper())  # RFC 3339 allows a small "z", Python does not
    if moment.tzinfo is None:
        raise _explained('"{value}" has no time zone; write e.g. 2025-01-31T12:00:00Z or ...+01:00', value=text)
    milliseconds = (moment - _EPOCH) // timedelta(milliseconds=1)
    if milliseconds < 0:
        raise ValueError(value)
    return milliseconds


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        hint = '; for any characters write ".*"' if value.startswith("*") else ""
        said = 'bad regular expression "{value}": {reason}{hint}'
        raise _explained(said, value=value, reason=str(error), hint=hint) from None
    return value


def _template(value: str) -> str:
    try:
        Template.parse(value)
    except ValueError as error:
        raise _explained('bad template "{value}": {reason}', value=f"{value:.60}", reason=str(error)) from None
    return value


def _endpoint(value: str) -> str:
    url = urlsplit(value)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError(value)
    if url.username is not None or url.query or url.fragment:
        raise _explained("a URL must hold no user, password, query or fragment; use headers")
    return value


def _header(value: str) -> str:
    """A part of an HTTP header. What a library would refuse is refused here, where it is not shown."""
    if value != value.strip() or not value.isprintable() or not value.isascii():
        raise _explained("must be printable ASCII text without blanks around it")
    return value


def _policy(value: str) -> str:
    if value in MIRRORMAKERS:
        return value
    if not user_code.PATH.fullmatch(value):
        raise ValueError(value)
    try:
        own_policy.load(value)
    except ValueError as error:
        raise _explained("{value} can't be used: {reason}", value=f"{value:.100}", reason=f"{error!s:.300}") from None
    return value


def _path(value: str) -> str:
    if not user_code.PATH.fullmatch(value) or any(map(keyword.iskeyword, value.split("."))):
        raise ValueError(value)
    return value


def _alias(value: str) -> str:
    if not NAME.fullmatch(value):
        raise _explained("a cluster's alias must be made of letters, digits, '.', '_' and '-' only")
    return value


def _defined(value: str, info: ValidationInfo) -> str:
    aliases = (info.context or {}).get("aliases", [value])
    if value not in aliases:
        raise _explained('undefined cluster "{value}"; defined: {known}', value=value, known=", ".join(aliases))
    return value


def _servers(value: str) -> str:
    for server in value.split(","):
        match = SERVER.fullmatch(server.strip())
        if not match or int(match["port"] or 1) not in range(1, 65536):
            raise ValueError(server)
    return value


def _allowed(words: str, **limits: Any) -> Any:
    return Field(json_schema_extra={ALLOWED: words}, **limits)


def _whole(low: int, high: int, also: str = "") -> Any:
    return _allowed(f"a whole number from {low} to {high}{also}", ge=low, le=high)


def _amount(units: dict[str, float] | dict[str, int], number: str) -> WithJsonSchema:
    """The JSON schema of an amount with one of `units`."""
    pattern = f"^{_AMOUNT} ?({'|'.join(units)})$"
    return WithJsonSchema({"type": [number, "string"], "pattern": pattern})


def _duration(low: str, high: str) -> Any:
    words = f"a duration from {low} to {high}, such as 500ms, 10s, 5m or 1h (a bare number is seconds)"
    return _allowed(words, ge=seconds(low), le=seconds(high))


def _factor(value: int) -> int:
    if value != -1 and not 1 <= value <= 32767:
        raise ValueError(value)
    return value


Duration = Annotated[float, BeforeValidator(seconds), _amount(_SECONDS, "number")]
Size = Annotated[
    int,
    BeforeValidator(size),
    _amount(_BYTES, "integer"),
    _allowed("a size from 1 to 1GiB, such as 64KiB, 16MiB or 10MB (a bare number is bytes)", ge=1, le=2**30),
]
_RATE = "a size per second from 1KB to 100GB, such as 500KB, 10MB or 64MiB (a bare number is bytes)"
Rate = Annotated[int, BeforeValidator(size), _amount(_BYTES, "integer"), Field(ge=1_000, le=10**11)]
StartValue = Annotated[
    Literal["earliest", "latest"] | int,
    BeforeValidator(start),
    WithJsonSchema({"type": ["string", "integer"], "pattern": r"^(earliest|latest|\d{1,15}|\d{4}-\d\d-\d\d.*)$"}),
    _allowed(
        "earliest, latest, a time from 1970 on with its zone such as 2025-01-31T12:00:00Z, or milliseconds since 1970"
    ),
]
Factor = Annotated[
    int,
    AfterValidator(_factor),
    WithJsonSchema({"type": "integer", "minimum": -1, "maximum": 32767, "not": {"const": 0}}),
    _allowed("-1 (the target broker's default) or a whole number from 1 to 32767"),
]
_SINGLE = "a single value: text, a number, true or false"
Property = Annotated[str, WithJsonSchema({"type": ["string", "number", "boolean"], ALLOWED: _SINGLE})]
Properties = Annotated[dict[str, Property], _allowed("a mapping, e.g. {fetch.min.bytes: 1}, or {}")]
Text = Annotated[str, _allowed("text, not empty", min_length=1)]
Alias = Annotated[Text, Field(max_length=100), AfterValidator(_alias)]
Reference = Annotated[Text, AfterValidator(_defined), _allowed("the alias of a cluster under clusters")]
Pattern = Annotated[
    Text,
    AfterValidator(_pattern),
    _allowed("a topic's name, or a regular expression that matches the whole name"),
]
Separator = Annotated[str, _allowed("letters, digits, '.', '_' and '-' only", pattern=f"^{NAME.pattern}$")]


class _Model(BaseModel):
    # The schema shows people the names of the settings.
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
        model_title_generator=lambda model: model.__name__.removesuffix("Model"),
    )


class ClusterModel(_Model):
    """How to reach one cluster. Every other key is a librdkafka property of all its clients."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Property]

    bootstrap_servers: Annotated[
        str,
        AfterValidator(_servers),
        _allowed("a comma-separated list of host:port, e.g. localhost:9092", alias="bootstrap.servers"),
    ]
    """Addresses of some of the cluster's brokers. Clients learn the other brokers from these."""
    consumer: Properties = {}
    """librdkafka properties for the consumers of this cluster only, where it is a flow's source. They win over the
    cluster's other properties."""
    producer: Properties = {}
    """librdkafka properties for the producers of this cluster only, where it is a flow's target. They win over the
    cluster's other properties."""
    token_provider: Annotated[
        Annotated[str, AfterValidator(_path)] | None,
        _allowed("the dotted path of a callable in a Python module, e.g. shop.tokens.token, or null"),
    ] = None
    """A callable of your own that gives the tokens for `sasl.mechanisms: OAUTHBEARER`. It gets
    `sasl.oauthbearer.config`, and returns the token and when it expires, in seconds since 1970."""

    @property
    def properties(self) -> dict[str, str]:
        """The properties of every client of the cluster, and `token_provider` if it is set."""
        provider = {} if self.token_provider is None else {TOKEN_PROVIDER: self.token_provider}
        return {"bootstrap.servers": self.bootstrap_servers, **provider, **self.__pydantic_extra__}


class EndsModel(BaseModel):
    """The keys that distinguish a flow from others."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    source: Reference
    """The cluster to copy from."""
    target: Reference
    """The cluster to copy to. Each pair of source and target may stand in the file once."""
    group: Annotated[
        Annotated[str, Field(min_length=1, max_length=249)] | None,
        _allowed("text of 1 to 249 characters, or null for mirror-<source>-<target>"),
    ] = None
    """The consumer group on the target that holds the flow's positions. A flow with another group has no position and
    begins anew, so set this to the old name before you rename a cluster's alias."""

    @property
    def position_group(self) -> str:
        """The consumer group that holds the position."""
        return self.group or f"mirror-{self.source}-{self.target}"


_GROUP_NAMES = "a list, e.g. [billing], of group names and regular expressions"


class GroupsModel(_Model):
    """The consumer groups of the source whose offsets are translated, and what is done with the translated offsets."""

    sync: Annotated[bool, _allowed("true or false")] = False
    """Whether the translated offsets of the source's consumer groups are committed on the target, so that the groups
    can continue there. A group with members on the target is left alone, and no offset goes back. Needs
    `exactly_once: true`."""
    checkpoints: Annotated[bool, _allowed("true or false")] = True
    """Whether the translated offsets are written to `<source>.checkpoints.internal` on the target, in MirrorMaker's
    format, for `RemoteClusterUtils` of its Java client. Nothing is written with `exactly_once: false`."""
    include: Annotated[list[Pattern], _allowed(f"{_GROUP_NAMES}, not empty", min_length=1)] = [".*"]
    """Which groups. A regular expression has to match the whole name."""
    exclude: Annotated[list[Pattern], _allowed(f"{_GROUP_NAMES}, or []")] = [
        "console-consumer-.*",
        "connect-.*",
        "__.*",
    ]
    """Which of these groups are left out."""
    interval: Annotated[Duration, _duration("1s", "24h")] = 60.0
    """How often the offsets are read and translated, and then committed or written as checkpoints."""


class HeartbeatsModel(_Model):
    """MirrorMaker's heartbeats. Its Java client learns from them which cluster is copied to which."""

    enabled: Annotated[bool, _allowed("true or false")] = False
    """Whether heartbeats are written to the topic `heartbeats` on the source, which needs Create and Write there. The
    topic is copied to `<source>.heartbeats` like any other, whatever `topics`, `exclude` and the policy say."""
    interval: Annotated[Duration, _duration("100ms", "1h")] = 1.0
    """How often a heartbeat is written."""


class CanaryModel(_Model):
    """Records that mirror writes, copies and reads itself. They show that an idle flow works, and how long it takes."""

    enabled: Annotated[bool, _allowed("true or false")] = False
    """Whether mirror writes records to the topic `mirror-canary.<source>.internal` on the source, and reads them on the
    target. On the source this needs Create, Write, Read and Describe. The topic is copied like any other, under the
    same name, whatever `topics`, `exclude` and the policy say."""
    interval: Annotated[Duration, _duration("1s", "1m")] = 10.0
    """How often such a record is written."""


class MirrorMakerOffsetsModel(_Model):
    """The flow's positions in MirrorMaker's form, with which a MirrorMaker goes on that is started after mirror."""

    enabled: Annotated[bool, _allowed("true or false")] = False
    """Whether each committed position is also written to Connect's offsets topic on the target, about a second later
    and once more when the service stops. `mirror hand-back` does the same once, and needs no such key."""
    topic: Annotated[
        Annotated[str, Field(min_length=1, max_length=249, pattern=f"^{NAME.pattern}$")] | None,
        _allowed("the name of a topic on the target, or null for mm2-offsets.<source>.internal"),
    ] = None
    """Connect's offsets topic on the target. MirrorMaker on a Connect cluster needs the one of that cluster."""
    connector: Annotated[Text, _allowed("the name of a connector, not empty")] = "MirrorSourceConnector"
    """The name of MirrorMaker's source connector. It differs only on a Connect cluster."""


def _topic(value: str) -> str:
    if not NAME.fullmatch(value) or len(value) > NAME_MAX:
        raise _explained(f"a topic's name must have 1 to {NAME_MAX} letters, digits, '.', '_' and '-'")
    return value


def _own_transform(value: str) -> str:
    return value if value == NO_TRANSFORM else _path(value)


class TopicSettingsModel(_Model):
    """What is different for one topic of a flow. What is null is as in the flow."""

    remote_topic: Annotated[
        Annotated[Text, AfterValidator(_topic)] | None, _allowed("the name of a topic on the target, or null")
    ] = None
    """The name of the remote topic. Like a template without `{source}`, it does not show where the records come
    from."""
    start: Annotated[StartValue | None, _allowed("as the flow's start, or null")] = None
    """Where copying starts, as the flow's `start`, in partitions that exist when the topic comes into the flow. With
    `latest`, a topic that is created later lacks the records from before mirror first sees it."""
    on_data_loss: Annotated[Literal["fail", "skip"] | None, _allowed("fail, skip or null")] = None
    """What happens when the source no longer has the records that come next, as the flow's `on_data_loss`."""
    on_poison_record: Annotated[
        Literal["fail", "skip", "dead_letter"] | None, _allowed("fail, skip, dead_letter or null")
    ] = None
    """What happens when the target refuses a record, as the flow's `on_poison_record`."""
    throttle: Annotated[Rate | None, _allowed(f"{_RATE}, or null")] = None
    """The most bytes of keys, values and headers that are copied per second of all partitions of the topic together.
    The flow's `throttle` counts, too."""
    transform: Annotated[
        Annotated[str, AfterValidator(_own_transform)] | None,
        _allowed("a dotted path, e.g. shop.transforms.masked, none (records are copied as they are), or null"),
    ] = None
    """The transform of the topic's records, as the flow's `transform`; `none` copies them as they are."""


class FlowDefaultsModel(_Model):
    """The keys of a flow that `flow_defaults` can give to all flows."""

    topics: Annotated[
        list[Pattern],
        _allowed("a list, e.g. [orders], of topic names and regular expressions, not empty", min_length=1),
    ] = [".*"]
    """Which topics of the source are copied. A regular expression has to match the whole name."""
    exclude: Annotated[
        list[Pattern],
        _allowed("a list, e.g. [orders], of topic names and regular expressions, or []"),
    ] = [r".*[\-\.]internal", r".*\.replica", "__.*"]
    """Which of these topics are left out. A name that matches both lists is not copied."""
    replication_policy: Annotated[
        str,
        AfterValidator(_policy),
        _allowed("default, identity, or the path of a Python class of your own such as my_package.MyPolicy"),
    ] = "default"
    """How remote topics are named: `default` puts the source's alias before the name (`primary.orders`), `identity`
    keeps the name (`orders`). A class of your own answers MirrorMaker's four questions. Only the service and the
    commands ask it; Spark's executors need no such class."""
    separator: Separator = "."
    """What stands between the source's alias and the topic's name under `replication_policy: default`."""
    remote_topic: Annotated[
        Annotated[str, AfterValidator(_template)] | None,
        _allowed('a template such as "{source}.{topic}" or "eu-{topic}", or null for what replication_policy says'),
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
    refresh_topics_interval: Annotated[Duration, _duration("1s", "24h")] = 10.0
    """How often mirror looks for new topics and partitions on the source."""
    tasks_max: Annotated[
        Annotated[int, Field(ge=1, le=10_000)] | None,
        _allowed("a whole number from 1 to 10000, or null for as many as there are cores"),
    ] = None
    """The most Spark tasks that copy this flow. Each task takes one core."""
    offset_lag_max: Annotated[int, _whole(0, 2**31 - 1)] = 100
    """The most records of a partition between two offset syncs. With a smaller value, MirrorMaker's tools translate
    offsets more exactly, and more syncs are written. mirror's own translation does not use the syncs."""
    compression: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"], _allowed("none, gzip, snappy, lz4 or zstd")
    ] = "none"
    """How the target's producers compress batches."""
    data_path: Annotated[Literal["auto", "records"], _allowed("auto or records")] = "records"
    """By which way records are copied. `records` copies record by record, and can copy everything. `auto` forwards
    whole record batches where these can be copied as they are, which takes much less CPU; other partitions are copied
    record by record. It needs Kafka 4.0 or newer on the target, with transaction.version 2, and 3.1 or newer on the
    source. It is new: the fault matrix has not been run with it."""
    batch_max_records: Annotated[int, _whole(1, 10_000_000)] = 20_000
    """The most records in one transaction."""
    batch_max_bytes: Size = 16 * 2**20
    """The most bytes of keys, values and headers in one transaction. Each header counts 150 bytes more, because that
    is what it takes in memory."""
    transaction_linger_max: Annotated[Duration, _duration("0s", "10s")] = 0.005
    """How long a busy partition waits at most before it begins its next transaction. A longer wait makes fewer and
    larger transactions, and adds to the latency."""
    transaction_timeout: Annotated[Duration, _duration("1s", "15m")] = 60.0
    """How long one transaction may take. The target's broker aborts it after that, and mirror copies its records
    again."""
    throttle: Annotated[Rate | None, _allowed(f"{_RATE}, or null for no limit")] = None
    """The most bytes of keys, values and headers that are copied per second, of all partitions of the flow together."""
    transaction_threads: Annotated[int, _whole(1, 128)] = 8
    """How many transactions one Spark task works on at once."""
    producers_max: Annotated[int, _whole(1, 10_000)] = 256
    """How many producers one Spark task keeps open at once. Each partition that has records needs one."""
    producer_idle_timeout: Annotated[Duration, _duration("1s", "24h")] = 300.0
    """How long a partition without new records keeps its producer open."""
    open_transaction_warn_after: Annotated[Duration, _duration("1s", "24h")] = 300.0
    """When to warn of a transaction that stays open on the source. Until it ends, it holds back all records after it
    in its partitions."""
    exactly_once: Annotated[bool, _allowed("true or false")] = True
    """Whether records are copied in transactions. Without them nothing is lost, but a crash can copy one batch of each
    partition twice. Stop the service before you change this."""
    append_to_existing: Annotated[bool, _allowed("true or false")] = False
    """Whether to copy into remote partitions that have records but no position of this flow; records may then be there
    twice. If false, such a partition stops until `mirror resume` decides."""
    active_active: Annotated[bool, _allowed("true or false")] = False
    """Whether both clusters write to the same topics, which needs `replication_policy: identity`. Copies then get the
    header `mirror.provenance`, and records that have been on the target before are left out. Every flow of a cycle
    needs it. Stop all of them before you change this."""
    accept_log_append_time: Annotated[bool, _allowed("true or false")] = False
    """Whether to copy into topics with `message.timestamp.type=LogAppendTime`, which replace each record's timestamp
    by the target's time. If false, the partitions of such a topic are not copied until the topic is altered."""
    on_data_loss: Annotated[Literal["fail", "skip"], _allowed("fail or skip")] = "fail"
    """What happens when the source no longer has the records that come next, or the remote topic was deleted. `fail`
    stops the partition and says which offsets are lost; `skip` logs and counts the loss and goes on."""
    on_poison_record: Annotated[Literal["fail", "skip", "dead_letter"], _allowed("fail, skip or dead_letter")] = "fail"
    """What happens when the target refuses a record, or the transform fails for it. `fail` stops the partition before
    the record; `skip` goes on after it; `dead_letter` also writes it to `mirror-dead-letters.<source>.internal`, with
    the reason and its origin."""
    transform: Annotated[
        Annotated[str, AfterValidator(_path)] | None,
        _allowed("the dotted path of a callable in a Python module, e.g. shop.transforms.masked, or null"),
    ] = None
    """A callable of your own that drops or changes records: it gets a `mirror.transform.Record`, and returns one, or
    None to drop the record. `on_poison_record` decides about a record for which it fails."""
    sync_topic_configs: Annotated[bool, _allowed("true or false")] = True
    """Whether remote topics follow later changes of their source topics' configurations. A key that the source topic
    does not set is removed from the remote topic: list your own keys in `exclude_configs`. If false, a configuration is
    copied only when the remote topic is created."""
    sync_topic_configs_interval: Annotated[Duration, _duration("1s", "24h")] = 600.0
    """How often the configurations are compared."""
    exclude_configs: Annotated[
        list[Pattern], _allowed("a list, e.g. [retention.ms], of keys and regular expressions, or []")
    ] = []
    """Which keys of topic configurations are left alone, besides those that are never copied. A regular expression has
    to match the whole key."""
    use_defaults_from: Annotated[Literal["target", "source"], _allowed("target or source")] = "target"
    """Whose default holds for a key that the source topic does not set. With `source`, the remote topic gets the value
    that holds on the source. It counts with `sync_topic_configs: true`."""
    sync_acls: Annotated[bool, _allowed("true or false")] = False
    """Whether remote topics get the ACLs of their source topics, but no access for writing. Nothing is ever taken away.
    It needs Describe on the source's cluster, and Describe and Alter on the target's."""
    sync_acls_interval: Annotated[Duration, _duration("1s", "24h")] = 600.0
    """How often the ACLs are compared."""
    topic_settings: Annotated[
        dict[
            Annotated[str, AfterValidator(_topic)],
            Annotated[TopicSettingsModel, _allowed("a mapping, e.g. {start: latest}")],
        ],
        _allowed('a mapping of topics to their settings, e.g. {orders: {remote_topic: "eu-orders"}}, or {}'),
    ] = {}
    """What is different for single topics, by the topic's name on the source. `topics` has to match the name, too."""
    groups: Annotated[GroupsModel, _allowed("a mapping, e.g. {sync: true}")] = GroupsModel()
    """The consumer groups of the source whose offsets are translated, and what is done with the translated offsets."""
    heartbeats: Annotated[HeartbeatsModel, _allowed("a mapping, e.g. {enabled: true}")] = HeartbeatsModel()
    """MirrorMaker's heartbeats. Its Java client learns from them which cluster is copied to which."""
    canary: Annotated[CanaryModel, _allowed("a mapping, e.g. {enabled: true}")] = CanaryModel()
    """Records that mirror writes, copies and reads itself. They show that an idle flow works, and how long it takes."""
    mirrormaker_offsets: Annotated[MirrorMakerOffsetsModel, _allowed("a mapping, e.g. {enabled: true}")] = (
        MirrorMakerOffsetsModel()
    )
    """The flow's positions in MirrorMaker's form, with which a MirrorMaker goes on that is started after mirror."""


class FlowModel(FlowDefaultsModel, EndsModel):
    """One direction of replication."""


class SparkModel(_Model):
    """Where Spark runs, and its configuration."""

    master: Annotated[Text, _allowed('a Spark master, e.g. "local[*]" or spark://host:7077')] = "local[*]"
    """Where Spark runs the tasks: in this process, or on a cluster."""
    conf: Annotated[dict[str, Property], _allowed("a mapping, e.g. {spark.executor.cores: 2}, or {}")] = {}
    """Spark properties. Spark on a standalone cluster needs `spark.authenticate.secret`, because its tasks carry the
    clusters' passwords."""


def _user(value: str) -> str:
    if ":" in value or not value.isprintable():
        raise ValueError(value)
    return value


class HttpModel(_Model):
    """Where the service's HTTP server listens, and who may ask it."""

    host: Annotated[Text, _allowed("an address to listen on, e.g. 0.0.0.0 or localhost")] = "0.0.0.0"
    """The address on which the service listens for HTTP."""
    port: Annotated[int, _whole(0, 65535, " (0 picks a free one)")] = 9464
    """The port of the status page, `/status`, `/metrics`, `/livez` and `/readyz`."""
    tls_certificate: Annotated[Text | None, _allowed("the path of a PEM file, or null")] = None
    """The certificate with which the server speaks TLS (HTTPS), and those of its authorities after it. It is read again
    when the file changes."""
    tls_key: Annotated[Text | None, _allowed("the path of a PEM file, or null")] = None
    """The key of `tls_certificate`, without a password."""
    username: Annotated[
        Annotated[Text, AfterValidator(_user)] | None, _allowed("printable text without a colon, or null")
    ] = None
    """The user that everybody has to name (HTTP's basic authentication). `/livez` and `/readyz` answer without it, for
    probes, but then give no reasons."""
    password: Annotated[Text | None, _allowed("text, not empty, or null")] = None
    """The password of that user. With `${file:...}` it is read again when the file changes."""

    @model_validator(mode="after")
    def _whole_pairs(self) -> HttpModel:
        for first, second in (("tls_certificate", "tls_key"), ("username", "password")):
            present, missing = (first, second) if getattr(self, second) is None else (second, first)
            if getattr(self, present) is not None and getattr(self, missing) is None:
                raise _explained("{present} is set, but {missing} is not; set both", present=present, missing=missing)
        return self


class OtlpModel(_Model):
    """Where metrics are pushed to, by OTLP over HTTP. It needs `pip install 'kafka-mirror-spark[otlp]'`."""

    endpoint: Annotated[
        Annotated[str, AfterValidator(_endpoint)] | None, _allowed("a URL, e.g. http://localhost:4318/v1/metrics")
    ] = None
    """The URL to which metrics are pushed. Without it nothing is pushed."""
    interval: Annotated[Duration, _duration("1s", "1h")] = 30.0
    """How often metrics are pushed."""
    headers: Annotated[
        dict[Annotated[str, AfterValidator(_header)], Annotated[Text, AfterValidator(_header)]],
        _allowed("a mapping, e.g. {authorization: '${env:OTLP_TOKEN}'}"),
    ] = {}
    """HTTP headers of each request."""


class MetricsModel(_Model):
    """How detailed /metrics is."""

    labels: Annotated[
        Literal["partition", "topic"], _allowed("partition (a series for each) or topic (for many partitions)")
    ] = "partition"
    """How fine the series of `/metrics` are. With thousands of partitions, `topic` keeps their number small."""
    otlp: Annotated[OtlpModel, _allowed("a mapping, e.g. {endpoint: 'http://localhost:4318/v1/metrics'}")] = OtlpModel()
    """Pushing the same metrics to an OpenTelemetry collector."""


class LogModel(_Model):
    """Which log lines are written, and how."""

    level: Annotated[Literal["debug", "info", "warning", "error"], _allowed("debug, info, warning or error")] = "info"
    """The lowest level of the log lines that are written."""
    format: Annotated[Literal["text", "json"], _allowed("text or json")] = "text"
    """How a log line is written: `text` is `key=value`, `json` is one JSON object in each line."""


class RootModel(_Model):
    """The keys at the top of the file."""

    clusters: Annotated[
        dict[
            Alias,
            Annotated[ClusterModel, _allowed("a mapping of librdkafka properties, e.g. {bootstrap.servers: a:9092}")],
        ],
        _allowed("a mapping from alias to cluster, not empty", min_length=1),
    ]
    """The Kafka clusters, each under an alias that you choose. The alias becomes part of topic names on the target."""
    flows: Annotated[
        list[FlowModel],
        _allowed(
            f"a list of flows, e.g. [{{source: primary, target: backup}}], not empty, {FLOWS_MAX} at most",
            min_length=1,
            max_length=FLOWS_MAX,
        ),
    ]
    """What is copied, and where. Each flow copies from one cluster to one other."""
    flow_defaults: Annotated[
        FlowDefaultsModel, _allowed("a mapping of a flow's keys but source, target and group, e.g. {compression: zstd}")
    ] = FlowDefaultsModel()
    """Keys of flows, but `source`, `target` and `group`. Each flow gets those that it does not set itself; `groups`,
    `heartbeats`, `canary`, `mirrormaker_offsets` and `topic_settings` are merged key by key."""
    spark: SparkModel = SparkModel()
    """Where Spark runs, and its properties."""
    http: HttpModel = HttpModel()
    """Where the service serves its pages."""
    metrics: MetricsModel = MetricsModel()
    """How fine the metrics are."""
    log: LogModel = LogModel()
    """Which log lines are written, and in which form."""
    drain_timeout: Annotated[Duration, _duration("0s", "1h")] = 10.0
    """How long open transactions may take to finish when the service stops. What is open after that is aborted and
    copied again at the next start."""
