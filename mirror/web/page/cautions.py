"""What is shown at the top of a flow on the status page so that nobody overlooks it."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from mirror.control.verification import Verification
from mirror.status.canary import CanaryStatus
from mirror.status.overview import FlowView
from mirror.status.retention import Retention
from mirror.text import count, duration, plural
from mirror.web.page.markup import tag

SHORT = 0.5  # part of a topic's retention after which the page says how much is left


def missing(flow: FlowView) -> Element | None:
    """What the target lacks of what the flow selects; nothing if it has all of it."""
    found = flow.coverage
    if found is None or found.is_complete:
        return None
    lacking = f"{count(found.topics - found.remote_topics)} of {plural(found.topics, 'topic')}"
    parts = f"{count(found.partitions - found.remote_partitions)} of {plural(found.partitions, 'partition')}"
    said = f"The mirror is not complete: {flow.target} lacks {lacking}, and {parts} that the flow selects."
    return tag("p", said, class_="problem")


def no_topics(flow: FlowView) -> Element:
    """Says that the flow has no topic. `/readyz` does not: they may be made later."""
    if flow.state != "running" or (flow.coverage is not None and flow.coverage.topics):
        return tag("p", "Nothing is copied yet.", class_="quiet")
    said = f"The flow mirrors nothing: no topic of {flow.source} that mirror may see matches."
    return tag("p", f"{said} Look at topics and exclude, and at Describe.", class_="problem")


def unequal(found: Verification | None, now: float) -> Element | None:
    """What the last comparison of all records has found, and when; nothing if none is known."""
    if found is None:
        return None
    ago = f"{duration(max(0.0, now - found.at))} ago"
    if found.equal:
        return tag("p", f"mirror verify found source and target equal {ago}.", class_="quiet")
    said = f"mirror verify found source and target not equal {ago}: {plural(found.differences, 'difference')}."
    if not found.differences:
        said = (
            f"mirror verify did not find source and target equal {ago}. No record differs; its answer has the reason."
        )
    return tag("p", said, class_="problem")


def expiring(found: Retention | None) -> Element | None:
    """How long the source keeps what is not copied yet; nothing while more than half of that time is left."""
    if found is None or found.worst.used < SHORT:
        return None
    worst = found.worst
    left = f"in {duration(worst.seconds)}" if worst.seconds > 0 else "at any moment"
    said = f"The source may delete records of {worst.topic}-{worst.partition} {left} that are not copied yet."
    return tag("p", said, class_="problem")


def canary(found: CanaryStatus | None, now: float) -> Element | None:
    """How old the last canary is that has arrived, and how long it took; nothing without a canary."""
    if found is None:
        return None
    age, reason = duration(max(0.0, now - found.at)), f": {found.problem}" if found.problem else ""
    if found.is_late(now):
        return tag("p", f"No canary has arrived for {age}{reason}.", class_="problem")
    if found.seconds is None:
        return tag("p", f"No canary has arrived yet; they have been written for {age}{reason}.", class_="quiet")
    said = f"The last canary was written {age} ago, and arrived after {duration(found.seconds)}{reason}."
    return tag("p", said, class_="quiet")


def failed_rounds(flow: FlowView, now: float) -> Iterator[Element]:
    """The kinds of rounds of which none has ended yet, or of which the newest one has failed."""
    kinds = (("consumer groups", flow.groups), ("topic configurations", flow.configs), ("ACLs", flow.acls))
    for what, found in kinds:
        if found is None or (found.at is not None and not found.problem):
            continue
        reason = f": {found.problem}" if found.problem else ""
        said = f"No round over the {what} has ended yet{reason}."
        if found.at is not None:
            said = f"The newest round over the {what} has failed{reason}. "
            said += f"The last one that succeeded ended {duration(max(0.0, now - found.at))} ago."
        yield tag("p", said, class_="problem" if found.problem else "quiet")
