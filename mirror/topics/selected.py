"""Which of the source's topics a flow mirrors, for commands and rounds, which do not look for topics themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mirror.control.newest_plan import newest_plan
from mirror.naming import ReplicationPolicy
from mirror.settings import Flow
from mirror.topic_selection import TopicSelection, select_topics


def selected(flow: Flow, topics: Iterable[str]) -> TopicSelection:
    """Select the source's topics to mirror, as a service of the flow would now.

    Raises ClusterAway, ForeignPlan, and FlowError if a replication policy of the user's own does not answer.
    """

    def holders() -> Mapping[str, str]:
        plan, _ = newest_plan(flow)
        return plan.holders if plan else {}

    return select_topics(ReplicationPolicy.of(flow), topics, holders)
