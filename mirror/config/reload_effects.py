"""Which keys take effect while the service runs, and what a changed configuration means for a running service. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from pydantic import BaseModel

from mirror.config.conflicts import flow_problems
from mirror.config.explain import key_path
from mirror.config.flow_model import FlowModel, TopicSettingsModel
from mirror.config.librdkafka import servers
from mirror.config.located_yaml import Location
from mirror.config.model import RootModel
from mirror.errors import ConfigError
from mirror.naming import ReplicationPolicy, some_of

_Model = TypeVar("_Model", bound=BaseModel)


class Effect(StrEnum):
    """When a changed key takes effect. The values complete "A change takes effect ..." in the reference."""

    RELOAD = "at a reload"
    PLAN = "at a reload, and in tasks with the next plan"
    NEW_TOPIC = "at the next start, or at the reload that brings the topic into the flow"
    START = "at the next start"


# By section, and by key as the file has it. Of a key that holds a section, the section says it.
EFFECTS: Mapping[str, Mapping[str, Effect]] = {
    "": {"drain_timeout": Effect.RELOAD},
    "clusters.<alias>": dict.fromkeys(("bootstrap.servers", "consumer", "producer", "token_provider"), Effect.START),
    "flows[]": {
        **dict.fromkeys(
            (
                "topics",
                "exclude",
                "replication_factor",
                "internal_replication_factor",
                "refresh_topics_interval",
                "tasks_max",
                "sync_topic_configs",
                "sync_topic_configs_interval",
                "exclude_configs",
                "use_defaults_from",
                "sync_acls",
                "sync_acls_interval",
            ),
            Effect.RELOAD,
        ),
        # Those of control/task_settings.py.
        **dict.fromkeys(
            (
                "throttle",
                "transaction_linger_max",
                "producer_idle_timeout",
                "open_transaction_warn_after",
                "append_to_existing",
                "data_path",
                "on_data_loss",
                "on_poison_record",
            ),
            Effect.PLAN,
        ),
        **dict.fromkeys(
            (
                "source",
                "target",
                "group",
                "replication_policy",
                "remote_topic",
                "separator",
                "start",
                "offset_lag_max",
                "compression",
                "batch_max_records",
                "batch_max_bytes",
                "transaction_timeout",
                "transaction_threads",
                "producers_max",
                "exactly_once",
                "active_active",
                "accept_log_append_time",
                "transform",
            ),
            Effect.START,
        ),
    },
    "flows[].topic_settings.<topic>": {
        **dict.fromkeys(("remote_topic", "start"), Effect.NEW_TOPIC),
        **dict.fromkeys(("on_data_loss", "on_poison_record", "throttle"), Effect.PLAN),
        "transform": Effect.START,
    },
    "flows[].groups": dict.fromkeys(("sync", "checkpoints", "include", "exclude", "interval"), Effect.RELOAD),
    # Heartbeats have names of their own: to switch them on could give a topic that is copied another remote topic.
    "flows[].heartbeats": {"enabled": Effect.START, "interval": Effect.RELOAD},
    # The canary's topic is never copied under another name, so there is nothing that switching it on could move.
    "flows[].canary": dict.fromkeys(("enabled", "interval"), Effect.RELOAD),
    "flows[].mirrormaker_offsets": dict.fromkeys(("enabled", "topic", "connector"), Effect.RELOAD),
    "spark": dict.fromkeys(("master", "conf"), Effect.START),
    "http": dict.fromkeys(("host", "port", "tls_certificate", "tls_key", "username", "password"), Effect.START),
    "metrics": {"labels": Effect.START},
    "metrics.otlp": dict.fromkeys(("endpoint", "interval", "headers"), Effect.START),
    "log": {"level": Effect.PLAN, "format": Effect.START},
}


_APART = ("clusters", "flows", "flow_defaults", "topic_settings")  # not compared as one value


@dataclass(frozen=True, slots=True)
class Blend:
    """The configuration that a running service can follow."""

    root: RootModel
    applied: tuple[str, ...]  # keys that it takes from the new one
    waiting: tuple[str, ...]  # keys in which it keeps the old one


@dataclass(slots=True)
class _Found:
    applied: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)


def differing(running: RootModel, written: RootModel, followed: Set[Location]) -> tuple[str, ...]:
    """All keys but the `followed` ones in which `written` differs from `running`, as `blend` names them.

    Both are valid.
    """
    found = _Found()
    written = _with_same_login(running, written, followed)
    _blended(running, written, "", "", found)
    _flows(running, written, found)
    return (*found.applied, *found.waiting, *_clusters(running, written, followed))


def blend(running: RootModel, written: RootModel, followed: Set[Location] = frozenset()) -> Blend:
    """What of `written` a service that runs with `running` can follow. Both are valid.

    `followed` are keys whose values come from files that are read again by whoever needs them.

    Raises ConfigError if the keys that can change now do not go together with those that can't.
    """
    found = _Found()
    written = _with_same_login(running, written, followed)
    root = _blended(running, written, "", "", found)
    flows = _flows(running, written, found)
    found.waiting += _clusters(running, written, followed)
    root = root.model_copy(update={"flows": flows})
    if found.applied and found.waiting:
        _check_transforms(running, written, found)
        _check(root, found)
    return Blend(root, tuple(found.applied), tuple(found.waiting))


def _with_same_login(running: RootModel, written: RootModel, followed: Set[Location]) -> RootModel:
    """`written` with the user and the password of the HTTP server that `running` has, where they are followed."""
    same = {key: getattr(running.http, key) for key in ("username", "password") if ("http", key) in followed}
    return written.model_copy(update={"http": written.http.model_copy(update=same)})


def _blended(running: _Model, written: _Model, section: str, said: str, found: _Found) -> _Model:
    """`running` with those values of `written` that can change now. `said` is what comes before a key's name."""
    update: dict[str, Any] = {}
    for name, info in type(running).model_fields.items():
        key, before, after = info.alias or name, _value(running, name), _value(written, name)
        if before == after or key in _APART:
            continue
        if isinstance(before, BaseModel):
            inner = f"{section}.{key}" if section else key
            update[name] = _blended(before, after, inner, f"{said}{key}.", found)
        elif EFFECTS[section].get(key, Effect.START) is not Effect.START:
            update[name] = after
            found.applied.append(said + key)
        else:
            found.waiting += _differing(before, after, said + key)
    return running.model_copy(update=update)


def _value(model: BaseModel, name: str) -> Any:
    """The value that counts: a group that is not set has a name, too."""
    return model.position_group if isinstance(model, FlowModel) and name == "group" else getattr(model, name)


def _differing(before: Any, after: Any, said: str) -> Iterator[str]:
    """The names of what differs. A mapping's values may be secrets: only their keys are named."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        yield said
        return
    for key in dict.fromkeys([*before, *after]):
        if before.get(key) != after.get(key):
            yield f"{said}.{key_path((key,))}"


def _flows(running: RootModel, written: RootModel, found: _Found) -> list[FlowModel]:
    """The flows that run, each with what it can take. Flows begin and end only with the service."""
    new = {(flow.source, flow.target): flow for flow in written.flows}
    flows = []
    for flow in running.flows:
        now = new.pop((flow.source, flow.target), None)
        name = f"{flow.source}->{flow.target}"
        if now is None:
            found.waiting.append(f"{name}: the flow was removed")
            flows.append(flow)
        else:
            taken = _blended(flow, now, "flows[]", f"{name}: ", found)
            entries = _topic_settings(flow, now, taken, f"{name}: ", found)
            flows.append(taken.model_copy(update={"topic_settings": entries}))
    found.waiting += (f"{source}->{target}: the flow was added" for source, target in new)
    return flows


def _topic_settings(
    running: FlowModel, written: FlowModel, taken: FlowModel, said: str, found: _Found
) -> dict[str, TopicSettingsModel]:
    """The entries of single topics, of which `taken` has the flow's other keys.

    A topic that the flow copies before and after keeps its remote topic, which holds the records up to its position.
    """
    before, now = (ReplicationPolicy(flow, flow.source, flow.target) for flow in (running, taken))
    entries = {}
    for topic in dict.fromkeys([*running.topic_settings, *written.topic_settings]):
        old, new = (flow.topic_settings.get(topic, TopicSettingsModel()) for flow in (running, written))
        stays = before.is_chosen(topic) and now.is_chosen(topic)
        kept: dict[str, Any] = {}
        for key, effect in EFFECTS["flows[].topic_settings.<topic>"].items():
            if getattr(old, key) != getattr(new, key):
                named = said + key_path(("topic_settings", topic, key))
                if effect is Effect.START or (stays and effect is Effect.NEW_TOPIC):
                    kept[key] = getattr(old, key)
                    found.waiting.append(named)
                else:
                    found.applied.append(named)
        entry = new.model_copy(update=kept)
        if entry != TopicSettingsModel():
            entries[topic] = entry
    return entries


def _clusters(running: RootModel, written: RootModel, followed: Set[Location]) -> Iterator[str]:
    for alias in dict.fromkeys([*running.clusters, *written.clusters]):
        before, after = running.clusters.get(alias), written.clusters.get(alias)
        said = f"clusters.{alias}"
        if before is None or after is None:
            yield said
        else:
            same = {key: before.properties.get(key) for key in after.properties if ("clusters", alias, key) in followed}
            yield from _differing(before.properties, {**after.properties, **same}, said)
            yield from _differing(before.consumer, after.consumer, f"{said}.consumer")
            yield from _differing(before.producer, after.producer, f"{said}.producer")


def _check_transforms(running: RootModel, written: RootModel, found: _Found) -> None:
    """Raise ConfigError if transforms differ: topics that come into the flow would be copied without theirs.

    A flow that only one of the configurations has is not compared: it begins or ends with the service.
    """
    before, after = (
        {(flow.source, flow.target): _transforms(flow) for flow in root.flows} for root in (running, written)
    )
    if any(before[ends] != after[ends] for ends in before.keys() & after.keys()):
        raise ConfigError(
            [
                f"{some_of(found.waiting)} can't change while the service runs, and a transform may be meant for the "
                "other changes: start the service again"
            ]
        )


def _transforms(flow: FlowModel) -> tuple[str | None, dict[str, str]]:
    """The flow's transform, and those of single topics."""
    own = {topic: each.transform for topic, each in flow.topic_settings.items() if each.transform is not None}
    return flow.transform, own


def _check(root: RootModel, found: _Found) -> None:
    """Raise ConfigError if the flows conflict, although those of the new configuration do not."""
    flows = dict(enumerate(root.flows))
    names = [f"{flow.source}->{flow.target}" for flow in root.flows]
    known = {alias: servers(cluster.bootstrap_servers) for alias, cluster in root.clusters.items()}
    problems = list(flow_problems(flows, flows, known, names.__getitem__))
    if problems:
        first = problems[0]
        where = ": ".join(filter(None, (names[int(first.location[1])], key_path(first.location[2:]), first.text)))
        raise ConfigError(
            [
                f"{some_of(found.waiting)} can't change while the service runs, and the other changes need that "
                f"({where}): start the service again"
            ]
        )
