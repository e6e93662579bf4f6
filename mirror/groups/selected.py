"""Which of the source's topics a flow mirrors, for commands and rounds, which do not look for topics themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mirror.control.newest_plan import newest_plan
from mirror.naming import ReplicationPolicy
from mirror.settings import Flow
from mirror.topic_selection import MOVED, TopicSelection, select_topics

NOT_MIRRORED = "the topic is not mirrored"  # the begin of a reason


def selected(flow: Flow, topics: Iterable[str]) -> TopicSelection:
    """Select the source's topics to mirror, as a service of the flow would now.

    Raises ClusterAway, ForeignPlan, and FlowError if a replication policy of the user's own does not answer.
    """

    def holders() -> Mapping[str, str]:
        plan, _ = newest_plan(flow)
        return plan.holders if plan else {}

    return select_topics(ReplicationPolicy.of(flow), topics, holders)


def unmirrored(flow: Flow, topics: Iterable[str]) -> dict[str, str]:
    """Those of these source topics whose offsets can't be translated, as the flow does not mirror them; and why.

    The reason is "" for a topic that nothing selects. A topic whose copy keeps an older name of a user's own policy is
    not among them: its copy is known. It raises what `selected` does.
    """
    asked = set(topics)
    found = selected(flow, asked)
    why = {topic: reason for some in (found.left_out, found.unnamed) for reason in some for topic in some[reason]}
    return {topic: why.get(topic, "") for topic in sorted(asked - found.remotes.keys()) if why.get(topic) != MOVED}


def not_mirrored(why: str) -> str:
    """The reason for an offset that is not translated, for people: `why` as `unmirrored` gives it."""
    return f"{NOT_MIRRORED}: {why}" if why else NOT_MIRRORED
