"""The table of MirrorMaker 2's settings for consumer groups, checkpoints and heartbeats. Pure data.

The documentation's table is made from this one.
"""

from __future__ import annotations

from mirror.commands.convert.setting import NAMES, OWN_CLASS, Setting

S = Setting

FINDS_GROUPS = "each group round looks for new groups"
ONE_INTERVAL = "one interval for checkpoints and group sync; the shorter one counts"
ONE_FACTOR = "it holds for all of mirror's own topics on the target, the larger number counts; the default is -1"

# The checkpoint connector reads them, and no other.
GROUPS = (
    S("groups", ".*", "renamed", "flows[].groups.include", NAMES),
    S(
        "groups.exclude",
        "console-consumer-.*, connect-.*, __.*",
        "renamed",
        "flows[].groups.exclude",
        "the same default",
    ),
    S("groups.blacklist", "", "renamed", "flows[].groups.exclude", "the old name of groups.exclude"),
    S(
        "group.filter.class",
        "DefaultGroupFilter",
        "not possible",
        "flows[].groups.include",
        OWN_CLASS + "; the default filter is what include and exclude do",
    ),
    S("refresh.groups.enabled", "true", "not needed", "", FINDS_GROUPS),
    S("refresh.groups.interval.seconds", "600", "not needed", "flows[].groups.interval", FINDS_GROUPS),
    S(
        "emit.checkpoints.enabled",
        "true",
        "renamed",
        "flows[].groups.checkpoints",
        "the same default, topic and format; the offsets are exact",
    ),
    S("emit.checkpoints.interval.seconds", "60", "renamed", "flows[].groups.interval", ONE_INTERVAL),
    S("checkpoints.topic.replication.factor", "3", "renamed", "flows[].internal_replication_factor", ONE_FACTOR),
    S(
        "sync.group.offsets.enabled",
        "false",
        "renamed",
        "flows[].groups.sync",
        "the same default; mirror translates exactly, but only offsets of records that it has copied itself",
    ),
    S("sync.group.offsets.interval.seconds", "60", "renamed", "flows[].groups.interval", ONE_INTERVAL),
)

# The heartbeat connector reads them, and no other.
EMITTED = (
    S(
        "emit.heartbeats.enabled",
        "true",
        "different",
        "flows[].heartbeats.enabled",
        "mirror's default is false, because heartbeats need Create, Write, Read and Describe on the source; "
        "in MirrorMaker those of a flow a->b belong to b->a, because they are written to a",
    ),
    S(
        "emit.heartbeats.interval.seconds",
        "1",
        "renamed",
        "flows[].heartbeats.interval",
        "the same default; it does not switch heartbeats on",
    ),
    S(
        "heartbeats.topic.replication.factor",
        "3",
        "different",
        "flows[].internal_replication_factor",
        "mirror has one number for its own topics on the target and the topic heartbeats on the source",
    ),
)

HEARTBEATS = (
    *EMITTED,
    S(
        "heartbeats.replication.enabled",
        "true",
        "different",
        "",
        "with heartbeats: {enabled: true} their topics are copied whatever topics and exclude say; "
        "without it topics and exclude decide",
    ),
)

ROWS = (*GROUPS, *HEARTBEATS)
