"""The model of the configuration file: every key with its default, its limits, and a description of what is allowed.

A description completes "must be ..." in error messages, and is part of the JSON schema. Scalars come as text: see
located_yaml.py.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

_SECONDS = {"": 1, "ms": 0.001, "s": 1, "m": 60, "h": 3600}
_BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_AMOUNT = r"\d{1,15}(?:\.\d{1,9})?"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

# host, host:port or [IPv6]:port, with or without a listener's name, as librdkafka takes them.
SERVER = re.compile(r"(?:\w+://)?(?P<host>\[[0-9a-fA-F:.%\w]+\]|[\w.-]+)(?::(?P<port>\d{1,5}))?")

EXPLAINED = "explained"  # the type of errors whose own text is shown

FLOWS_MAX = 1_000  # limited, since each flow is compared with every other one

NAME = re.compile(r"[a-zA-Z0-9._-]+")  # the characters of a topic's name


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
    moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))  # Python 3.10 does not parse Z
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
        raise _explained('bad regular expression "{value}": {reason}', value=value, reason=str(error)) from None
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


def _whole(low: int, high: int, also: str = "") -> Any:
    return Field(ge=low, le=high, description=f"a whole number from {low} to {high}{also}")


def _amount(units: dict[str, float] | dict[str, int], number: str) -> WithJsonSchema:
    """The JSON schema of an amount with one of `units`."""
    pattern = f"^{_AMOUNT} ?({'|'.join(units)})$"
    return WithJsonSchema({"type": [number, "string"], "pattern": pattern})


def _duration(low: str, high: str) -> Any:
    words = f"a duration from {low} to {high}, such as 500ms, 10s, 5m or 1h (a bare number is seconds)"
    return Field(ge=seconds(low), le=seconds(high), description=words)


def _factor(value: int) -> int:
    if value != -1 and not 1 <= value <= 32767:
        raise ValueError(value)
    return value


Duration = Annotated[float, BeforeValidator(seconds), _amount(_SECONDS, "number")]
Size = Annotated[
    int,
    BeforeValidator(size),
    _amount(_BYTES, "integer"),
    Field(ge=1, le=2**30, description="a size from 1 to 1GiB, such as 64KiB, 16MiB or 10MB (a bare number is bytes)"),
]
Start = Annotated[
    Literal["earliest", "latest"] | int,
    BeforeValidator(start),
    WithJsonSchema({"type": ["string", "integer"], "pattern": r"^(earliest|latest|\d{1,15}|\d{4}-\d\d-\d\d.*)$"}),
    Field(
        description="earliest, latest, a time from 1970 on with its zone such as 2025-01-31T12:00:00Z, "
        "or milliseconds since 1970"
    ),
]
Factor = Annotated[
    int,
    AfterValidator(_factor),
    WithJsonSchema({"type": "integer", "minimum": -1, "maximum": 32767, "not": {"const": 0}}),
    Field(description="-1 (the target broker's default) or a whole number from 1 to 32767"),
]
_SINGLE = "a single value: text, a number, true or false"
Property = Annotated[str, WithJsonSchema({"type": ["string", "number", "boolean"], "description": _SINGLE})]
Properties = Annotated[dict[str, Property], Field(description="a mapping, e.g. {fetch.min.bytes: 1}, or {}")]
Text = Annotated[str, Field(min_length=1, description="text, not empty")]
Alias = Annotated[Text, Field(max_length=100), AfterValidator(_alias)]
Reference = Annotated[Text, AfterValidator(_defined), Field(description="the alias of a cluster under clusters")]
Pattern = Annotated[
    Text,
    AfterValidator(_pattern),
    Field(description="a topic's name, or a regular expression that matches the whole name"),
]
Separator = Annotated[str, Field(pattern=f"^{NAME.pattern}$", description="letters, digits, '.', '_' and '-' only")]


class _Model(BaseModel):
    # The schema shows people the names of the settings.
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        model_title_generator=lambda model: model.__name__.removesuffix("Model"),
    )


class ClusterModel(_Model):
    """How to reach one cluster. Every other key is a property of librdkafka, too."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Property]

    bootstrap_servers: Annotated[
        str,
        AfterValidator(_servers),
        Field(alias="bootstrap.servers", description="a comma-separated list of host:port, e.g. localhost:9092"),
    ]
    consumer: Properties = {}
    producer: Properties = {}

    @property
    def properties(self) -> dict[str, str]:
        """The properties of every client of the cluster."""
        return {"bootstrap.servers": self.bootstrap_servers, **self.__pydantic_extra__}


class EndsModel(BaseModel):
    """The keys that distinguish a flow from others."""

    source: Reference
    target: Reference
    group: Annotated[
        Annotated[str, Field(min_length=1, max_length=249)] | None,
        Field(description="text of 1 to 249 characters, or null for mirror-<source>-<target>"),
    ] = None

    @property
    def position_group(self) -> str:
        """The consumer group that holds the position."""
        return self.group or f"mirror-{self.source}-{self.target}"


class FlowModel(_Model, EndsModel):
    """One direction of replication."""

    topics: Annotated[
        list[Pattern],
        Field(min_length=1, description="a list, e.g. [orders], of topic names and regular expressions, not empty"),
    ] = [".*"]
    exclude: Annotated[
        list[Pattern],
        Field(description="a list, e.g. [orders], of topic names and regular expressions, or []"),
    ] = [r".*[\-\.]internal", r".*\.replica", "__.*"]
    replication_policy: Annotated[Literal["default", "identity"], Field(description="default or identity")] = "default"
    separator: Separator = "."
    start: Start = "earliest"
    replication_factor: Factor = -1
    internal_replication_factor: Factor = -1
    refresh_topics_interval: Annotated[Duration, _duration("1s", "24h")] = 10.0
    tasks_max: Annotated[
        Annotated[int, Field(ge=1, le=10_000)] | None,
        Field(description="a whole number from 1 to 10000, or null for as many as there are cores"),
    ] = None
    offset_lag_max: Annotated[int, _whole(0, 2**31 - 1)] = 100
    compression: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"], Field(description="none, gzip, snappy, lz4 or zstd")
    ] = "none"
    batch_max_records: Annotated[int, _whole(1, 10_000_000)] = 20_000
    batch_max_bytes: Size = 16 * 2**20
    transaction_linger_max: Annotated[Duration, _duration("0s", "10s")] = 0.005
    transaction_timeout: Annotated[Duration, _duration("1s", "15m")] = 60.0
    transaction_threads: Annotated[int, _whole(1, 128)] = 8
    producers_max: Annotated[int, _whole(1, 10_000)] = 256
    producer_idle_timeout: Annotated[Duration, _duration("1s", "24h")] = 300.0
    open_transaction_warn_after: Annotated[Duration, _duration("1s", "24h")] = 300.0
    exactly_once: Annotated[bool, Field(description="true or false")] = True
    append_to_existing: Annotated[bool, Field(description="true or false")] = False
    accept_log_append_time: Annotated[bool, Field(description="true or false")] = False
    on_data_loss: Annotated[Literal["fail", "skip"], Field(description="fail or skip")] = "fail"
    on_poison_record: Annotated[
        Literal["fail", "skip", "dead_letter"], Field(description="fail, skip or dead_letter")
    ] = "fail"


class SparkModel(_Model):
    """Where Spark runs, and its configuration."""

    master: Annotated[Text, Field(description='a Spark master, e.g. "local[*]" or spark://host:7077')] = "local[*]"
    conf: Annotated[dict[str, Property], Field(description="a mapping, e.g. {spark.executor.cores: 2}, or {}")] = {}


class HttpModel(_Model):
    """Where the service's HTTP server listens."""

    host: Annotated[Text, Field(description="an address to listen on, e.g. 0.0.0.0 or localhost")] = "0.0.0.0"
    port: Annotated[int, _whole(0, 65535, " (0 picks a free one)")] = 9464


class MetricsModel(_Model):
    """How detailed /metrics is."""

    labels: Annotated[
        Literal["partition", "topic"], Field(description="partition (a series for each) or topic (for many partitions)")
    ] = "partition"


class LogModel(_Model):
    """Which log lines are written, and how."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], Field(description="debug, info, warning or error")
    ] = "info"
    format: Annotated[Literal["text", "json"], Field(description="text or json")] = "text"


class RootModel(_Model):
    """A whole file."""

    clusters: Annotated[
        dict[
            Alias,
            Annotated[
                ClusterModel, Field(description="a mapping of librdkafka properties, e.g. {bootstrap.servers: a:9092}")
            ],
        ],
        Field(min_length=1, description="a mapping from alias to cluster, not empty"),
    ]
    flows: Annotated[
        list[FlowModel],
        Field(
            min_length=1,
            max_length=FLOWS_MAX,
            description=f"a list of flows, e.g. [{{source: primary, target: backup}}], not empty, {FLOWS_MAX} at most",
        ),
    ]
    spark: SparkModel = SparkModel()
    http: HttpModel = HttpModel()
    metrics: MetricsModel = MetricsModel()
    log: LogModel = LogModel()
    drain_timeout: Annotated[Duration, _duration("0s", "1h")] = 10.0
