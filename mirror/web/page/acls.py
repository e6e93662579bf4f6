"""The ACLs of a flow that remote topics do not have as they are, on the status page."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from mirror.naming import some_of
from mirror.status.acl_overview import AclsView, AclView
from mirror.text import duration, plural
from mirror.topics.acl_rules import UNNAMED
from mirror.web.page.markup import Child, folded, tag

ACLS_MAX = 200  # rows; /status has all of them
_HEADS = ("ACL on the source", "on the target", "because")


def acls(flow: str, view: AclsView | None, now: float, opened: frozenset[str]) -> Element | None:
    """The ACLs that are not copied as they are, closed until somebody opens them; nothing if there is none."""
    key = f"ACLs {flow}"  # no topic's name has a space
    if view is None or view.at is None or not view.acls:
        return None
    more = len(view.acls) - ACLS_MAX
    found = f"compared {duration(max(0.0, now - view.at))} ago"
    summary: list[Child] = [
        tag("b", plural(len(view.acls), "ACL")),
        " not copied as on the source, ",
        tag("small", found),
    ]
    return folded(key, opened, summary, _HEADS, [_row(each) for each in view.acls[:ACLS_MAX]], more)


def unnamed_principals_line(view: AclsView | None) -> Element | None:
    """The principals of copied ACLs that the target may lack; nothing if there is none."""
    if view is None or not view.unnamed_principals:
        return None
    names = view.unnamed_principals
    return tag("p", f"ACLs for {plural(len(names), 'principal')}: {some_of(names)}: {UNNAMED}", class_="quiet")


def _row(view: AclView) -> Element:
    outcome = view.outcome.replace("_", " ")
    return tag("tr", tag("th", view.acl, scope="row"), tag("td", outcome), tag("td", tag("small", view.reason)))
