"""What a changed configuration means for a running service. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel

from mirror.config.conflicts import flow_problems
from mirror.config.explain import key_path
from mirror.config.flow_model import FlowModel, TopicSettingsModel
from mirror.config.librdkafka import servers
from mirror.config.located_yaml import Location
from mirror.config.model import RootModel
from mirror.config.reload_effects import EFFECTS, Effect
from mirror.naming import ReplicationPolicy

_Model = TypeVar("_Model", bound=BaseModel)

_APART = ("clusters", "flows", "flow_defaults", "topic_settings")  # not compared as one value
_SELECTING = ("topics", "exclude")  # the keys that bring topics into a flow, and take them out of it
# The keys that say how a topic begins: where its copy is, from where it is copied, and what becomes of its records.
_BEGINNING = ("group", "replication_policy", "remote_topic", "separator", "start", "active_active", "transform")


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
    _, found = _merged(running, _with_same_login(running, written, followed), followed)
    return (*found.applied, *found.waiting)


def blend(running: RootModel, written: RootModel, followed: Set[Location] = frozenset()) -> Blend:
    """What of `written` a service that runs with `running` can follow. Both are valid.

    `followed` are keys whose values come from files that are read again by whoever needs them.

    Two kinds of keys wait although they could change alone. What lets partitions begin waits for keys that say how, and
    that can't change now. And a flow keeps all of its keys if the new ones that can change do not go together with the
    old ones that can't.
    """
    written = _with_same_login(running, written, followed)
    written, held = _without_beginnings(running, written)
    while True:
        root, found = _merged(running, written, followed)
        conflicts = _conflicts(root) if found.applied else {}
        written, kept = _without_flows(running, written, conflicts) if conflicts else (written, [])
        if not kept:
            return Blend(root, tuple(found.applied), (*found.waiting, *held))
        held += kept


def _with_same_login(running: RootModel, written: RootModel, followed: Set[Location]) -> RootModel:
    """`written` with the user and the password of the HTTP server that `running` has, where they are followed."""
    same = {key: getattr(running.http, key) for key in ("username", "password") if ("http", key) in followed}
    return written.model_copy(update={"http": written.http.model_copy(update=same)})


def _merged(running: RootModel, written: RootModel, followed: Set[Location]) -> tuple[RootModel, _Found]:
    """`running` with those values of `written` that can change now."""
    found = _Found()
    root = _blended(running, written, "", "", found)
    flows = _flows(running, written, found)
    found.waiting += _clusters(running, written, followed)
    return root.model_copy(update={"flows": flows}), found


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
    new = _by_ends(written)
    flows = []
    for ends, flow in _by_ends(running).items():
        now = new.pop(ends, None)
        if now is None:
            found.waiting.append(f"{_name(flow)}: the flow was removed")
            flows.append(flow)
        else:
            flows.append(_flow(flow, now, f"{_name(flow)}: ", found))
    found.waiting += (f"{_name(flow)}: the flow was added" for flow in new.values())
    return flows


def _flow(running: FlowModel, written: FlowModel, said: str, found: _Found) -> FlowModel:
    taken = _blended(running, written, "flows[]", said, found)
    return taken.model_copy(update={"topic_settings": _topic_settings(running, written, taken, said, found)})


def _topic_settings(
    running: FlowModel, written: FlowModel, taken: FlowModel, said: str, found: _Found
) -> dict[str, TopicSettingsModel]:
    """The entries of single topics, of which `taken` has the flow's other keys.

    A topic that the flow copies before and after keeps its remote topic, which holds the records up to its position.
    """
    before, now = _policy(running), _policy(taken)
    entries = {}
    for topic in dict.fromkeys([*running.topic_settings, *written.topic_settings]):
        old, new = _entry(running, topic), _entry(written, topic)
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


def _without_beginnings(running: RootModel, written: RootModel) -> tuple[RootModel, list[str]]:
    """`written`, in which no partition of some flows can begin that does not begin now, and what waits for that reason.

    A flow whose way to begin differs copies as it did until the next start. So a topic that comes into it, or one that
    may now be appended to, would be copied from elsewhere, to elsewhere, or without the transform that is meant for it.
    """
    before, flows, held = _by_ends(running), list(written.flows), []
    for number, now in enumerate(flows):
        flow = before.get((now.source, now.target))
        if flow is None:
            continue
        update: dict[str, Any] = {}
        if why := _beginning(running, written, flow, now):
            chosen = _policy(flow).is_chosen
            entries = {topic: entry for topic, entry in now.topic_settings.items() if chosen(topic)}
            update = {"topic_settings": entries, **{key: getattr(flow, key) for key in _SELECTING}}
        why = why or _start_that_waits(flow, now)
        if why and now.append_to_existing:
            update["append_to_existing"] = flow.append_to_existing
        flows[number] = kept = now.model_copy(update=update)
        if waiting := _differences(kept, now):
            held.append(f"{_name(flow)}: {waiting} (waits with {why}, which may be meant for the same topics)")
    return written.model_copy(update={"flows": flows}), held


def _beginning(running: RootModel, written: RootModel, before: FlowModel, now: FlowModel) -> str:
    """The first key in which two versions of a flow differ that says how a topic begins; "" if there is none."""
    for alias in (before.source, before.target):
        if running.clusters[alias].bootstrap_servers != written.clusters[alias].bootstrap_servers:
            return f"clusters.{alias}.bootstrap.servers"
    differs = (key for key in _BEGINNING if _value(before, key) != _value(now, key))
    return next(differs, "") or next(_transforms_that_come_or_go(before, now), "")


def _transforms_that_come_or_go(before: FlowModel, now: FlowModel) -> Iterator[str]:
    """Transforms that differ, of single topics that may come into the flow, or go out of it."""
    was, will_be = _policy(before), _policy(now)
    for topic in {**before.topic_settings, **now.topic_settings}:
        differs = _entry(before, topic).transform != _entry(now, topic).transform
        if differs and not (was.is_chosen(topic) and will_be.is_chosen(topic)):
            yield key_path(("topic_settings", topic, "transform"))


def _start_that_waits(before: FlowModel, now: FlowModel) -> str:
    """The start of a single topic that the flow copies already: it could only count once the topic is appended to."""
    for topic in {**before.topic_settings, **now.topic_settings}:
        if _entry(before, topic).start != _entry(now, topic).start and _policy(before).is_chosen(topic):
            return key_path(("topic_settings", topic, "start"))
    return ""


def _without_flows(
    running: RootModel, written: RootModel, conflicts: Mapping[tuple[str, str], str]
) -> tuple[RootModel, list[str]]:
    """`written`, in which the flows in conflict are as they were, and what waits for that reason.

    If they are so already, one more flow is. Some day nothing is in conflict, because the running flows are not.
    """
    before, why = _by_ends(running), next(iter(conflicts.values()))
    changed = {e: flow for e, flow in _by_ends(written).items() if e in before and _differences(before[e], flow)}
    now = [ends for ends in changed if ends in conflicts] or list(changed)[:1]
    back = {ends: conflicts.get(ends, why) for ends in now}
    held = [
        f"{_name(changed[ends])}: {_differences(before[ends], changed[ends])} (all of the flow's keys wait, because "
        f"they need one that can't change now: {reason})"
        for ends, reason in back.items()
    ]
    flows = [before[ends] if ends in back else flow for ends, flow in _by_ends(written).items()]
    return written.model_copy(update={"flows": flows}), held


def _differences(running: FlowModel, written: FlowModel) -> str:
    """The keys in which two versions of a flow differ; "" if in none."""
    found = _Found()
    _flow(running, written, "", found)
    return ", ".join([*found.applied, *found.waiting])


def _conflicts(root: RootModel) -> dict[tuple[str, str], str]:
    """By the ends of a flow: its first problem, if the flows do not go together."""
    flows = dict(enumerate(root.flows))
    known = {alias: servers(cluster.bootstrap_servers) for alias, cluster in root.clusters.items()}
    found: dict[tuple[str, str], str] = {}
    for problem in flow_problems(flows, flows, known, lambda number: _name(flows[number])):
        flow = flows[int(problem.location[1])]
        said = ": ".join(filter(None, (_name(flow), key_path(problem.location[2:]), problem.text)))
        found.setdefault((flow.source, flow.target), said)
    return found


def _by_ends(root: RootModel) -> dict[tuple[str, str], FlowModel]:
    return {(flow.source, flow.target): flow for flow in root.flows}


def _name(flow: FlowModel) -> str:
    return f"{flow.source}->{flow.target}"


def _policy(flow: FlowModel) -> ReplicationPolicy:
    return ReplicationPolicy(flow, flow.source, flow.target)


def _entry(flow: FlowModel, topic: str) -> TopicSettingsModel:
    return flow.topic_settings.get(topic, TopicSettingsModel())
