"""`mirror status --groups`: how the consumer groups of the source stand on the target, asked of the clusters now.

Nothing is committed. The service's page and metrics show the same from its last round, with that round's age.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from mirror.commands.text_table import Cell, table
from mirror.errors import MirrorError
from mirror.groups.group_choice import GroupOutcome
from mirror.groups.group_sync import GroupOffset, GroupSync
from mirror.groups.translator import AT_LEAST_ONCE
from mirror.settings import Flow
from mirror.text import ABSENT, printable


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The groups of one flow; `reason` says why nothing is known of them, "" if it is."""

    flow: str
    offsets: tuple[GroupOffset, ...]
    reason: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)  # groups whose offsets the source does not give, and why
    left_out: Mapping[str, str] = field(default_factory=dict)  # groups that are no consumer groups, and why

    def as_dict(self) -> dict[str, Any]:
        """The groups as they are printed with --json."""
        offsets = [_as_dict(each) for each in self.offsets]
        others = {"refused": dict(self.refused), "left_out": dict(self.left_out)}
        return {"reason": self.reason, "offsets": offsets, **others}


def read_groups(flow: Flow) -> GroupStatus:
    """Translate the offsets of all groups that the flow's `groups` include."""
    if not flow.exactly_once:
        return GroupStatus(flow.name, (), AT_LEAST_ONCE)
    try:
        with closing(GroupSync(flow, commits=False)) as sync:
            found = tuple(sync.round(renew_interval=0.0))
            return GroupStatus(flow.name, found, refused=sync.refused, left_out=sync.left_out)
    except MirrorError as error:
        return GroupStatus(flow.name, (), str(error))


def shown(status: GroupStatus) -> str:
    """The groups as a table, one line for each group and partition."""
    if status.reason or not (status.offsets or status.refused or status.left_out):
        return f"groups: {printable(status.reason) or 'none has committed offsets of mirrored topics'}"
    rows: list[list[Cell]] = [
        [
            each.group,
            str(each.partition),
            each.upstream.offset,
            each.lag,
            each.downstream,
            each.committed,
            each.outcome.value,
            each.reason or ABSENT,
        ]
        for each in status.offsets
    ]
    for some, outcome in ((status.refused, GroupOutcome.DENIED.value), (status.left_out, "left out")):
        rows += [[name, *[ABSENT] * 5, outcome, reason] for name, reason in sorted(some.items())]
    heads = ["group", "partition", "offset", "lag", "translated", "on the target", "outcome", "reason"]
    return table(heads, rows)


def _as_dict(offset: GroupOffset) -> dict[str, Any]:
    return {
        "group": offset.group,
        "topic": offset.partition.topic,
        "partition": offset.partition.partition,
        "offset": offset.upstream.offset,
        "metadata": offset.upstream.text,
        "lag": offset.lag,
        "translated": offset.downstream,
        "committed": offset.committed,
        "outcome": offset.outcome.value,
        "reason": offset.reason,
    }
