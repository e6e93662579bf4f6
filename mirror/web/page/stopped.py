"""The lists of a flow's partitions that are not copied as they should be: by an error, or by an open transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from xml.etree.ElementTree import Element

from mirror.status.overview import FlowView, PartitionView
from mirror.text import count, duration, plural
from mirror.web.page.markup import Child, tag

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
        some = [(topic.topic, p) for topic in flow.topics for p in topic.partitions if p.state == state]
        if some:
            yield _list(some, state, expect, f"stopped-by-error {state}", lambda p: _since(p, now))


def held_back(flow: FlowView) -> Element | None:
    """The partitions of which an open transaction on the source holds records back; None if there are none."""
    some = [(topic.topic, p) for topic in flow.topics for p in topic.partitions if p.held_back]
    if not some:
        return None
    what = f"held back by open transactions on {flow.source}"
    expect = "No read_committed consumer gets past them. Copying continues when they end."
    return _list(some, what, expect, "held", lambda _: ())


def _list(
    some: Sequence[tuple[str, PartitionView]],
    what: str,
    expect: str,
    kind: str,
    details: Callable[[PartitionView], Sequence[Child]],
) -> Element:
    """The first partitions, each with its topic, and how many there are. `details` come before a partition's reason."""
    more = len(some) - LISTED_MAX
    items = [
        tag("li", tag("b", f"{topic}-{p.partition}"), *details(p), tag("span", p.reason, class_="reason"))
        for topic, p in some[:LISTED_MAX]
    ]
    return tag(
        "div",
        tag("h3", f"{plural(len(some), 'partition')} {what}"),
        tag("p", expect),
        tag("ul", *items),
        tag("p", f"and {count(more)} more") if more > 0 else None,
        class_=kind,
    )


def _since(partition: PartitionView, now: float) -> Sequence[Child]:
    where = f"at offset {partition.position}, " if partition.position is not None else ""
    since = f"{where}for {duration(now - partition.since)}" if partition.since else where
    return " ", tag("span", since, class_="since")
