"""The lists of a flow's partitions that are not copied as they should be: by an error, or by an open transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

from mirror.status.overview import FlowView, PartitionView
from mirror.text import duration, plural
from mirror.web.page.markup import tag

LISTED_MAX = 50  # partitions of one list

# What an operator may expect of partitions in a state that an error led to.
_EXPECT = {
    "blocked": "A person has to act: decide with mirror resume, or repair what the reason names. "
    "Nothing is skipped, and the other partitions go on.",
    "retrying": "They try again, and go on by themselves. Nothing is skipped, and the other partitions go on.",
}


def stopped_by_error(flow: FlowView, now: float) -> Iterator[Element]:
    """The partitions that an error has stopped: those that wait for a person, then those that try again."""
    for state, expect in _EXPECT.items():
        items = [
            tag("li", _name(topic.topic, p), " ", tag("span", _since(p, now), class_="since"), _reason(p))
            for topic in flow.topics
            for p in topic.partitions
            if p.state == state
        ]
        if items:
            yield _list(items, state, expect, f"stopped-by-error {state}")


def held_back(flow: FlowView) -> Element | None:
    """The partitions of which an open transaction on the source holds records back; None if there are none."""
    items = [
        tag("li", _name(topic.topic, p), _reason(p)) for topic in flow.topics for p in topic.partitions if p.held_back
    ]
    if not items:
        return None
    what = f"held back by open transactions on {flow.source}"
    return _list(items, what, "No read_committed consumer gets past them. Copying continues when they end.", "held")


def _list(items: Sequence[Element], what: str, expect: str, kind: str) -> Element:
    more = len(items) - LISTED_MAX
    return tag(
        "div",
        tag("h3", f"{plural(len(items), 'partition')} {what}"),
        tag("p", expect),
        tag("ul", *items[:LISTED_MAX]),
        tag("p", f"and {more:,} more") if more > 0 else None,
        class_=kind,
    )


def _name(topic: str, partition: PartitionView) -> Element:
    return tag("b", f"{topic}-{partition.partition}")


def _since(partition: PartitionView, now: float) -> str:
    where = f"at offset {partition.position}, " if partition.position is not None else ""
    return f"{where}for {duration(now - partition.since)}" if partition.since else where


def _reason(partition: PartitionView) -> Element:
    return tag("span", partition.reason, class_="reason")
