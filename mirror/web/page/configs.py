"""The configurations of a flow's remote topics on the status page."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from mirror.status.config_overview import ConfigsView, ConfigView
from mirror.text import duration, plural
from mirror.web.page.markup import Child, folded, tag

CONFIGS_MAX = 200  # rows; /status has all topics
_HEADS = ("topic", "remote topic", "to be changed", "why it is not in step")


def configs(flow: str, view: ConfigsView | None, now: float, opened: frozenset[str]) -> Element | None:
    """The topics whose configuration is not in step, closed until somebody opens them; nothing if there is none.

    Or that another flow keeps the configurations in step.
    """
    key = f"configurations {flow}"  # no topic's name has a space
    if view is not None and view.kept_by:
        said = f"Topic configurations are left alone, because the flow {view.kept_by} brings them the other way."
        return tag("p", said, class_="quiet")
    if view is None or not view.topics:
        return None
    more = len(view.topics) - CONFIGS_MAX
    found = "not all are compared yet" if view.at is None else f"compared {duration(max(0.0, now - view.at))} ago"
    summary: list[Child] = [
        tag("b", plural(len(view.topics), "topic configuration")),
        " not in step, ",
        tag("small", found),
    ]
    return folded(key, opened, summary, _HEADS, [_row(each) for each in view.topics[:CONFIGS_MAX]], more)


def _row(topic: ConfigView) -> Element:
    return tag(
        "tr",
        tag("th", topic.topic, scope="row"),
        tag("td", topic.remote),
        tag("td", "; ".join(topic.differences)),
        tag("td", tag("small", topic.reason) if topic.reason else None),
    )
