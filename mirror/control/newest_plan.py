"""What a flow's newest plan says: for commands and rounds, which do not follow the control topic."""

from __future__ import annotations

from contextlib import closing

from mirror.control.control_reader import ControlReader
from mirror.control.orders import Orders
from mirror.control.plan import Plan
from mirror.kafka.cluster import ClusterAdmin
from mirror.settings import Flow


def newest_plan(flow: Flow) -> tuple[Plan | None, Orders]:
    """Read the newest plan and the orders; no plan if no service has run the flow. Raises ClusterAway, ForeignPlan."""
    if flow.control_topic not in ClusterAdmin(flow.target).partitions():
        return None, {}
    with closing(ControlReader(flow)) as control:
        control.read_to_end()
        return control.plan, control.orders
