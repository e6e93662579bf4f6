"""Spark's properties that mirror sets itself, and that nobody else may set otherwise. Needs no PySpark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_REASONS: Mapping[str, tuple[str, str]] = {
    "spark.speculation": ("false", "a second copy of a task would only fence the first one"),
    "spark.scheduler.listenerbus.logSlowEvent": ("false", "Spark logs a slow event with a job's settings, unhidden"),
}
FIXED: Mapping[str, str] = {key: value for key, (value, _) in _REASONS.items()}
MASTER = "spark.master"


def problems(conf: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The keys of `spark.conf` that would not hold, each with what to do."""
    if MASTER in conf:
        yield MASTER, 'mirror takes the master from the key "master" of "spark"; write it there'
    for key, (value, reason) in _REASONS.items():
        if conf.get(key, value).strip().lower() != value:
            yield key, f"mirror keeps this {value}, because {reason}; remove it"
