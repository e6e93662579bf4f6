"""The settings of a service: its flows, and what they share. mirror.config makes them from YAML.

Some values may be secrets, so no `repr` here shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from mirror.settings import Flow


@dataclass(frozen=True, slots=True)
class Spark:
    """Where Spark runs, and its configuration."""

    master: str
    conf: Mapping[str, str] = field(repr=False)
    references: frozenset[str] = frozenset()  # keys of `conf` whose values come from ${...}; they are never shown


@dataclass(frozen=True, slots=True)
class Http:
    """The address of the status page, `/metrics`, `/livez` and `/readyz`; port 0 picks a free port."""

    host: str
    port: int
    tls_certificate: str | None = None  # a PEM file; None: no TLS
    tls_key: str | None = None  # the PEM file of its key
    username: str | None = None  # None: everybody may ask
    password: str | None = field(default=None, repr=False)
    # Where each of these comes from, if it is the whole text of a file.
    username_file: str | None = None
    password_file: str | None = None


@dataclass(frozen=True, slots=True)
class Otlp:
    """Where metrics are pushed to by OTLP over HTTP; nowhere without an `endpoint`."""

    endpoint: str | None
    interval: float  # seconds
    headers: Mapping[str, str] = field(repr=False)  # may be secrets


@dataclass(frozen=True, slots=True)
class Metrics:
    """The detail of `/metrics`: a series for each partition, or for each topic. And where the same is pushed to."""

    labels: Literal["partition", "topic"]
    otlp: Otlp


@dataclass(frozen=True, slots=True)
class Log:
    """The level and the format of log lines."""

    level: Literal["debug", "info", "warning", "error"]
    format: Literal["text", "json"]


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Something in a flow's configuration that is allowed, but looks like a mistake."""

    flow: str
    said: str  # with file, line and key
    remedy: str

    def __str__(self) -> str:
        return f"{self.said}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What became of a configuration that was read again. Keys are named as `primary->backup: topics`."""

    settings: Settings  # in force from now on
    applied: tuple[str, ...]  # keys that were changed, and are in force now
    waiting: tuple[str, ...]  # keys that differ from what is in force, and take effect at the next start


@dataclass(frozen=True, slots=True)
class Settings:
    """A whole configuration, of one file or several."""

    flows: tuple[Flow, ...]
    spark: Spark
    http: Http
    metrics: Metrics
    log: Log
    drain_timeout: float
    warnings: tuple[Suspicion, ...] = ()

    @property
    def code(self) -> tuple[str, ...]:
        """The dotted paths of what tasks import of the user's own: transforms and token providers."""
        return tuple(sorted({path for flow in self.flows for path in (*flow.transforms, *flow.token_providers)}))

    def warned(self, flow: Flow) -> tuple[Suspicion, ...]:
        """What looks like a mistake in the configuration of one flow."""
        return tuple(each for each in self.warnings if each.flow == flow.name)
