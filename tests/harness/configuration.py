"""Configuration files for a service under test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Settings = dict[str, Any]

LONG_DRAIN = "60s"  # a drain_timeout that a busy machine keeps, too
RECORDS, AUTO = DATA_PATHS = ("records", "auto")  # what a flow's data_path may be


def one_flow(
    source: str,
    target: str,
    topics: Sequence[str],
    *,
    alias: str,
    target_alias: str = "backup",
    flow: Mapping[str, Any] | None = None,
    **top: Any,
) -> Settings:
    """One flow between two bootstrap addresses; `flow` adds to the flow's own keys, `top` to the file's.

    `alias` names the source. Internal topics, position group and transactional ids follow from it, so services that
    must not meet need different ones.
    """
    return {
        "clusters": {alias: {"bootstrap.servers": source}, target_alias: {"bootstrap.servers": target}},
        "flows": [
            {
                "source": alias,
                "target": target_alias,
                "topics": list(topics),
                "refresh_topics_interval": "1s",
                **(flow or {}),
            }
        ],
        "spark": {"master": "local[2]"},
        "http": {"host": "127.0.0.1", "port": 0},
        "log": {"format": "json"},
        **top,
    }


def together(first: Settings, *others: Settings) -> Settings:
    """One configuration with the flows of all; the rest is the first one's."""
    clusters = {alias: cluster for each in (first, *others) for alias, cluster in each["clusters"].items()}
    return {**first, "clusters": clusters, "flows": [flow for each in (first, *others) for flow in each["flows"]]}


def group(alias: str, target_alias: str = "backup") -> str:
    """The position's group on the target, by default."""
    return f"mirror-{alias}-{target_alias}"
