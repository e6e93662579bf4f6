"""What a flow's newest plan says: for commands and rounds, which do not follow the control topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing

from mirror.control.control_reader import ControlReader
from mirror.control.orders import Orders
from mirror.control.plan import Plan
from mirror.kafka.cluster import ClusterAdmin
from mirror.naming import ReplicationPolicy, TopicSelection, select_topics
from mirror.settings import Flow


def newest_plan(flow: Flow) -> tuple[Plan | None, Orders]:
    """Read the newest plan and the orders; no plan if no service has run the flow. Raises ClusterAway, ForeignPlan."""
    if flow.control_topic not in ClusterAdmin(flow.target).partitions():
        return None, {}
    with closing(ControlReader(flow)) as control:
        control.read_to_end()
        return control.plan, control.orders


def selected(flow: Flow, topics: Iterable[str]) -> TopicSelection:
    """Select the source's topics to mirror, as a service of the flow would now. Raises ClusterAway, ForeignPlan."""

    def holders() -> Mapping[str, str]:
        plan, _ = newest_plan(flow)
        return plan.holders if plan else {}

    return select_topics(ReplicationPolicy.of(flow), topics, holders)
