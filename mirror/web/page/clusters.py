"""The clusters of a service's flows, on the status page."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from mirror.status.cluster_status import ClusterView
from mirror.text import ABSENT, count, moment
from mirror.web.page.markup import table, tag

_HEADS = ("cluster", "answers", "failed logins", "certificates expire")
_ANSWERS = {None: ABSENT, True: "yes", False: "no"}


def clusters(views: Sequence[ClusterView]) -> Element | None:
    """The part that shows whether each cluster answers this service; nothing if none is watched."""
    if not views:
        return None
    rows = tag("div", table(_HEADS, (_row(each) for each in views)), class_="scroll")
    return tag("section", tag("h2", "Clusters"), rows, class_="flow", id="clusters")


def _row(view: ClusterView) -> Element:
    return tag(
        "tr",
        tag("th", view.alias, scope="row"),
        tag("td", _ANSWERS[view.reachable], tag("small", view.reason) if view.reason else None),
        tag("td", count(view.authentication_errors), class_="n"),
        tag("td", ", ".join(f"{kind} {moment(at)}" for kind, at in view.certificates.items()) or ABSENT),
    )
