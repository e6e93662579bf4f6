"""The consumer groups of a flow on the status page."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from mirror.status.group_overview import GroupsView, GroupView
from mirror.text import count, duration, plural
from mirror.web.page.markup import Child, folded, tag

GROUPS_MAX = 200  # rows; /status has all groups
_HEADS = ("group", "lag on the source", "partitions", "in step", "not exact, because")


def groups(flow: str, view: GroupsView | None, now: float, opened: frozenset[str]) -> Element | None:
    """The groups, closed until somebody opens them. Those whose offset is not exact everywhere come first."""
    key = f"groups {flow}"  # no topic's name has a space
    if view is None or view.at is None or not (view.groups or view.left_out):
        return None
    ordered = sorted(view.groups, key=lambda group: (not group.reasons, group.group))
    left_out = [_left_out(*each) for each in view.left_out.items()]
    more = len(ordered) + len(left_out) - GROUPS_MAX
    inexact = sum(bool(group.reasons) for group in ordered)
    rows = [*left_out[:GROUPS_MAX], *(_row(each, now) for each in ordered[: max(0, GROUPS_MAX - len(left_out))])]
    done = "synced" if view.synced else "translated"
    found = f"{done} {duration(max(0.0, now - view.at))} ago" + (f", {inexact} not exact everywhere" if inexact else "")
    found += f", {len(left_out)} left out" if left_out else ""
    summary: list[Child] = [tag("b", plural(len(ordered), "consumer group")), " ", tag("small", found)]
    return folded(key, opened, summary, _HEADS, rows, more)


def _row(group: GroupView, now: float) -> Element:
    """One group. It is in step when all its offsets stand on the target; nothing is said where that was never seen."""
    outcomes = ", ".join(f"{number} {outcome}" for outcome, number in group.partitions_by_outcome.items() if number)
    return tag(
        "tr",
        tag("th", group.group, scope="row"),
        tag("td", count(group.lag), class_="n"),
        tag("td", outcomes),
        tag("td", f"{duration(max(0.0, now - group.synced_at))} ago" if group.synced_at is not None else None),
        tag("td", tag("small", "; ".join(group.reasons)) if group.reasons else None),
    )


def _left_out(group: str, reason: str) -> Element:
    """A group that mirror does not sync at all."""
    return tag("tr", tag("th", group, scope="row"), tag("td"), tag("td", "left out"), tag("td"), tag("td", reason))
