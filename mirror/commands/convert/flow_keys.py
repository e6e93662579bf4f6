"""What becomes of the value of each setting of a flow. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError

from mirror.commands.convert import filters
from mirror.commands.convert.entries import FlowScope, true
from mirror.commands.convert.group_settings import ONE_FACTOR, ONE_INTERVAL
from mirror.commands.convert.setting import NAMES, Fate, Setting
from mirror.commands.convert.table import CONNECTORS
from mirror.commands.convert.verdict import Put, Value, Verdict, not_possible, of_table
from mirror.config.flow_model import FlowModel
from mirror.config.value_types import ALLOWED

Handler = Callable[[Setting, FlowScope, str], Verdict]

NUMBER = re.compile(r"-?\d{1,18}")
OWN_CLASSES = ("", "org.apache.kafka.connect.mirror.", "org.apache.kafka.clients.admin.")  # what they begin with
POLICIES = {
    "DefaultReplicationPolicy": "default",
    "IdentityReplicationPolicy": "identity",
    "org.apache.kafka.connect.mirror.DefaultReplicationPolicy": "default",
    "org.apache.kafka.connect.mirror.IdentityReplicationPolicy": "identity",
    "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy": "identity",
}


def judge(name: str, scope: FlowScope, value: str) -> Verdict:
    """What becomes of a setting of the table with this value, in one flow. Raises BadPattern."""
    setting = CONNECTORS[name]
    handler = HANDLERS.get(name)
    return handler(setting, scope, value.strip()) if handler else of_table(setting)


def put(scope: FlowScope, key: str, value: Value, fate: Fate, why: str = "") -> Verdict:
    """The value as that of the flow's key, such as start or groups.sync, if it is within our limits."""
    problem = _refused(key, value) if isinstance(value, list) else refusal(key, value)
    if problem:
        return not_possible(f"{key} {problem}")
    return Verdict(fate, why, (Put(("flows", (scope.source, scope.target), *key.split(".")), value),))


@cache
def refusal(key: str, value: str | int | bool) -> str | None:
    """Why our model does not take the value for a flow's key; None if it does."""
    return _refused(key, value)


def _refused(key: str, value: Value) -> str | None:
    *outer, last = key.split(".")
    try:
        effective(key, value)
    except ValidationError:
        model: Any = FlowModel
        for name in outer:
            model = model.model_fields[name].annotation
        return f"must be {_schema(model)['properties'][last][ALLOWED]}"
    return None


def effective(key: str, value: Value | None = None) -> Any:
    """What our loader makes of the value of a flow's key; of None, the default. Raises ValidationError."""
    *outer, last = key.split(".")
    tree: dict[str, Any] = {} if value is None else {last: value}
    for name in reversed(outer):
        tree = {name: tree}
    found: Any = FlowModel.model_validate({"source": "a", "target": "b", **tree}, context={"aliases": ["a", "b"]})
    for name in (*outer, last):
        found = getattr(found, name)
    return found


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _list(key: str, if_empty: str = "") -> Handler:
    def handler(setting: Setting, scope: FlowScope, value: str) -> Verdict:
        found = filters.patterns(value)
        wide = filters.widens(found)
        why = NAMES if wide else "" if found else if_empty
        return put(scope, key, found, "different" if wide else setting.fate, why)

    return handler


_exclude = _list(
    "exclude", "an empty list: names that begin with __ or . or end in -internal or .internal stay left out"
)
_excluded_groups = _list("groups.exclude", "an empty list: no group is left out")


_configs = _list("exclude_configs", "an empty list, which is mirror's default, too")


def _defaults(setting: Setting, scope: FlowScope, value: str) -> Verdict:
    return put(scope, "use_defaults_from", value.lower(), setting.fate, setting.why)


def _topics(setting: Setting, scope: FlowScope, value: str) -> Verdict:
    if not filters.patterns(value):
        raise filters.BadPattern("an empty list copies nothing: take the flow out, or write topics")
    return _list("topics")(setting, scope, value)


def _groups(setting: Setting, scope: FlowScope, value: str) -> Verdict:
    if not filters.patterns(value):
        said = "an empty list takes no group, so that all are left out"
        return put(scope, "groups.exclude", [".*"], "different", said)
    return _list("groups.include")(setting, scope, value)


def _switch(key: str) -> Handler:
    """A boolean that is carried with either value."""

    def handler(setting: Setting, scope: FlowScope, value: str) -> Verdict:
        if value.lower() not in ("true", "false"):
            return not_possible(f"neither true nor false; write {key} yourself")
        return put(scope, key, true(value), setting.fate, setting.why)

    return handler


def _number(key: str, unit: str = "", why: str = "") -> Handler:
    """A whole number; with a unit it becomes a duration."""

    def handler(setting: Setting, scope: FlowScope, value: str) -> Verdict:
        if not NUMBER.fullmatch(value):
            return not_possible(f"not a whole number; write {key} yourself")
        return put(scope, key, f"{value}{unit}" if unit else int(value), setting.fate, why)

    return handler


def _policy(setting: Setting, scope: FlowScope, value: str) -> Verdict:
    known = POLICIES.get(value)
    if known is None:
        return not_possible(
            "mirror has default and identity, and runs no Java class; write the template remote_topic yourself, or the "
            "same class in Python, with its path as replication_policy"
        )
    return put(scope, "replication_policy", known, setting.fate)


def _class(setting: Setting, scope: FlowScope, value: str) -> Verdict:
    """A class that can be exchanged: MirrorMaker's own needs nothing."""
    if value in {f"{package}{setting.default}" for package in OWN_CLASSES}:
        return Verdict("not needed", "it is MirrorMaker's own class, which mirror does the work of")
    return of_table(setting)


def _separator(setting: Setting, scope: FlowScope, value: str) -> Verdict:
    return put(scope, "separator", value, setting.fate)


def _exactly_once(setting: Setting, scope: FlowScope, value: str) -> Verdict:
    if value.lower() in ("enabled", "required"):
        return put(scope, "exactly_once", True, setting.fate)
    return Verdict(
        "different", "mirror is exactly-once by default; exactly_once: false is for targets without transactions"
    )


def _location(setting: Setting, scope: FlowScope, value: str) -> Verdict:
    if value.lower() == "target":
        return Verdict("not needed", "mirror always writes to the target, under the same name and in the same format")
    return of_table(setting)


def _tolerance(setting: Setting, scope: FlowScope, value: str) -> Verdict:
    if value.lower() == "all":
        return put(scope, "on_poison_record", "skip", "different", setting.why)
    return Verdict("not needed", "fail is the default of on_poison_record, too")


def _start(setting: Setting, scope: FlowScope, value: str) -> Verdict:
    if value.lower() in ("earliest", "latest"):
        return put(scope, "start", value.lower(), setting.fate, setting.why)
    return not_possible(
        "start must be earliest, latest or a time; if the source has lost records, on_data_loss decides"
    )


def _always(setting: Setting, scope: FlowScope, value: str) -> Verdict:
    """A switch for what mirror always does."""
    if true(value):
        return of_table(setting)
    return not_possible(f"it can't be switched off: {setting.why}")


HANDLERS: Mapping[str, Handler] = {
    "topics": _topics,
    "topics.exclude": _exclude,
    "topics.blacklist": _exclude,
    "groups": _groups,
    "groups.exclude": _excluded_groups,
    "groups.blacklist": _excluded_groups,
    "replication.policy.class": _policy,
    "replication.policy.separator": _separator,
    "topic.filter.class": _class,
    "group.filter.class": _class,
    "config.property.filter.class": _class,
    "forwarding.admin.class": _class,
    "replication.factor": _number("replication_factor"),
    "offset-syncs.topic.replication.factor": _number(
        "internal_replication_factor", why=CONNECTORS["offset-syncs.topic.replication.factor"].why
    ),
    "checkpoints.topic.replication.factor": _number("internal_replication_factor", why=ONE_FACTOR),
    "heartbeats.topic.replication.factor": _number(
        "internal_replication_factor", why=CONNECTORS["heartbeats.topic.replication.factor"].why
    ),
    "offset-syncs.topic.location": _location,
    "offset.lag.max": _number("offset_lag_max"),
    "refresh.topics.interval.seconds": _number("refresh_topics_interval", "s"),
    "refresh.topics.enabled": _always,
    "emit.offset-syncs.enabled": _always,
    "exactly.once.source.support": _exactly_once,
    "exactly.once.support": _exactly_once,
    "errors.tolerance": _tolerance,
    "sync.topic.configs.enabled": _switch("sync_topic_configs"),
    "sync.topic.configs.interval.seconds": _number("sync_topic_configs_interval", "s"),
    "config.properties.exclude": _configs,
    "config.properties.blacklist": _configs,
    "use.defaults.from": _defaults,
    "sync.topic.acls.enabled": _switch("sync_acls"),
    "sync.topic.acls.interval.seconds": _number("sync_acls_interval", "s"),
    "refresh.groups.enabled": _always,
    "emit.checkpoints.enabled": _switch("groups.checkpoints"),
    "emit.checkpoints.interval.seconds": _number("groups.interval", "s", ONE_INTERVAL),
    "sync.group.offsets.enabled": _switch("groups.sync"),
    "sync.group.offsets.interval.seconds": _number("groups.interval", "s", ONE_INTERVAL),
    "emit.heartbeats.enabled": _switch("heartbeats.enabled"),
    "emit.heartbeats.interval.seconds": _number("heartbeats.interval", "s"),
}

# Client properties that are a flow's key in mirror.
CLIENT_HANDLERS: Mapping[str, Handler] = {
    "auto.offset.reset": _start,
    "transaction.timeout.ms": _number("transaction_timeout", "ms"),
    "compression.type": lambda setting, scope, value: put(scope, "compression", value.lower(), setting.fate),
}
