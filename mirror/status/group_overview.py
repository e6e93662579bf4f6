"""The consumer groups of a flow as plain data, after the last round over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from mirror.groups.group_choice import GroupOutcome
from mirror.groups.group_rounds import Round
from mirror.groups.group_sync import GroupOffset

REASONS = 3  # of a group that are shown
GROUP_OUTCOMES = tuple(outcome.value for outcome in GroupOutcome)


@dataclass(frozen=True, slots=True)
class GroupView:
    """One consumer group of the source."""

    group: str
    lag: int | None  # records on the source that it has not read; None: not known for all partitions
    partitions_by_outcome: dict[str, int]
    reasons: list[str]  # of the first partitions whose offset is not exact
    synced_at: float | None  # when all its offsets last stood on the target, in seconds since the Unix epoch


@dataclass(frozen=True, slots=True)
class GroupsView:
    """All groups of a flow."""

    at: float | None  # when the last round ended, in seconds since the Unix epoch; None: none has ended yet
    problem: str  # why the newest round has failed; "" if it has not
    synced: bool  # are the offsets committed on the target?
    groups: list[GroupView]
    left_out: dict[str, str]  # groups that are no consumer groups, and why they are not synced


_views: WeakKeyDictionary[Round, GroupsView] = WeakKeyDictionary()


def groups_view(found: Round) -> GroupsView:
    """The groups of a round, by name. There may be tens of thousands, so many scrapes and pages share one view."""
    view = _views.get(found)
    if view is None:
        view = _views[found] = _view(found)
    return view


def _view(found: Round) -> GroupsView:
    by_group: dict[str, list[GroupOffset]] = {name: [] for name in found.refused}
    for each in found.offsets:
        by_group.setdefault(each.group, []).append(each)
    groups = [_group(name, some, found) for name, some in sorted(by_group.items())]
    left_out = dict(sorted(found.left_out.items()))
    return GroupsView(found.ended_at, found.problem, found.synced, groups, left_out)


def _group(name: str, offsets: Sequence[GroupOffset], found: Round) -> GroupView:
    """The offsets that the source does not give count as one partition."""
    refused = found.refused.get(name)
    counts = Counter(each.outcome.value for each in offsets)
    known = [each.lag for each in offsets if each.lag is not None]
    reasons = [f"{each.partition}: {each.reason}" for each in offsets if each.reason]
    if refused is not None:
        counts[GroupOutcome.DENIED.value] += 1
        reasons.insert(0, refused)
    lag = sum(known) if len(known) == len(offsets) and refused is None else None
    outcomes = {outcome: counts[outcome] for outcome in GROUP_OUTCOMES}
    return GroupView(name, lag, outcomes, reasons[:REASONS], found.synced_at.get(name))
