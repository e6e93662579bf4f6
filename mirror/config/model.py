"""The YAML file as a whole, and its sections but the flows, which flow_model.py has."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, model_validator

from mirror.config.flow_model import FlowDefaultsModel, FlowModel
from mirror.config.value_types import (
    Alias,
    CallablePath,
    Duration,
    HeaderName,
    HeaderValue,
    Properties,
    Property,
    Section,
    Servers,
    Text,
    Url,
    UserName,
    allowed,
    duration_range,
    explained,
    whole_number,
)
from mirror.settings import TOKEN_PROVIDER

FLOWS_MAX = 1_000  # limited, since each flow is compared with every other one


class ClusterModel(Section):
    """How to reach one cluster. Every other key is a librdkafka property of all its clients. In whole batches those
    count that say how to reach the brokers and to log in."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Property]

    bootstrap_servers: Annotated[
        Servers,
        allowed("a comma-separated list of host:port, e.g. localhost:9092", alias="bootstrap.servers"),
    ]
    """Addresses of some of the cluster's brokers. Clients learn the other brokers from these."""
    consumer: Properties = {}
    """librdkafka properties for the consumers of this cluster only, where it is a flow's source. They win over the
    cluster's other properties."""
    producer: Properties = {}
    """librdkafka properties for the producers of this cluster only, where it is a flow's target. They win over the
    cluster's other properties."""

    token_provider: Annotated[
        CallablePath | None,
        allowed("the dotted path of a callable in a Python module, e.g. shop.tokens.token, or null"),
    ] = None
    """A callable of your own that gives the tokens for `sasl.mechanisms: OAUTHBEARER`. It gets
    `sasl.oauthbearer.config`, and returns the token and when it expires, in seconds since 1970."""

    @property
    def properties(self) -> dict[str, str]:
        """The properties of every client of the cluster, and `token_provider` if it is set."""
        provider = {} if self.token_provider is None else {TOKEN_PROVIDER: self.token_provider}
        return {"bootstrap.servers": self.bootstrap_servers, **provider, **self.__pydantic_extra__}


class SparkModel(Section):
    """Where Spark runs, and its configuration."""

    master: Annotated[Text, allowed('a Spark master, e.g. "local[*]" or spark://host:7077')] = "local[*]"
    """Where Spark runs the tasks: in this process, or on a cluster."""
    conf: Annotated[dict[str, Property], allowed("a mapping, e.g. {spark.executor.cores: 2}, or {}")] = {}
    """Spark properties. Spark on a standalone cluster needs `spark.authenticate.secret`, because its tasks carry the
    clusters' passwords."""


class HttpModel(Section):
    """Where the service's HTTP server listens, and who may ask it."""

    host: Annotated[Text, allowed("an address to listen on, e.g. 0.0.0.0 or localhost")] = "0.0.0.0"
    """The address on which the service listens for HTTP. `"::"` is all addresses of IPv6 and of IPv4."""
    port: Annotated[int, whole_number(0, 65535, " (0 picks a free one)")] = 9464
    """The port of the status page, `/status`, `/metrics`, `/livez` and `/readyz`."""
    tls_certificate: Annotated[Text | None, allowed("the path of a PEM file, or null")] = None
    """The certificate with which the server speaks TLS (HTTPS), and those of its authorities after it. It is read again
    when the file changes."""
    tls_key: Annotated[Text | None, allowed("the path of a PEM file, or null")] = None
    """The key of `tls_certificate`, without a password."""
    username: Annotated[UserName | None, allowed("printable text without a colon, or null")] = None
    """The user that everybody has to name (HTTP's basic authentication). `/livez` and `/readyz` answer without it, for
    probes, but then give no reasons."""
    password: Annotated[Text | None, allowed("text, not empty, or null")] = None
    """The password of that user. With `${file:...}` it is read again when the file changes."""

    @model_validator(mode="after")
    def _whole_pairs(self) -> HttpModel:
        for first, second in (("tls_certificate", "tls_key"), ("username", "password")):
            present, missing = (first, second) if getattr(self, second) is None else (second, first)
            if getattr(self, present) is not None and getattr(self, missing) is None:
                raise explained("{present} is set, but {missing} is not; set both", present=present, missing=missing)
        return self


class OtlpModel(Section):
    """Where metrics are pushed to, by OTLP over HTTP. It needs mirror's extra `otlp`."""

    endpoint: Annotated[Url | None, allowed("a URL, e.g. http://localhost:4318/v1/metrics")] = None
    """The URL to which metrics are pushed. Without it nothing is pushed."""
    interval: Annotated[Duration, duration_range("1s", "1h")] = 30.0
    """How often metrics are pushed."""
    headers: Annotated[
        dict[HeaderName, HeaderValue],
        allowed("a mapping, e.g. {authorization: '${env:OTLP_TOKEN}'}"),
    ] = {}
    """HTTP headers of each request."""


class MetricsModel(Section):
    """How detailed /metrics is."""

    labels: Annotated[
        Literal["partition", "topic"], allowed("partition (a series for each) or topic (for many partitions)")
    ] = "partition"
    """How fine the series of `/metrics` are. With thousands of partitions, `topic` keeps their number small."""
    otlp: Annotated[OtlpModel, allowed("a mapping, e.g. {endpoint: 'http://localhost:4318/v1/metrics'}")] = OtlpModel()
    """Pushing the same metrics to an OpenTelemetry collector."""


class LogModel(Section):
    """Which log lines are written, and how."""

    level: Annotated[Literal["debug", "info", "warning", "error"], allowed("debug, info, warning or error")] = "info"
    """The lowest level of the log lines that are written."""
    format: Annotated[Literal["text", "json"], allowed("text or json")] = "text"
    """How a log line is written: `text` is `key=value`, `json` is one JSON object in each line."""


class RootModel(Section):
    """The keys at the top of the file."""

    clusters: Annotated[
        dict[
            Alias,
            Annotated[ClusterModel, allowed("a mapping of librdkafka properties, e.g. {bootstrap.servers: a:9092}")],
        ],
        allowed("a mapping from alias to cluster, not empty", min_length=1),
    ]
    """The Kafka clusters, each under an alias that you choose. The alias becomes part of topic names on the target."""
    flows: Annotated[
        list[FlowModel],
        allowed(
            f"a list of flows, e.g. [{{source: primary, target: backup}}], not empty, {FLOWS_MAX} at most",
            min_length=1,
            max_length=FLOWS_MAX,
        ),
    ]
    """What is copied, and where. Each flow copies from one cluster to one other."""
    flow_defaults: Annotated[
        FlowDefaultsModel,
        allowed("a mapping of a flow's keys but source, target and group, e.g. {replication_factor: 3}"),
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
    drain_timeout: Annotated[Duration, duration_range("0s", "1h")] = 10.0
    """How long open transactions may take to finish when the service stops. What is open after that is aborted and
    copied again at the next start."""
