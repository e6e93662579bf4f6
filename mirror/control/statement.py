"""Reads what a flow publishes about itself for other flows. Anybody may have written it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mirror.control.plan import Origins
from mirror.kafka.clients import INTERNAL_MAX

NAME_MAX = 249  # characters: Kafka's limit for a topic's name, and more than any other name of ours needs
ORIGINS_MAX = 100  # most clusters that one topic may come from


@dataclass(frozen=True, slots=True)
class Statement:
    """What a flow publishes about itself: its plan, or its announcement (intent) of the next plan."""

    service_id: str  # of the flow leader
    generation: int
    stop: bool
    remotes: Mapping[str, str]  # remote topics by source topic
    clusters: tuple[str, ...]  # ids of source and target; empty if an older mirror wrote it
    origins: Origins
    active_active: bool = False  # it carries the mark: what it copies has a header that keeps it from coming back
    group: str = ""  # of its positions; "" without the mark
    configs_from: tuple[str, ...] = ()  # ids of the clusters whose topic configurations it brings; () without the mark
    old: frozenset[str] = frozenset()  # remote topics that may have copies of it without that header
    written: frozenset[str] = field(init=False, compare=False)  # its remote topics

    def __post_init__(self) -> None:
        object.__setattr__(self, "written", frozenset(self.remotes.values()))

    @staticmethod
    def decode(value: bytes) -> Statement:
        """Decode a plan that anybody may have written. Raises ValueError with the reason if it is not a plan."""
        if len(value) > INTERNAL_MAX:
            raise ValueError(f"it has {len(value)} bytes, more than a plan may have")
        try:
            raw = json.loads(value)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        plan = _mapping(raw, "the plan")
        generation, topics = plan.get("generation"), _mapping(plan.get("topics"), "topics")
        if not isinstance(generation, int):
            raise ValueError("generation is not a number")
        remotes = _remotes(topics)
        active_active = plan.get("active_active", False) is True
        former = (
            _mapping(plan.get("unmarked", {}), "unmarked")
            if active_active
            else _remotes(plan.get("retired", {})).values()
        )
        origins = _mapping(plan.get("origins", {}), "origins")
        return Statement(
            _text(plan.get("leader"), "leader"),
            generation,
            plan.get("stop", False) is not False,
            remotes,
            _clusters(plan.get("clusters", [])),
            {_text(name, "a topic"): _ids(ids) for name, ids in origins.items()},
            active_active,
            _text(plan.get("group"), "group") if active_active and plan.get("group") else "",
            _ids(plan.get("configs_from", [])) if active_active else (),
            frozenset(_text(name, "a topic") for name in former)
            | (frozenset() if active_active else {*remotes.values()}),
        )

    def comes_from(self, remote: str) -> tuple[str, ...]:
        """Ids of the clusters whose records are in a remote topic of this flow, according to the flow itself."""
        return self.origins.get(remote, self.clusters[:1])


def _mapping(raw: object, what: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise ValueError(f"{what} is not a JSON object")
    return raw


def _remotes(raw: object) -> dict[str, str]:
    topics = _mapping(raw, "topics")
    return {_text(name, "a topic"): _text(_list(t, name)[0], "a remote topic") for name, t in topics.items()}


def _list(raw: object, what: str) -> list[Any]:
    if not isinstance(raw, list) or not raw:
        raise ValueError(f"{what:.50} is not a list, or is empty")
    return raw


def _text(raw: object, what: str) -> str:
    if not isinstance(raw, str) or not 0 < len(raw) <= NAME_MAX or not raw.isprintable():
        raise ValueError(f"{what} is not a name")
    return raw


def _ids(raw: object) -> tuple[str, ...]:
    if not isinstance(raw, list) or len(raw) > ORIGINS_MAX:
        raise ValueError("clusters is not a list, or is too long")
    return tuple(_text(each, "a cluster id") for each in raw)


def _clusters(raw: object) -> tuple[str, ...]:
    ids = _ids(raw)
    if len(ids) not in (0, 2):
        raise ValueError("clusters are not two")
    return ids
