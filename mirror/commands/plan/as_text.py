"""A dry run as text."""

from __future__ import annotations

from itertools import groupby

from mirror.commands.plan.dry_run import DryRun
from mirror.commands.text_table import Cell, table
from mirror.commands.topic_changes import change_lines, obstacle_lines
from mirror.kafka.topic_creation import ANY_TIME
from mirror.naming import some_of
from mirror.target.timestamps import KEEP, REASON
from mirror.text import number, plural

NOT_SHOWN = ANY_TIME | KEEP  # settings that every remote topic gets


def shown(found: DryRun) -> str:
    """The dry run as text: the changes, then a table of the topics."""
    lines = [*_changes(found), *_transformed(found), *_obstacles(found)]
    return "\n".join(
        [*lines, "", _topics_table(found), "", f"{number(found.records)} records to copy (offsets, markers included)"]
    )


def _changes(found: DryRun) -> list[str]:
    lines = [found.flow, ""]
    for name in found.internal:
        lines.append(f"  create {name}, 1 partition, compacted")
    for name in found.on_source:
        lines.append(f"  create {name} on the source, 1 partition, compacted; then copy it")
    for name, (count, config) in found.create.items():
        own = ", ".join(f"{key}={value}" for key, value in sorted(config.items()) if key not in NOT_SHOWN)
        lines.append(f"  create {name}, {plural(count, 'partition')}" + (f", {own}" if own else ""))
    for name, (before, after) in found.grow.items():
        lines.append(f"  add partitions to {name}: {before} -> {after}")
    lines += [f"  {line}" for line in change_lines(found.configs, found.acls)]
    if len(lines) == 2:
        lines.append("  nothing to create or change on the target")
    return lines


def _transformed(found: DryRun) -> list[str]:
    topics: dict[str, list[str]] = {}
    for name, path in sorted({(p.topic, p.transform) for p in found.partitions if p.transform is not None}):
        topics.setdefault(path, []).append(name)
    return [f"  {path} drops or changes records of {some_of(names)}" for path, names in topics.items()]


def _topics_table(found: DryRun) -> str:
    rows: list[list[Cell]] = []
    for topic, group in groupby(found.partitions, lambda partition: partition.topic):
        some = list(group)
        committed = sum(p.committed for p in some)
        paused = sum(p.paused for p in some)
        records = sum(p.records or 0 for p in some if not p.blocked)
        rows.append([topic, some[0].remote_topic, len(some), committed, paused, records, sum(p.lost for p in some)])
    headers = ("topic", "remote topic", "partitions", "with position", "paused", "to copy", "lost")
    return table(headers, rows)


def _obstacles(found: DryRun) -> list[str]:
    lines = [f"  REFUSED: {text}" for text in found.refusals]
    lines += [f"  WARNING: {text}" for text in found.warnings]
    for name in sorted({p.topic for p in found.partitions if p.recreated}):
        follows = "on_data_loss decides whether its partitions are blocked or start again"
        lines.append(f"  {name} was deleted and created again: {follows}")
    for name, some_blocked in groupby(found.blocked, lambda partition: partition.topic):
        first, *others = some_blocked
        more = f" (and {plural(len(others), 'more partition')})" if others else ""
        lines.append(f"  {name}-{first.partition} would be blocked{more}: {first.blocked}")
    if found.replacing:
        lines.append(f"  nothing is copied to {some_of(found.replacing)}: {REASON}")
    lines += [f"  {line}" for line in obstacle_lines(found.configs, found.acls)]
    for reason, names in (*found.unnamed.items(), *found.left_out.items()):
        lines.append(f"  not copied, {plural(len(names), 'topic')}: {some_of(names)}: {reason}")
    return lines
