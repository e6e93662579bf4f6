"""The last events of a flow, on the status page."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from mirror.status.overview import EventView
from mirror.text import plural, time_of_day
from mirror.web.page.markup import tag


def events(views: Sequence[EventView]) -> Element | None:
    """What has happened, the newest first; nothing if nothing has."""
    if not views:
        return None
    return tag("div", tag("h3", "What happened"), tag("ol", *(_event(event) for event in views)), class_="events")


def _event(event: EventView) -> Element:
    what = f"{event.topic}-{event.partition}" if event.topic is not None else "the flow"
    others = f" and {plural(event.others, 'other')}" if event.others else ""
    said = event.reason or ("runs again" if event.state == "running" else f"is {event.state} again")
    return tag(
        "li",
        tag("time", time_of_day(event.at)),
        tag("i", class_=f"dot {event.state}"),
        tag("b", what + others),
        f" {said}",
    )
