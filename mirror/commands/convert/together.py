"""What becomes of a setting because of other settings of the same flow. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from mirror.commands.convert.entries import FlowScope, true
from mirror.commands.convert.flow_keys import NUMBER, POLICIES, judge, put
from mirror.commands.convert.group_settings import ONE_FACTOR, ONE_INTERVAL
from mirror.commands.convert.setting import CARRIED
from mirror.commands.convert.table import CONNECTORS
from mirror.commands.convert.verdict import Verdict, not_possible

Values = Mapping[str, str]  # the settings of one flow, by their names
Rule = Callable[[FlowScope, Values], Verdict | None]

SEPARATOR = "replication.policy.separator"
CHECKPOINTS = "emit.checkpoints.enabled"
SYNC = "sync.group.offsets.enabled"
HEARTBEATS = "emit.heartbeats.enabled"
CHECKPOINTS_INTERVAL = "emit.checkpoints.interval.seconds"
SYNC_INTERVAL = "sync.group.offsets.interval.seconds"
HEARTBEATS_INTERVAL = "emit.heartbeats.interval.seconds"
SYNCS_FACTOR = "offset-syncs.topic.replication.factor"
CHECKPOINTS_FACTOR = "checkpoints.topic.replication.factor"
HEARTBEATS_FACTOR = "heartbeats.topic.replication.factor"


def overruled(name: str, scope: FlowScope, values: Values) -> Verdict | None:
    """What other settings of the flow make of this one; None if only its own value counts."""
    rule = RULES.get(name)
    return rule(scope, values) if rule else None


def _is_on(name: str, values: Values) -> bool:
    """True if MirrorMaker does it, be it by default."""
    return true(values.get(name, CONNECTORS[name].default))


def _asks_for_heartbeats(values: Values) -> bool:
    """True if the input itself asks: MirrorMaker's default does not count."""
    return true(values.get(HEARTBEATS, ""))


def _number(name: str, values: Values, default: str = "") -> int | None:
    value = values.get(name, default)
    return int(value) if NUMBER.fullmatch(value) else None


def _separator(scope: FlowScope, values: Values) -> Verdict | None:
    if POLICIES.get(values.get("replication.policy.class", "")) != "identity":
        return None
    found = judge(SEPARATOR, scope, values[SEPARATOR])
    if found.fate not in CARRIED or values[SEPARATOR] == CONNECTORS[SEPARATOR].default:
        return Verdict("not needed", "identity puts nothing before the name")
    said = "identity puts nothing before the name, but heartbeats and MirrorMaker's own topics have it in their names"
    return replace(found, fate="different", why=said)


def _old_name(new: str) -> Rule:
    def rule(scope: FlowScope, values: Values) -> Verdict | None:
        return Verdict("not needed", f"{new} takes precedence") if new in values else None

    return rule


def _excluded_groups(scope: FlowScope, values: Values) -> Verdict | None:
    none = "groups" in values and not values["groups"].replace(",", "").strip()
    return Verdict("not needed", "groups is empty, so no group is left") if none else None


def _old_excluded_groups(scope: FlowScope, values: Values) -> Verdict | None:
    return _old_name("groups.exclude")(scope, values) or _excluded_groups(scope, values)


def _sync(scope: FlowScope, values: Values) -> Verdict | None:
    if _is_on(SYNC, values) and not _is_on(CHECKPOINTS, values):
        said = f"MirrorMaker syncs no group while {CHECKPOINTS} is false, and mirror does"
        return put(scope, "groups.sync", True, "different", said)
    return None


def _interval(name: str, switch: str, other: str, other_switch: str) -> Rule:
    def rule(scope: FlowScope, values: Values) -> Verdict | None:
        if not _is_on(switch, values):
            return Verdict("not needed", f"{switch} is false")
        own, others = _number(name, values), _number(other, values, CONNECTORS[other].default)
        if own is None or others is None or own <= others or not _is_on(other_switch, values):
            return None
        return Verdict("different", f"{ONE_INTERVAL}: {others} s of {other}")

    return rule


def _factor(name: str, other: str) -> Rule:
    def rule(scope: FlowScope, values: Values) -> Verdict | None:
        if name == CHECKPOINTS_FACTOR and not _is_on(CHECKPOINTS, values):
            return Verdict("not needed", f"{CHECKPOINTS} is false")
        if other == CHECKPOINTS_FACTOR and not _is_on(CHECKPOINTS, values):
            return None
        own, others = _number(name, values), _number(other, values)
        if own is None or others is None or own >= others:
            return None
        return Verdict("different", f"{ONE_FACTOR}: {others} of {other}")

    return rule


def _heartbeats_interval(scope: FlowScope, values: Values) -> Verdict | None:
    if HEARTBEATS in values and not _asks_for_heartbeats(values):
        return Verdict("not needed", f"{HEARTBEATS} is false")
    found = judge(HEARTBEATS_INTERVAL, scope, values[HEARTBEATS_INTERVAL])
    if found.fate not in CARRIED or _asks_for_heartbeats(values):
        return found
    return replace(found, why=f"heartbeats stay off, because the input does not ask for them with {HEARTBEATS} = true")


def _heartbeats_factor(scope: FlowScope, values: Values) -> Verdict | None:
    if not _asks_for_heartbeats(values):
        return Verdict("not needed", f"mirror writes no heartbeats here: {HEARTBEATS} is not true in the input")
    names = [SYNCS_FACTOR, *([CHECKPOINTS_FACTOR] if _is_on(CHECKPOINTS, values) else [])]
    numbers = [each for name in names if (each := _number(name, values)) is not None]
    own = _number(HEARTBEATS_FACTOR, values)
    if own is None or own == max(numbers, default=-1):
        return None
    return not_possible(
        "internal_replication_factor holds for the topics on the target, too; to have another number here, create the "
        f"topic heartbeats on {scope.source} before mirror starts"
    )


def _replicated_heartbeats(scope: FlowScope, values: Values) -> Verdict | None:
    if true(values["heartbeats.replication.enabled"]):
        return Verdict("not needed", "mirror does the same") if _asks_for_heartbeats(values) else None
    if _asks_for_heartbeats(values):
        return not_possible("mirror always copies the heartbeats that it writes")
    return Verdict("not needed", "without heartbeats of its own, mirror copies what topics and exclude say")


RULES: Mapping[str, Rule] = {
    SEPARATOR: _separator,
    "topics.blacklist": _old_name("topics.exclude"),
    "config.properties.blacklist": _old_name("config.properties.exclude"),
    "groups.exclude": _excluded_groups,
    "groups.blacklist": _old_excluded_groups,
    SYNC: _sync,
    CHECKPOINTS_INTERVAL: _interval(CHECKPOINTS_INTERVAL, CHECKPOINTS, SYNC_INTERVAL, SYNC),
    SYNC_INTERVAL: _interval(SYNC_INTERVAL, SYNC, CHECKPOINTS_INTERVAL, CHECKPOINTS),
    SYNCS_FACTOR: _factor(SYNCS_FACTOR, CHECKPOINTS_FACTOR),
    CHECKPOINTS_FACTOR: _factor(CHECKPOINTS_FACTOR, SYNCS_FACTOR),
    HEARTBEATS_INTERVAL: _heartbeats_interval,
    HEARTBEATS_FACTOR: _heartbeats_factor,
    "heartbeats.replication.enabled": _replicated_heartbeats,
}
