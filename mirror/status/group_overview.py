"""The consumer groups of a flow as plain data, after the last round over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mirror.groups.group_choice import Outcome
from mirror.groups.group_rounds import Round
from mirror.groups.group_sync import GroupOffset

REASONS = 3  # of a group that are shown
GROUP_OUTCOMES = tuple(outcome.value for outcome in Outcome)


@dataclass(frozen=True, slots=True)
class GroupView:
    """One consumer group of the source."""

    group: str
    lag: int | None  # records on the source that it has not read; None: not known for all partitions
    partitions_by_outcome: dict[str, int]
    reasons: list[str]  # of the first partitions whose offset is not exact


@dataclass(frozen=True, slots=True)
class GroupsView:
    """All groups of a flow."""

    at: float  # when the round ended, in seconds since the Unix epoch
    synced: bool  # are the offsets committed on the target?
    groups: list[GroupView]


def groups_view(found: Round) -> GroupsView:
    """The groups of a round, by name."""
    by_group: dict[str, list[GroupOffset]] = {name: [] for name in found.refused}
    for each in found.offsets:
        by_group.setdefault(each.group, []).append(each)
    groups = [_group(name, some, found.refused.get(name)) for name, some in sorted(by_group.items())]
    return GroupsView(found.at, found.synced, groups)


def _group(name: str, offsets: Sequence[GroupOffset], refused: str | None) -> GroupView:
    """`refused`: why the source does not give some or all of its offsets. They count as one partition."""
    counts = Counter(each.outcome.value for each in offsets)
    known = [each.lag for each in offsets if each.lag is not None]
    reasons = [f"{each.partition}: {each.reason}" for each in offsets if each.reason]
    if refused is not None:
        counts[Outcome.DENIED.value] += 1
        reasons.insert(0, refused)
    lag = sum(known) if len(known) == len(offsets) and refused is None else None
    return GroupView(name, lag, {outcome: counts[outcome] for outcome in GROUP_OUTCOMES}, reasons[:REASONS])
